//! The signals that end a long-running command: SIGINT and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure, Outcome};

/// The signals that end a process.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> Outcome<Self> {
        let failed = |error| Failure::new(Exit::Local, error).while_("cannot listen for signals");
        let of = |kind| signal(kind).map_err(failed);
        Ok(Signals { interrupt: of(SignalKind::interrupt())?, terminate: of(SignalKind::terminate())? })
    }

    /// Waits for one of them.
    pub(crate) async fn end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
