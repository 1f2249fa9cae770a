//! The session on a socket: nothing but reading, splitting and sending.
//!
//! It reads while it sends: a server with a backlog for us does not take anything from us, so who only sends would wait
//! for ever.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ovsdb::model::ColumnSet;
use ovsdb::session::{Action, Event, Reply, Session, SessionConfig, SyncKind};
use ovsdb::wire::frame::FrameSplitter;
use ovsdb::{Delta, Model, Snapshot, Transaction};

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// A connection in sync.
pub(crate) struct Link {
    session: Session,
    stream: Option<UnixStream>,
    splitter: FrameSplitter,
    chunk: Vec<u8>,
    deltas: VecDeque<Delta>,
    replies: VecDeque<Reply>,
    synced: Option<SyncKind>,
}

impl Link {
    /// Connects and loads.
    pub(crate) fn open(remote: &str, model: Model) -> Result<Link> {
        let config = SessionConfig::new(vec![remote.parse()?]);
        let mut link = Link {
            session: Session::new(config, model, Instant::now(), 1),
            stream: None,
            splitter: FrameSplitter::new(usize::MAX),
            chunk: vec![0; CHUNK],
            deltas: VecDeque::new(),
            replies: VecDeque::new(),
            synced: None,
        };
        link.act(remote)?;
        while link.synced.is_none() {
            link.read()?;
        }
        link.deltas.clear();
        Ok(link)
    }

    /// What is there now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.session.snapshot()
    }

    /// Waits for the next change.
    pub(crate) fn next_delta(&mut self) -> Result<Delta> {
        loop {
            if let Some(delta) = self.deltas.pop_front() {
                return Ok(delta);
            }
            self.read()?;
        }
    }

    /// Commits and waits for the answer.
    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<()> {
        let composed = transaction.compose(|_| ColumnSet::EMPTY)?;
        self.session.submit(Instant::now(), format!("[{}]", composed.text));
        self.act("")?;
        while self.replies.is_empty() {
            self.read()?;
        }
        self.deltas.clear();
        match self.replies.pop_front() {
            Some(Reply::Result(results)) if !results.get().contains(r#""error""#) => Ok(()),
            other => bail!("the server says {other:?}"),
        }
    }

    fn read(&mut self) -> Result<()> {
        while !self.take_in()? {
            wait(self.stream.as_ref().context("no connection")?, PollFlags::POLLIN)?;
        }
        let now = Instant::now();
        while let Some(text) = self.splitter.next_frame()? {
            self.session.handle_message(now, text);
        }
        self.session.handle_timeout(now);
        self.act("")
    }

    /// Takes in what has come, without waiting; whether there was anything.
    fn take_in(&mut self) -> Result<bool> {
        let stream = self.stream.as_mut().context("no connection")?;
        match stream.read(&mut self.chunk) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(count) => {
                self.splitter.push(&self.chunk[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).context("reading"),
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let stream = self.stream.as_mut().context("no connection")?;
            match stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait(stream, PollFlags::POLLIN | PollFlags::POLLOUT)?;
                    self.take_in()?;
                }
                Err(error) => return Err(error).context("sending"),
            }
        }
        Ok(())
    }

    fn act(&mut self, remote: &str) -> Result<()> {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Dial(_) => {
                    let path = remote.strip_prefix("unix:").context("only unix: remotes")?;
                    let stream = UnixStream::connect(path)?;
                    stream.set_nonblocking(true)?;
                    self.stream = Some(stream);
                    self.session.handle_open(Instant::now());
                }
                Action::Send(text) => self.send(text.as_bytes())?,
                Action::Close(reason) => bail!("{reason}"),
            }
        }
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Changed(delta) => self.deltas.push_back(delta),
                Event::Synced { how } => self.synced = Some(how),
                Event::Reply { outcome, .. } => self.replies.push_back(outcome),
                _ => {}
            }
        }
        Ok(())
    }
}

fn wait(stream: &UnixStream, flags: PollFlags) -> Result<()> {
    poll(&mut [PollFd::new(stream.as_fd(), flags)], PollTimeout::NONE).context("waiting for the server")?;
    Ok(())
}
