//! The client of the admin socket: it sends one request and reads one answer.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{Answer, LONGEST_ANSWER, Request};
use crate::failure::{Exit, Failure, Outcome};

/// Sends a request to the process that listens on a socket, and returns its answer.
pub(crate) async fn ask(path: &Path, request: &Request, within: Duration) -> Outcome<serde_json::Value> {
    let connect = Failure::new;
    let conversation = async {
        let stream = UnixStream::connect(path).await.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => connect(Exit::Local, error)
                .while_(format!("cannot open {}", path.display()))
                .try_("the same with sudo, or as the user that Meridian runs as"),
            _ => connect(Exit::Connect, error)
                .while_(format!("no process listens on {}", path.display()))
                .try_("starting it, or the path that it was given with --admin-socket"),
        })?;
        let (read, mut write) = stream.into_split();
        let lost = |error| Failure::new(Exit::Connect, error).while_("the process closed the connection");
        let mut text = serde_json::to_vec(request).map_err(|error| Failure::new(Exit::Protocol, error))?;
        text.push(b'\n');
        write.write_all(&text).await.map_err(lost)?;
        let mut line = Vec::new();
        let mut read = BufReader::new(read.take(LONGEST_ANSWER));
        read.read_until(b'\n', &mut line).await.map_err(lost)?;
        if line.is_empty() {
            return Err(Failure::told(Exit::Connect, "the process closed the connection without a reply"));
        }
        match serde_json::from_slice(&line) {
            Ok(Answer::Result(value)) => Ok(value),
            Ok(Answer::Error(why)) => {
                Err(Failure::told(Exit::Refused, format!("the process refused: {why}")))
            }
            Err(error) => Err(Failure::new(Exit::Protocol, error)
                .while_(format!("the program that listens on {} is not Meridian", path.display()))),
        }
    };
    tokio::time::timeout(within, conversation).await.unwrap_or_else(|_| {
        Err(Failure::told(Exit::Connect, format!("{} did not answer within {within:?}", path.display())))
    })
}
