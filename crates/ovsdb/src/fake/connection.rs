//! One connection: moves bytes to the host and back, and injects its planned faults.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::fault::{Fault, Faults, Occasion};
use super::host::{Host, Out, Peer};
use crate::wire::frame::FrameSplitter;
use crate::wire::message::Message;

/// The next step of a connection's writer.
#[derive(Debug)]
enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    Silence,
    Close,
}

#[derive(Debug)]
struct Seat {
    steps: mpsc::UnboundedSender<Step>,
    task: Option<AbortHandle>,
}

/// The state that all connections of a server share.
#[derive(Debug)]
pub(super) struct FakeState {
    host: Mutex<Host>,
    seats: Mutex<BTreeMap<Peer, Seat>>,
    pub(super) faults: Faults,
    /// The database of calls by the tests that name none.
    pub(super) database: String,
    started: Instant,
    /// Wakes the task that answers transactions that waited too long.
    pub(super) ticks: Notify,
}

/// The maximum size of a client's message.
const LIMIT: usize = 1 << 30;

impl FakeState {
    pub(super) fn new(host: Host, database: String) -> Self {
        Self {
            host: Mutex::new(host),
            seats: Mutex::default(),
            faults: Faults::default(),
            database,
            started: Instant::now(),
            ticks: Notify::new(),
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn seats(&self) -> MutexGuard<'_, BTreeMap<Peer, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function on the host and sends the resulting messages.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Host, u64) -> R) -> R {
        self.with_fault(None, act)
    }

    /// Runs an action on the host, and injects a fault into the reply to a connection. Both happen under one lock, so each connection gets
    /// its messages in the order in which they arose.
    fn with_fault<R>(&self, fault: Option<(Peer, &Fault)>, act: impl FnOnce(&mut Host, u64) -> R) -> R {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut host, self.now_ms());
        let mut held = Vec::new();
        for (peer, out) in host.drain() {
            match (&fault, &out) {
                (Some((struck, Fault::CloseAfterCommit)), _) if *struck == peer => {}
                (Some((struck, Fault::UpdateBeforeReply(ops))), Out::Reply(text)) if *struck == peer => {
                    let ops = ops.as_array().map_or(&[][..], Vec::as_slice);
                    host.transact(&self.database, ops, self.now_ms());
                    held.push((peer, text.clone()));
                }
                (Some((struck, fault)), Out::Reply(text)) if *struck == peer => {
                    self.push(peer, damaged(fault, text));
                }
                _ => self.push(peer, self.steps(out)),
            }
        }
        for (peer, out) in host.drain() {
            self.push(peer, self.steps(out));
        }
        for (peer, text) in held {
            self.push(peer, vec![Step::Send(text.into_bytes())]);
        }
        if let Some((peer, Fault::CloseAfterCommit)) = fault {
            self.push(peer, vec![Step::Close]);
        }
        self.ticks.notify_one();
        result
    }

    fn steps(&self, out: Out) -> Vec<Step> {
        match out {
            Out::Reply(text) => vec![Step::Send(text.into_bytes())],
            Out::Close => vec![Step::Close],
            Out::Notify { method, text } => match self.faults.strike(Occasion::Notification(method)) {
                Some(fault) => damaged(&fault, &text),
                None => vec![Step::Send(text.into_bytes())],
            },
        }
    }

    fn push(&self, peer: Peer, steps: Vec<Step>) {
        if let Some(seat) = self.seats().get(&peer) {
            // A closed connection needs no messages.
            steps.into_iter().for_each(|step| drop(seat.steps.send(step)));
        }
    }

    /// Serves a connection in a task of its own.
    pub(super) fn accept<S: AsyncRead + AsyncWrite + Send + 'static>(self: &Arc<Self>, stream: S) {
        let (sender, steps) = mpsc::unbounded_channel();
        let peer = self.host.lock().unwrap_or_else(PoisonError::into_inner).open();
        self.seats().insert(peer, Seat { steps: sender, task: None });
        let guard = Guard { shared: self.clone(), peer };
        let task = tokio::spawn(async move { guard.shared.serve(guard.peer, stream, steps).await });
        if let Some(seat) = self.seats().get_mut(&peer) {
            seat.task = Some(task.abort_handle());
        }
    }

    /// Ends all connections.
    pub(super) fn disconnect_all(&self) {
        let tasks: Vec<_> = self.seats().values().filter_map(|seat| seat.task.clone()).collect();
        tasks.into_iter().for_each(|task| task.abort());
    }

    /// The number of connections.
    pub(super) fn connections(&self) -> usize {
        self.seats().len()
    }

    async fn serve<S: AsyncRead + AsyncWrite>(
        &self,
        peer: Peer,
        stream: S,
        steps: mpsc::UnboundedReceiver<Step>,
    ) {
        let (reader, writer) = tokio::io::split(stream);
        if let Some(fault) = self.faults.strike(Occasion::Connect) {
            match &fault {
                Fault::Silence => return pending().await,
                Fault::Delay(time) => sleep(*time).await,
                Fault::CloseBeforeCommit | Fault::CloseAfterCommit | Fault::DropReply => return,
                fault => self.push(peer, damaged(fault, "")),
            }
        }
        tokio::select! {
            () = self.read(peer, reader) => {}
            () = write(writer, steps) => {}
        }
    }

    async fn read(&self, peer: Peer, mut reader: impl AsyncRead + Unpin) {
        let mut splitter = FrameSplitter::new(LIMIT);
        let mut number = 0;
        loop {
            if !matches!(reader.read_buf(splitter.read_buffer()).await, Ok(1..)) {
                return;
            }
            loop {
                let text = match splitter.next_frame() {
                    Ok(Some(text)) => text.to_vec(),
                    Ok(None) => break,
                    Err(_) => return,
                };
                number += 1;
                self.message(peer, &text, number).await;
            }
        }
    }

    async fn message(&self, peer: Peer, text: &[u8], number: u64) {
        let method = match Message::parse(text) {
            Ok(Message::Request { method, .. } | Message::Notification { method, .. }) => Some(method),
            _ => None,
        };
        let fault = self.faults.strike(Occasion::Message { method: method.as_deref(), number });
        match &fault {
            None => self.with(|host, now| host.receive(peer, text, now)),
            Some(Fault::CloseBeforeCommit) => {
                self.push(peer, vec![Step::Close]);
                pending().await
            }
            Some(Fault::Silence) => {
                self.push(peer, vec![Step::Silence]);
                pending().await
            }
            Some(Fault::Delay(time)) => {
                sleep(*time).await;
                self.with(|host, now| host.receive(peer, text, now));
            }
            Some(Fault::Echo(count)) => self.with(|host, now| {
                (0..*count).for_each(|_| host.echo(peer));
                host.receive(peer, text, now);
            }),
            Some(Fault::Refuse(error)) => self.with(|host, _| {
                if let Ok(Message::Request { id, .. }) = Message::parse(text) {
                    host.reply(peer, id, Err(error.clone()));
                }
            }),
            Some(fault) => self.with_fault(Some((peer, fault)), |host, now| host.receive(peer, text, now)),
        }
    }

    /// Answers transactions that waited too long, until the server ends.
    pub(super) async fn tick(&self) {
        loop {
            let next = self.host.lock().unwrap_or_else(PoisonError::into_inner).next_tick();
            match next {
                None => self.ticks.notified().await,
                Some(at) => {
                    let wait = Duration::from_millis(at.saturating_sub(self.now_ms()));
                    tokio::select! {
                        () = sleep(wait) => {
                            let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
                            host.tick(self.now_ms());
                            host.drain().into_iter().for_each(|(peer, out)| self.push(peer, self.steps(out)));
                        }
                        () = self.ticks.notified() => {}
                    }
                }
            }
        }
    }
}

/// Notifies the host of the end of a connection, however its task ended.
struct Guard {
    shared: Arc<FakeState>,
    peer: Peer,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.seats().remove(&self.peer);
        self.shared.with(|host, _| host.closed(self.peer));
    }
}

/// A message after the effect of a fault.
fn damaged(fault: &Fault, text: &str) -> Vec<Step> {
    let send = |text: &str| Step::Send(text.as_bytes().to_vec());
    let half = || Step::Send(text.as_bytes()[..text.len() / 2].to_vec());
    match fault {
        Fault::CloseBeforeCommit | Fault::CloseAfterCommit => vec![Step::Close],
        Fault::DropReply => Vec::new(),
        Fault::Delay(time) => vec![Step::Pause(*time), send(text)],
        Fault::Trickle { piece, pause } => {
            let pieces = text.as_bytes().chunks((*piece).max(1));
            pieces.flat_map(|piece| [Step::Send(piece.to_vec()), Step::Pause(*pause)]).collect()
        }
        Fault::Garbage(bytes) => vec![Step::Send(bytes.clone())],
        Fault::HalfMessage => vec![half(), Step::Close],
        Fault::HalfThenSilence => vec![half(), Step::Silence],
        Fault::Huge(size) => {
            // The message is huge, so it is built by hand to avoid copies.
            let mut huge = br#"{"id":null,"method":"huge","params":[""#.to_vec();
            huge.resize(huge.len() + size, b'x');
            huge.extend_from_slice(br#""]}"#);
            vec![Step::Send(huge), send(text)]
        }
        Fault::Silence => vec![Step::Silence],
        Fault::Before(first) => vec![send(first), send(text)],
        Fault::Rewrite(change) => vec![send(&change(text))],
        Fault::Echo(_) | Fault::UpdateBeforeReply(_) => vec![send(text)],
        Fault::Refuse(error) => {
            let id = serde_json::from_str::<Value>(text).ok().and_then(|message| message.get("id").cloned());
            vec![send(&json!({"id": id, "error": error}).to_string())]
        }
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut steps: mpsc::UnboundedReceiver<Step>) {
    while let Some(step) = steps.recv().await {
        match step {
            Step::Send(bytes) => {
                if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
            }
            Step::Pause(time) => sleep(time).await,
            Step::Silence => return pending().await,
            Step::Close => {
                // The connection ends here whether or not the peer sees the shutdown.
                drop(writer.shutdown().await);
                return;
            }
        }
    }
}
