//! The side of the process: listens on the socket and answers.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::{Answer, LONGEST_REQUEST, Request};
use crate::failure::{Exit, Failure, Outcome};
use crate::process::Process;

/// How many may be connected.
const MOST_CLIENTS: usize = 16;
/// How long a client may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// The socket in the file system; it goes with this value.
#[derive(Debug)]
pub(crate) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens, and answers until the process ends.
pub(crate) async fn serve(path: &Path, process: Process) -> Outcome<Socket> {
    let listener = bind(path).await.map_err(|error| {
        Failure::new(Exit::Local, error)
            .while_(format!("cannot listen on {} for admin requests", path.display()))
            .try_("another path with --admin-socket; its directory must exist")
    })?;
    tracing::info!(socket = %path.display(), "taking admin requests");
    let socket = Socket(path.to_owned());
    tokio::spawn(accept(listener, process));
    Ok(socket)
}

/// Binds where nobody listens. A socket left behind by a process that died is replaced; anything else in the way is not.
async fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => match UnixStream::connect(path).await {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(error) => return Err(error),
        },
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Bound under another name and renamed when only the owner can open it, so that no moment is left to anybody else.
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
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let process = process.clone();
                tokio::spawn(async move {
                    let _place = place;
                    if let Err(error) = converse(stream, &process).await {
                        tracing::debug!(%error, "an admin connection ended badly");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take an admin connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, process: &Process) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut read).take(LONGEST_REQUEST);
        let length = tokio::time::timeout(PATIENCE, limited.read_until(b'\n', &mut line)).await??;
        if length == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n") || (length as u64) < LONGEST_REQUEST;
        let answer = if whole {
            answer(&line, process).await
        } else {
            Answer::Error("the request is too long".into())
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        tokio::time::timeout(PATIENCE, write.write_all(&text)).await??;
        if !whole {
            return Ok(());
        }
    }
}

async fn answer(line: &[u8], process: &Process) -> Answer {
    let request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return Answer::Error(format!("this is no request: {error}")),
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
        Request::Explain { ip } => {
            process.subject().explain(ip).await.map_or_else(Answer::Error, Answer::Result)
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
