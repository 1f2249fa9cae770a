//! The driver: one task that moves bytes and time between a socket and the session, and makes no decisions.
//!
//! It reads into the splitter's buffer, passes complete texts to the session, performs the session's actions and forwards its
//! events: changes to the feeds, replies to their callers. It publishes the snapshot of a transaction before its reply, so a
//! caller that has the reply sees its own writes.
//!
//! The number of bytes that wait to be sent is bounded. Above the limit the driver accepts no more commits (`queue`), so
//! committers wait in turn. Replies to a server's requests cannot wait, because the server decides how many there are. If those
//! alone exceed the limit, the server does not read, and the driver drops the connection.

use std::collections::HashMap;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tokio::sync::{oneshot, watch};
use tokio::time::Sleep;

use super::connect::{DialError, Dialer, Stream};
use super::link::{Traffic, Transfer, Up};
use super::lock::{Holders, LockState};
use super::metrics;
use super::queue::Queue;
use super::record::{Input, Recorder};
use super::{ClientState, ConditionError};
use crate::model::{AnyCondition, Str};
use crate::session::{
    Action, CloseReason, CondSeq, Event, LockMode, Remotes, Reply, Session, TxnId, with_causes,
};
use crate::txn::builder::{ComposedTransaction, Label};
use crate::txn::group::{Group, GroupLimits};
use crate::txn::outcome::{self, Answer, CommitError, Committed};

/// A request from a client to its driver.
#[derive(Debug)]
pub(super) enum Command {
    Commit { composed: ComposedTransaction, grouped: bool, reply: Settle },
    Condition { table: Str, condition: AnyCondition, reply: oneshot::Sender<Result<(), ConditionError>> },
    Lock { name: Str, mode: LockMode, state: watch::Sender<LockState> },
    Unlock { name: Str, state: watch::Receiver<LockState> },
    Remotes(Remotes),
    Reconnect,
    Close,
}

/// The receiver of a transaction's outcome.
pub(super) type Settle = oneshot::Sender<Result<Committed, CommitError>>;

/// The caller that waits for the reply to a request.
#[derive(Debug)]
enum Waiter {
    One { labels: Vec<Label>, reply: Settle },
    Batch,
}

/// Limits of a driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) message: usize,
    pub(super) backlog: usize,
    pub(super) group: GroupLimits,
}

/// The task's state.
pub(super) struct Driver {
    session: Session,
    dialer: Dialer,
    link: Link,
    commands: Queue,
    shared: Arc<ClientState>,
    limits: Limits,
    /// Bytes of commits that the session has accepted and not yet passed to the link.
    unsettled: usize,
    waiters: HashMap<TxnId, Waiter>,
    group: Group<Settle>,
    conditions: Vec<(CondSeq, oneshot::Sender<Result<(), ConditionError>>)>,
    locks: Holders,
    recorder: Option<Recorder>,
    closing: bool,
}

type Dialing = Pin<Box<dyn Future<Output = Result<Stream, DialError>> + Send>>;

enum Link {
    Down,
    Dialing(Dialing),
    Up(Box<Up>),
}

/// The maximum number of commands taken at once, so that reading is not starved.
const TURN: usize = 256;

/// Messages up to this size, about a thousand rows, are applied within a few milliseconds. Readers may wait that long.
const SMALL: usize = 1 << 20;

/// The event that ended a wait.
enum Wake {
    Command(Option<Command>),
    Dialled(Result<Stream, DialError>),
    Transfer(Transfer),
    Timeout,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        dialer: Dialer,
        commands: Queue,
        shared: Arc<ClientState>,
        limits: Limits,
        recorder: Option<Recorder>,
    ) -> Self {
        Self {
            session,
            dialer,
            link: Link::Down,
            commands,
            shared,
            limits,
            unsettled: 0,
            waiters: HashMap::new(),
            group: Group::new(limits.group),
            conditions: Vec::new(),
            locks: Holders::default(),
            recorder,
            closing: false,
        }
    }

    /// Runs until the client is closed or dropped.
    pub(super) async fn run(mut self) {
        self.settle();
        let mut alarm = Alarm::default();
        while !self.closing {
            let wake = self.wait(&mut alarm).await;
            self.handle(wake);
            self.take_commands();
            self.settle();
        }
        let closed = || CommitError::Closed;
        for (reply, outcome) in self.group.abandon(closed) {
            let _ = reply.send(outcome);
        }
        // The outcome of sent transactions without a reply is unknown, as after a lost connection.
        for (reply, outcome) in self.group.answer(Answer::Lost) {
            let _ = reply.send(outcome);
        }
        for waiter in self.waiters.into_values() {
            if let Waiter::One { labels, reply } = waiter {
                let _ = reply.send(outcome::judge(Answer::Lost, &labels));
            }
        }
        // The recording is written before `Client::close` returns, which waits for the end of the command queue.
        drop(self.recorder.take());
        self.shared.publisher.close();
    }

    async fn wait(&mut self, alarm: &mut Alarm) -> Wake {
        let timeout = self.session.next_timeout();
        let room = self.room();
        let io = poll_fn(|cx| match &mut self.link {
            Link::Down => Poll::Pending,
            Link::Dialing(dialing) => dialing.as_mut().poll(cx).map(Wake::Dialled),
            Link::Up(up) => up.poll_transfer(cx).map(Wake::Transfer),
        });
        // The branches are in the order of their frequency, and `biased` checks them in this order. No branch starves: queued commands are
        // processed with every wake-up, and no timeout expires while bytes arrive.
        tokio::select! {
            biased;
            wake = io => wake,
            command = self.commands.next(room) => Wake::Command(command),
            () = alarm.ring(timeout) => Wake::Timeout,
        }
    }

    /// Whether there is room for a commit. Without a connection there is, because such a commit is rejected at once.
    fn room(&self) -> bool {
        match &self.link {
            Link::Up(up) => up.backlog + self.unsettled + self.group.queued() < self.limits.backlog,
            Link::Down | Link::Dialing(_) => true,
        }
    }

    fn handle(&mut self, wake: Wake) {
        match wake {
            Wake::Command(None) => self.closing = true,
            Wake::Command(Some(command)) => self.command(command),
            Wake::Dialled(Ok(stream)) => {
                self.link = Link::Up(Box::new(Up::new(stream, self.limits.message)));
                self.input(Input::Open);
            }
            Wake::Dialled(Err(error)) => self.lost(CloseReason::Dial(with_causes(&error))),
            Wake::Transfer(Transfer::Read(Ok(0))) => self.lost(self.farewell()),
            Wake::Transfer(Transfer::Read(Ok(count))) => {
                metrics::add(&self.shared.meters.bytes_received, count);
                self.read();
            }
            Wake::Transfer(Transfer::Wrote(Ok(count))) => {
                metrics::add(&self.shared.meters.bytes_sent, count);
                let Link::Up(up) = &mut self.link else { return };
                if count == 0 && up.backlog > 0 {
                    return self.lost(CloseReason::Io("the connection accepts no more bytes".into()));
                }
                up.wrote(count);
            }
            Wake::Transfer(Transfer::Read(Err(error)) | Transfer::Wrote(Err(error))) => {
                self.lost(CloseReason::Io(with_causes(&error)));
            }
            Wake::Timeout => self.input(Input::Timeout),
        }
    }

    /// Takes the requests that are already queued; none after a close.
    fn take_commands(&mut self) {
        for _ in 0..TURN {
            if self.closing {
                return;
            }
            let room = self.room();
            let Some(command) = self.commands.try_next(room) else { return };
            self.command(command);
        }
    }

    /// The reason why the server closed the connection. A TLS port that gets plain JSON closes it without an error.
    fn farewell(&self) -> CloseReason {
        match &self.link {
            Link::Up(up) if up.plain && !up.heard => CloseReason::Io(
                "the server closed the connection without a reply; if it is a TLS port, use ssl:".into(),
            ),
            _ => CloseReason::Eof,
        }
    }

    /// Handles the loss of the connection.
    fn lost(&mut self, reason: CloseReason) {
        self.link = Link::Down;
        self.input(Input::Close(&reason));
    }

    /// Passes every complete message in the buffer to the session.
    fn read(&mut self) {
        let mut complete = false;
        while let Link::Up(up) = &mut self.link {
            up.heard = true;
            match up.splitter.take_frame() {
                Ok(Some(text)) => {
                    complete = true;
                    metrics::count(&self.shared.meters.messages_received);
                    let now = Instant::now();
                    record(&mut self.recorder, now, &Input::Message(&text));
                    let (soon_done, session) = (text.len() <= SMALL, &mut self.session);
                    let change = || {
                        session.handle_message(now, text);
                        session.snapshot()
                    };
                    if soon_done {
                        self.shared.publisher.publish_in_place(change);
                    } else {
                        self.shared.publisher.publish(change);
                    }
                    self.settle();
                }
                Ok(None) => {
                    if !complete {
                        self.input(Input::Activity);
                    }
                    return;
                }
                Err(error) => return self.lost(CloseReason::Protocol(error.to_string().into())),
            }
        }
    }

    /// Feeds an input to the session.
    fn input(&mut self, input: Input<'_>) {
        let now = Instant::now();
        record(&mut self.recorder, now, &input);
        input.give(&mut self.session, now);
    }

    fn submit(&mut self, operations: String) -> TxnId {
        let now = Instant::now();
        record(&mut self.recorder, now, &Input::Submit(&operations));
        self.session.submit(now, operations)
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Commit { composed, grouped: true, reply } => self.group.push(reply, composed),
            Command::Commit { composed: ComposedTransaction { text, labels }, grouped: false, reply } => {
                self.unsettled += text.len();
                let txn = self.submit(format!("[{text}]"));
                self.waiters.insert(txn, Waiter::One { labels, reply });
            }
            Command::Condition { table, condition, reply } => {
                let now = Instant::now();
                record(&mut self.recorder, now, &Input::Condition { table: &table, condition: &condition });
                let seq = self.session.set_condition(now, &table, condition);
                self.conditions.push((seq, reply));
                self.conditions_in_force(self.session.status().conditions);
            }
            Command::Lock { name, mode, state } => {
                self.locks.join(name.clone(), state);
                self.input(Input::Lock { name: &name, mode });
            }
            Command::Unlock { name, state } => {
                if self.locks.leave(&name, &state) {
                    self.input(Input::Unlock { name: &name });
                }
            }
            Command::Remotes(remotes) => self.input(Input::Remotes(&remotes)),
            Command::Reconnect => self.input(Input::Reconnect),
            Command::Close => self.closing = true,
        }
    }

    /// Performs the session's actions and forwards its events, until it has no more.
    fn settle(&mut self) {
        let mut noteworthy = false;
        self.unsettled = 0;
        loop {
            while let Some(action) = self.session.poll_action() {
                self.act(action);
            }
            if let Some(event) = self.session.poll_event() {
                noteworthy |= !matches!(event, Event::Changed(_) | Event::Reply { .. });
                self.event(event);
                continue;
            }
            let Some(batch) = self.group.next_batch() else { break };
            metrics::count(&self.shared.meters.batches);
            let txn = self.submit(batch);
            self.waiters.insert(txn, Waiter::Batch);
        }
        if noteworthy {
            self.shared.status.send_replace(self.session.status());
        }
    }

    fn act(&mut self, action: Action) {
        if let Some(recorder) = &mut self.recorder {
            recorder.action(Instant::now(), &action);
        }
        match action {
            Action::Dial(remote) => {
                let dialer = self.dialer.clone();
                self.link = Link::Dialing(Box::pin(async move { dialer.dial(&remote).await }));
            }
            Action::Transact(text) => self.push(text, Traffic::Commit),
            Action::Send(text) => {
                self.push(text, Traffic::Other);
                if let Link::Up(up) = &self.link
                    && up.others > self.limits.backlog
                {
                    self.lost(CloseReason::Unread(up.others));
                }
            }
            Action::Close(_) => self.link = Link::Down,
        }
    }

    fn push(&mut self, text: String, traffic: Traffic) {
        if let Link::Up(up) = &mut self.link {
            metrics::count(&self.shared.meters.messages_sent);
            up.push(text, traffic);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connected { remote } => {
                metrics::count(&self.shared.meters.connections);
                tracing::debug!(%remote, "connected");
            }
            Event::Fit(fit, schema) => {
                self.shared.set_fit(fit, schema);
                self.shared.set_misfits(Vec::new());
            }
            Event::Misfit(misfits) => self.shared.set_misfits(misfits),
            Event::Changed(delta) => self.shared.publisher.changed(delta),
            Event::Synced { how } => {
                let database = self.session.snapshot().database().to_owned();
                tracing::info!(database, ?how, "in sync");
                self.shared.publisher.synced(how);
            }
            Event::Reply { txn, outcome } => self.reply(txn, &outcome),
            Event::Lock { name, held } => {
                self.locks.tell(&name, if held { &LockState::Held } else { &LockState::Waiting });
            }
            Event::LockRefused { name, error } => {
                self.locks.tell(&name, &LockState::Refused(error));
            }
            Event::Condition { acked } => self.conditions_in_force(acked),
            Event::ConditionRefused { seq, error } => {
                for (_, reply) in self.conditions.extract_if(.., |(wanted, _)| *wanted <= seq) {
                    let _ = reply.send(Err(ConditionError::Refused { error: error.clone() }));
                }
            }
            Event::Down { remote, reason, served, retry_in } => {
                metrics::count(&self.shared.meters.disconnections);
                let remote = remote.map(|remote| remote.to_string()).unwrap_or_default();
                if served.is_some() {
                    tracing::warn!(remote, %reason, ?retry_in, "disconnected");
                } else {
                    tracing::debug!(remote, %reason, ?retry_in, "not connected");
                }
                self.shared.publisher.down(&reason);
                for (reply, outcome) in self.group.abandon(|| CommitError::NotConnected) {
                    self.shared.meters.settled(&outcome);
                    let _ = reply.send(outcome);
                }
            }
        }
    }

    fn reply(&mut self, txn: TxnId, reply: &Reply) {
        let answer = match reply {
            Reply::Result(result) => Answer::Result(result),
            Reply::Error(error) => Answer::Error(error),
            Reply::NotSent => Answer::NotSent,
            Reply::Lost => Answer::Lost,
        };
        let settled = match self.waiters.remove(&txn) {
            None => Vec::new(),
            Some(Waiter::One { labels, reply }) => vec![(reply, outcome::judge(answer, &labels))],
            Some(Waiter::Batch) => self.group.answer(answer),
        };
        for (reply, outcome) in settled {
            self.shared.meters.settled(&outcome);
            let _ = reply.send(outcome);
        }
    }

    fn conditions_in_force(&mut self, acked: CondSeq) {
        for (_, reply) in self.conditions.extract_if(.., |(wanted, _)| *wanted <= acked) {
            let _ = reply.send(Ok(()));
        }
    }
}

/// A timer whose deadline moves with each message. It is reset only when it fires too early, not at every message.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Waits until a time; forever without one.
    async fn ring(&mut self, at: Option<Instant>) {
        let Some(at) = at.map(tokio::time::Instant::from) else { return pending().await };
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        loop {
            sleep.as_mut().await;
            if sleep.deadline() >= at {
                return;
            }
            sleep.as_mut().reset(at);
        }
    }
}

fn record(recorder: &mut Option<Recorder>, now: Instant, input: &Input<'_>) {
    if let Some(recorder) = recorder {
        recorder.input(now, input);
    }
}
