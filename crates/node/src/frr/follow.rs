//! Notices when a daemon of FRR goes and comes.
//!
//! A task holds a connection to the daemon on which it says nothing. When it breaks, the daemon has gone; when it can be made again,
//! the daemon is back. bgpd is then without what was not saved. It is told its configuration line by line (`vtysh -b`), and ours does
//! not go between those lines. What an operator changes later is found by asking now and then.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::asker::RUNNING;
use super::vty::Vty;

/// Interval between attempts to connect to a daemon that is down.
const SEARCH: Duration = Duration::from_millis(200);
/// So often in a row the configuration of a bgpd that has just come must read the same, with `SEARCH` in between.
const SETTLED: usize = 3;
/// So often it is read at most.
const READ: usize = 15;

/// Follows bgpd, and gives a reason to look when it goes, when it has come and settled, and every `check`.
pub(super) async fn bgpd(dir: PathBuf, check: Duration, changed: watch::Sender<u64>) {
    follow(&dir.join("bgpd.vty"), check, changed, || settle(&dir)).await;
}

/// Follows zebra in the same way. It is not configured by us, so nobody waits for it to settle.
pub(super) async fn zebra(dir: PathBuf, changed: watch::Sender<u64>) {
    follow(&dir.join("zebra.vty"), Duration::MAX, changed, || std::future::ready(())).await;
}

async fn follow<F: Future<Output = ()>>(
    socket: &Path,
    check: Duration,
    changed: watch::Sender<u64>,
    settled: impl Fn() -> F,
) {
    let news = || changed.send_modify(|n| *n += 1);
    let mut absent = false;
    loop {
        let Some(mut stream) = connect(socket).await else {
            absent = true;
            tokio::time::sleep(SEARCH).await;
            continue;
        };
        if absent {
            settled().await;
        }
        absent = true;
        news();
        let mut nothing = [0; 64];
        loop {
            tokio::select! {
                // It says nothing unless asked; what it may say all the same means nothing.
                read = stream.read(&mut nothing) => if !matches!(read, Ok(1..)) { break },
                () = tokio::time::sleep(check) => news(),
            }
        }
        news();
        // One that takes connections and drops them is not asked without pause.
        tokio::time::sleep(SEARCH).await;
    }
}

/// Waits until nobody tells bgpd its configuration any more.
async fn settle(dir: &Path) {
    let (mut last, mut same) = (None, 0);
    for _ in 0..READ {
        let running = match Vty::open(dir, "bgpd").await {
            Ok(mut vty) => vty.expect(RUNNING).await.ok(),
            Err(_) => None,
        };
        same = if running.is_some() && running == last { same + 1 } else { 1 };
        if same == SETTLED {
            return;
        }
        last = running;
        tokio::time::sleep(SEARCH).await;
    }
}

async fn connect(socket: &Path) -> Option<UnixStream> {
    tokio::time::timeout(Duration::from_secs(5), UnixStream::connect(socket)).await.ok()?.ok()
}
