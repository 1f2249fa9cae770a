//! The language of a FRR daemon's vty socket, the one vtysh speaks to it.
//!
//! A command ends with a zero byte. The answer is text, three zero bytes and one byte that tells how it went.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Time limit of one reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// A running configuration is far shorter.
const LONGEST: usize = 64 << 20;

/// The outcome of a command, in FRR's numbers.
pub mod status {
    /// Done.
    pub const SUCCESS: u8 = 0;
    /// Done, or there was nothing to do.
    pub const WARNING: u8 = 1;
    /// There is no such command in this daemon.
    pub const NO_MATCH: u8 = 2;
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum VtyError {
    /// There is no socket, or nobody behind it.
    #[error("connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("talk to FRR")]
    Broken(#[source] io::Error),
    /// No answer.
    #[error("wait {} s for an answer of FRR", PATIENCE.as_secs())]
    Late,
    /// A change that FRR has not taken yet. It goes on beside the loop.
    #[error(
        "FRR has not taken the change yet; it is still being entered, and see whether bgpd hangs if this lasts"
    )]
    UnderWay,
    /// An endless answer.
    #[error("read an answer of FRR of more than {LONGEST} bytes")]
    TooLong,
    /// A refusal.
    #[error("enter {command:?}: FRR answers {status}{}{text}", if text.is_empty() { "" } else { ", " })]
    Refused {
        /// The command.
        command: String,
        /// The outcome.
        status: u8,
        /// The text of the reply.
        text: String,
    },
    /// vtysh could not be run or failed.
    #[error("run {program}")]
    Vtysh {
        /// The program.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl VtyError {
    /// Whether the daemon does not know the command: another one may, which vtysh finds.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, VtyError::Refused { status: status::NO_MATCH, .. })
    }

    /// Whether the socket is not for us, which says nothing about who is behind it.
    pub fn is_denied(&self) -> bool {
        matches!(self, VtyError::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text of the reply.
    pub text: String,
    /// The outcome.
    pub status: u8,
}

/// Finds the end of an answer: where its text ends, and how it went. Looks at each byte once when told how many of the first
/// bytes were looked at before.
pub fn split(bytes: &[u8], seen: usize) -> Option<(usize, u8)> {
    let from = seen.saturating_sub(3);
    let end = bytes.get(from..)?.windows(4).position(|four| four[..3] == [0, 0, 0])? + from;
    Some((end, *bytes.get(end + 3)?))
}

/// A session with a daemon.
#[derive(Debug)]
pub struct Vty {
    stream: UnixStream,
}

impl Vty {
    /// Connects to a daemon (`bgpd`) whose socket is in `dir`, with the right to configure it.
    pub async fn open(dir: &Path, daemon: &str) -> Result<Self, VtyError> {
        let path = dir.join(format!("{daemon}.vty"));
        let connect = timeout(PATIENCE, UnixStream::connect(&path)).await.map_err(|_| VtyError::Late)?;
        let stream = connect.map_err(|source| VtyError::Connect { path, source })?;
        let mut vty = Vty { stream };
        vty.expect("enable").await?;
        Ok(vty)
    }

    /// Asks, and takes any answer.
    pub async fn ask(&mut self, command: &str) -> Result<Reply, VtyError> {
        timeout(PATIENCE, self.exchange(command)).await.map_err(|_| VtyError::Late)?
    }

    /// Asks, and takes no refusal.
    pub async fn expect(&mut self, command: &str) -> Result<String, VtyError> {
        let Reply { text, status } = self.ask(command).await?;
        match status {
            status::SUCCESS | status::WARNING => Ok(text),
            _ => {
                let (command, text) = (command.to_owned(), text.trim().to_owned());
                Err(VtyError::Refused { command, status, text })
            }
        }
    }

    /// Enters lines in configuration mode. After one that is refused the rest is not entered.
    pub async fn configure(&mut self, lines: &[String]) -> Result<(), VtyError> {
        self.expect("configure terminal").await?;
        let mut result = Ok(());
        for line in lines {
            if let Err(error) = self.expect(line).await {
                result = Err(error);
                break;
            }
        }
        let left = self.expect("end").await;
        result.and(left.map(|_| ()))
    }

    async fn exchange(&mut self, command: &str) -> Result<Reply, VtyError> {
        // A zero within would end it early.
        let mut bytes: Vec<u8> = command.bytes().filter(|b| *b != 0).collect();
        bytes.push(0);
        self.stream.write_all(&bytes).await.map_err(VtyError::Broken)?;
        let (mut answer, mut seen) = (Vec::with_capacity(4096), 0);
        loop {
            let count = self.stream.read_buf(&mut answer).await.map_err(VtyError::Broken)?;
            if count == 0 {
                return Err(VtyError::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
            if let Some((end, status)) = split(&answer, seen) {
                answer.truncate(end);
                return Ok(Reply { text: String::from_utf8_lossy(&answer).into_owned(), status });
            }
            seen = answer.len();
            if seen > LONGEST {
                return Err(VtyError::TooLong);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_answer_is_found_wherever_it_is_cut(text in "[a-z\n]{0,40}", status: u8, cut in 0usize..50) {
            let mut bytes = text.clone().into_bytes();
            bytes.extend([0, 0, 0, status]);
            let cut = cut.min(bytes.len() - 1);
            prop_assert_eq!(split(&bytes[..cut], 0), None);
            prop_assert_eq!(split(&bytes, cut), Some((text.len(), status)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(0u8..3, 0..40), seen in 0usize..60) {
            if let Some((end, _)) = split(&bytes, seen) {
                prop_assert!(end + 4 <= bytes.len());
            }
        }
    }
}
