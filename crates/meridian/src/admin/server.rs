//! The server of the admin socket: it listens in the process and answers requests.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use listener::{Connection, Limits, Listener};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::{Answer, LONGEST_REQUEST, Request};
use crate::failure::{Exit, Failure, Outcome};
use crate::process::Process;

/// Only the owner of the process can connect. Even so, a client that hangs must not block the next one.
const LIMITS: Limits = Limits {
    connections: 16,
    per_client: 16,
    first_request: Duration::from_secs(10),
    head: Duration::from_secs(10),
    idle: Duration::from_secs(60),
    answer: Duration::from_secs(30),
};

/// The socket in the file system. Dropping this value removes it.
#[derive(Debug)]
pub(crate) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A bound admin socket that does not answer yet.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    listener: UnixListener,
    socket: Socket,
}

impl AdminSocket {
    /// Binds the path.
    pub(crate) async fn bind(path: &Path) -> Outcome<Self> {
        let listener = bind(path).await.map_err(|error| {
            Failure::new(Exit::Local, error)
                .while_(format!("cannot listen on {} for admin requests", path.display()))
                .try_("--admin-socket with another path; its directory must exist")
        })?;
        Ok(Self { listener, socket: Socket(path.to_owned()) })
    }

    /// Answers until the process ends.
    pub(crate) fn start(self, process: Process) -> Socket {
        let Self { listener, socket } = self;
        tracing::info!(socket = %socket.0.display(), "listening for admin requests");
        task::keep("admin", accept(listener, process));
        socket
    }
}

/// Binds the path, and answers requests there until the process ends.
pub(crate) async fn serve(path: &Path, process: Process) -> Outcome<Socket> {
    Ok(AdminSocket::bind(path).await?.start(process))
}

/// Binds a path where no process listens. A socket left behind by a dead process is replaced; any other file at the path is an error.
async fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => match UnixStream::connect(path).await {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(error) => return Err(error),
        },
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path is a file, not a socket"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The socket gets a temporary name first, and its real name only when its mode admits nobody but the owner. Otherwise another user
    // could connect between the two steps.
    let mut early = path.as_os_str().to_owned();
    early.push(format!(".{}", std::process::id()));
    let early = PathBuf::from(early);
    let listener = UnixListener::bind(&early)?;
    let placed = std::fs::set_permissions(&early, std::fs::Permissions::from_mode(0o600))
        .and_then(|()| std::fs::rename(&early, path));
    if placed.is_err() {
        let _ = std::fs::remove_file(&early);
    }
    placed.map(|()| listener)
}

async fn accept(listener: UnixListener, process: Process) {
    let listener = Listener::new(listener, LIMITS);
    let converse = |connection: Connection<UnixStream>| {
        let process = process.clone();
        async move {
            if let Err(error) = converse(connection, &process).await {
                tracing::debug!(%error, "an admin connection failed");
            }
        }
    };
    listener.run(std::future::pending(), converse).await;
}

async fn converse(connection: Connection<UnixStream>, process: &Process) -> io::Result<()> {
    let Connection { stream, activity } = connection;
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut read).take(LONGEST_REQUEST);
        let length = limited.read_until(b'\n', &mut line).await?;
        if length == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n") || (length as u64) < LONGEST_REQUEST;
        activity.begin();
        let answer = if whole {
            answer(&line, process).await
        } else {
            Answer::Error("the request is too long".into())
        };
        activity.done();
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        write.write_all(&text).await?;
        write.flush().await?;
        if !whole {
            return Ok(());
        }
    }
}

async fn answer(line: &[u8], process: &Process) -> Answer {
    let request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return Answer::Error(format!("cannot parse the request: {error}")),
    };
    match request {
        Request::Status => match serde_json::to_value(process.status()) {
            Ok(status) => Answer::Result(status),
            Err(error) => Answer::Error(error.to_string()),
        },
        Request::Metrics => Answer::Result(process.metrics().into()),
        Request::Plan => process.subject().plan().await.map_or_else(Answer::Error, Answer::Result),
        Request::AllowDeletions => {
            process.subject().allow_deletions().map_or_else(Answer::Error, |()| Answer::Result(().into()))
        }
        Request::Explain { subject } => {
            process.subject().explain(&subject).await.map_or_else(Answer::Error, Answer::Result)
        }
        Request::LogLevel { set } => {
            if let Some(directives) = set {
                if let Err(why) = process.log().set(&directives) {
                    return Answer::Error(why);
                }
                tracing::info!(%directives, "the log level was changed through the admin socket");
            }
            Answer::Result(process.log().current().into())
        }
    }
}
