//! A running `meridian ovsdb watch` of a Northbound.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use super::server::{LIMIT, Running, Server};
use super::{Ran, meridian, signal};

/// A running watch and the lines it prints.
pub(crate) struct Watch {
    pub(crate) child: Running,
    lines: Receiver<Value>,
}

impl Watch {
    pub(crate) fn start(server: &Server, rest: &[&str]) -> Self {
        Self::start_with(server, rest, |_| {})
    }

    pub(crate) fn start_with(server: &Server, rest: &[&str], adjust: impl FnOnce(&mut Command)) -> Self {
        Self::at(&server.remote(), rest, adjust)
    }

    /// Starts a watch at a remote.
    pub(crate) fn at(remote: &str, rest: &[&str], adjust: impl FnOnce(&mut Command)) -> Self {
        let mut command = meridian();
        command.args(["ovsdb", "watch", "--remote", remote, "OVN_Northbound"]).args(rest);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        adjust(&mut command);
        let mut child = command.spawn().unwrap();
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if send.send(serde_json::from_str(&line).expect(&line)).is_err() {
                    break;
                }
            }
        });
        Self { child: Running(child), lines }
    }

    #[track_caller]
    pub(crate) fn next(&self) -> Value {
        self.lines.recv_timeout(LIMIT).expect("a line")
    }

    /// The next line, which must be about a row and of this event.
    #[track_caller]
    pub(crate) fn row(&self, event: &str) -> Value {
        let line = self.next();
        assert_eq!(line["event"], event, "{line}");
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["event", "new", "old", "table", "uuid"], "{line}");
        line
    }

    #[track_caller]
    pub(crate) fn state(&self, event: &str) -> Value {
        let line = self.next();
        assert_eq!(line["event"], event, "{line}");
        line
    }

    /// Asserts that no line is printed for a while.
    #[track_caller]
    pub(crate) fn quiet(&self) {
        let next = self.lines.recv_timeout(Duration::from_millis(300));
        assert_eq!(next, Err(RecvTimeoutError::Timeout));
    }

    pub(crate) fn end(mut self) -> Ran {
        signal("TERM", self.child.0.id());
        let status = self.child.0.wait().unwrap();
        let mut err = String::new();
        if let Some(mut log) = self.child.0.stderr.take() {
            log.read_to_string(&mut err).unwrap();
        }
        let code = status.code().unwrap_or(-1);
        Ran { code, out: self.lines.try_iter().map(|line| line.to_string()).collect(), err }
    }
}
