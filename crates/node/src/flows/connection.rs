//! A connection to one bridge: the `.mgmt` socket that ovs-vswitchd makes for it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::openflow::{self, Garbled, HEADER, Header, kind};
use super::packets::{self, OutPort};
use super::state::{BridgeFlows, NormalFlow, Op};

/// How long an answer may take. ovs-vswitchd answers between other work, some of which takes seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a bridge was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// There is no socket, or nobody behind it.
    #[error("connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("talk to the bridge")]
    Broken(#[source] io::Error),
    /// No answer.
    #[error("wait {} s for an answer of ovs-vswitchd", PATIENCE.as_secs())]
    Late,
    /// An answer that is none.
    #[error("read the answer of ovs-vswitchd")]
    Garbled(#[source] Garbled),
    /// A refusal.
    #[error("{0}")]
    Refused(String),
}

/// A connection that has said hello.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    xid: u32,
}

impl Connection {
    /// Connects to a bridge and agrees on the version.
    pub(super) async fn open(rundir: &Path, bridge: &str) -> Result<Self, FlowError> {
        let path = rundir.join(format!("{bridge}.mgmt"));
        let connect = UnixStream::connect(&path).await;
        let stream = connect.map_err(|source| FlowError::Connect { path, source })?;
        let mut connection = Connection { stream, xid: 0 };
        patiently(connection.hello()).await?;
        Ok(connection)
    }

    async fn hello(&mut self) -> Result<(), FlowError> {
        let xid = self.next();
        self.send(&openflow::hello(xid)).await?;
        loop {
            let (header, body) = self.receive().await?;
            match header.kind {
                kind::HELLO if openflow::speaks_ours(header, &body) => return Ok(()),
                kind::HELLO => return Err(FlowError::Refused(openflow::refusal(&[0, 0, 0, 0]))),
                kind::ERROR => return Err(FlowError::Refused(openflow::refusal(&body))),
                _ => {}
            }
        }
    }

    /// The flows with our cookie, and what becomes of packets that they do not match.
    pub(super) async fn flows(&mut self) -> Result<BridgeFlows, FlowError> {
        patiently(async {
            let mut ours = BTreeSet::new();
            self.ask(openflow::ask, |body| openflow::take(body, &mut ours)).await?;
            let mut there = false;
            self.ask(openflow::ask_normal, |body| {
                let (found, more) = openflow::has_normal(body)?;
                there |= found;
                Ok(more)
            })
            .await?;
            if there {
                return Ok(BridgeFlows { ours, normal: NormalFlow::There });
            }
            let mut count = 0;
            self.ask(openflow::ask_count, |body| {
                count = openflow::count(body)?;
                Ok(false)
            })
            .await?;
            let others = usize::try_from(count).unwrap_or(usize::MAX) > ours.len();
            let normal = if others { NormalFlow::Replaced } else { NormalFlow::Missing };
            Ok(BridgeFlows { ours, normal })
        })
        .await
    }

    /// Asks a question with a long answer, and hands over its parts until none follows.
    async fn ask(
        &mut self,
        question: fn(u32) -> Vec<u8>,
        mut part: impl FnMut(&[u8]) -> Result<bool, Garbled>,
    ) -> Result<(), FlowError> {
        let asked = self.next();
        self.send(&question(asked)).await?;
        loop {
            let (header, body) = self.receive().await?;
            match header.kind {
                kind::MULTIPART_REPLY if header.xid == asked => {
                    let more = part(&body).map_err(FlowError::Garbled)?;
                    match more {
                        true => {}
                        false => return Ok(()),
                    }
                }
                kind::ERROR if header.xid == asked => {
                    return Err(FlowError::Refused(openflow::refusal(&body)));
                }
                _ => {}
            }
        }
    }

    /// Carries out ops, and says what became of each.
    pub(super) async fn apply(&mut self, ops: &[&Op]) -> Result<Vec<Result<(), FlowError>>, FlowError> {
        patiently(async {
            let first = self.xid.wrapping_add(1);
            let mut bytes = Vec::new();
            for op in ops {
                let xid = self.next();
                bytes.extend(match op {
                    Op::Add { flow, .. } => openflow::add(*flow, xid),
                    Op::AddNormal { .. } => openflow::add_normal(xid),
                    Op::Delete { seen, .. } => openflow::delete(seen, xid),
                });
            }
            let barrier = self.next();
            bytes.extend(openflow::message(kind::BARRIER_REQUEST, barrier, &[]));
            self.send(&bytes).await?;
            let mut results: Vec<Result<(), FlowError>> = ops.iter().map(|_| Ok(())).collect();
            loop {
                let (header, body) = self.receive().await?;
                match header.kind {
                    kind::BARRIER_REPLY if header.xid == barrier => return Ok(results),
                    kind::ERROR => {
                        if let Some(result) = results.get_mut(header.xid.wrapping_sub(first) as usize) {
                            *result = Err(FlowError::Refused(openflow::refusal(&body)));
                        }
                    }
                    _ => {}
                }
            }
        })
        .await
    }

    /// Sends frames out of a port.
    pub(super) async fn send_out(&mut self, port: OutPort, frames: &[Vec<u8>]) -> Result<(), FlowError> {
        let bytes = packets::messages(port, frames, || self.next())?;
        patiently(async {
            self.send(&bytes).await?;
            let barrier = self.next();
            self.send(&openflow::message(kind::BARRIER_REQUEST, barrier, &[])).await?;
            let mut refused = None;
            loop {
                let (header, body) = self.receive().await?;
                match header.kind {
                    kind::BARRIER_REPLY if header.xid == barrier => return refused.map_or(Ok(()), Err),
                    kind::ERROR => refused = Some(FlowError::Refused(openflow::refusal(&body))),
                    _ => {}
                }
            }
        })
        .await
    }

    fn next(&mut self) -> u32 {
        self.xid = self.xid.wrapping_add(1);
        self.xid
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), FlowError> {
        self.stream.write_all(bytes).await.map_err(FlowError::Broken)
    }

    /// The next message that is not merely a sign of life.
    async fn receive(&mut self) -> Result<(Header, Vec<u8>), FlowError> {
        loop {
            let mut bytes = [0; HEADER];
            self.stream.read_exact(&mut bytes).await.map_err(FlowError::Broken)?;
            let header = Header::decode(bytes).ok_or(FlowError::Garbled(Garbled("header")))?;
            let mut body = vec![0; header.body];
            self.stream.read_exact(&mut body).await.map_err(FlowError::Broken)?;
            if header.kind != kind::ECHO_REQUEST {
                return Ok((header, body));
            }
            self.send(&openflow::message(kind::ECHO_REPLY, header.xid, &body)).await?;
        }
    }
}

async fn patiently<V>(step: impl Future<Output = Result<V, FlowError>>) -> Result<V, FlowError> {
    timeout(PATIENCE, step).await.unwrap_or(Err(FlowError::Late))
}
