//! Daemons of the host that end with the test's process, however that ends.
//!
//! The kernel can send a process a signal when its parent dies. It regards the thread that started the process as its parent. So one
//! thread, which lives as long as the process, starts them all.

use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;

type Order = (Command, Sender<std::io::Result<Child>>);

static STARTER: LazyLock<Sender<Order>> = LazyLock::new(|| {
    let (send, orders) = channel::<Order>();
    std::thread::spawn(move || {
        for (mut command, answer) in orders {
            let _ = answer.send(command.spawn());
        }
    });
    send
});

/// A command that is sent a signal when the thread that starts it ends.
pub(super) fn bound(program: &str, signal: Signal) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal.as_str().trim_start_matches("SIG"), "--", program]);
    command
}

/// Starts a command from the thread that lives as long as the process.
pub(super) fn spawn(command: Command) -> Result<Child> {
    let (send, answer) = channel();
    STARTER.send((command, send)).map_err(|_| anyhow!("the thread that starts daemons is gone"))?;
    answer.recv().context("the thread that starts daemons is gone")?.context("cannot run setpriv")
}
