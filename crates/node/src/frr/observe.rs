//! Reads bgpd's configuration, and notices when bgpd goes and comes.
//!
//! A task holds a connection to bgpd on which it says nothing. When it breaks, bgpd has gone; when it can be made again, bgpd
//! is back, without what was not saved. It is then told its configuration line by line (`vtysh -b`), and ours does not go between
//! those lines: the leak between instances that are half configured may never come about. What an operator changes later is found
//! by reading the configuration now and then.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reconcile::Scope;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::config;
use super::state::Observed;
use super::vty::{Vty, VtyError};
use crate::cause::chain;

/// How often a bgpd that is gone is looked for.
const SEARCH: Duration = Duration::from_millis(200);
/// So often in a row the configuration of a bgpd that has just come must read the same, with `SEARCH` in between.
const SETTLED: usize = 3;
/// So often it is read at most.
const READ: usize = 15;
/// The command that shows the configuration.
const RUNNING: &str = "show running-config";
/// The command that shows the instances with their router ids, also of those without a neighbour.
const INSTANCES: &str = "show bgp vrfs json";

/// Where FRR is and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directory of the daemons' sockets (`frr_vty_dir`).
    pub dir: PathBuf,
    /// How to speak to it (`frr_backend`).
    pub backend: Backend,
    /// How often the configuration is read though nothing seems to have happened (`frr_reconcile_interval`).
    pub check: Duration,
    /// The program to fall back to.
    pub vtysh: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: "/run/frr".into(),
            backend: Backend::Vty,
            check: Duration::from_secs(15),
            vtysh: "vtysh".into(),
        }
    }
}

/// How to speak to FRR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// To bgpd's socket; through vtysh only what bgpd does not know.
    #[default]
    Vty,
    /// Through vtysh.
    Vtysh,
}

/// FRR on this node.
#[derive(Debug)]
pub struct Frr {
    pub(super) config: Config,
    /// Counts reasons to look again.
    reasons: watch::Receiver<u64>,
    seen: Option<(u64, Arc<Observed>)>,
    task: JoinHandle<()>,
}

impl Frr {
    /// Begins to follow bgpd. Must be called within a tokio runtime.
    pub fn open(config: Config) -> Self {
        let (changed, reasons) = watch::channel(0);
        let task = tokio::spawn(follow(config.dir.clone(), config.check, changed));
        Frr { config, reasons, seen: None, task }
    }

    /// Changes whenever there is a reason to look again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.reasons.clone()
    }

    /// What is.
    pub async fn observe(&mut self, scope: Scope) -> Arc<Observed> {
        let reasons = *self.reasons.borrow();
        match &self.seen {
            Some((at, seen)) if scope == Scope::Cached && *at == reasons => seen.clone(),
            _ => {
                let seen =
                    Arc::new(self.look().await.unwrap_or_else(|error| Observed::Silent(chain(&error))));
                self.seen = Some((reasons, seen.clone()));
                seen
            }
        }
    }

    /// What was seen is no longer true.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }

    async fn look(&self) -> Result<Observed, VtyError> {
        let (running, instances) = match self.config.backend {
            Backend::Vty => {
                let mut vty = Vty::open(&self.config.dir, "bgpd").await?;
                let running = vty.expect(RUNNING).await?;
                // Without it there is no router id, which is no reason to stop.
                (running, vty.ask(INSTANCES).await?.text)
            }
            Backend::Vtysh => (self.vtysh(&["-c", RUNNING]).await?, self.vtysh(&["-c", INSTANCES]).await?),
        };
        Ok(Observed::Config { tree: config::parse(&running), router_id: default_router_id(&instances) })
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The router id of the default instance in the answer to `show bgp vrfs json`.
pub fn default_router_id(json: &str) -> Option<Ipv4Addr> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let id = value.pointer("/vrfs/default/routerId")?.as_str()?.parse().ok()?;
    Some(id).filter(|id: &Ipv4Addr| !id.is_unspecified())
}

async fn follow(dir: PathBuf, check: Duration, changed: watch::Sender<u64>) {
    let socket = dir.join("bgpd.vty");
    let news = || changed.send_modify(|n| *n += 1);
    let mut absent = false;
    loop {
        let Some(mut stream) = connect(&socket).await else {
            absent = true;
            tokio::time::sleep(SEARCH).await;
            continue;
        };
        if absent {
            settle(&dir).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_id_is_the_default_instances() {
        let id = |id: &str| {
            format!(r#"{{"vrfs":{{"default":{{"routerId":"{id}"}},"v":{{"routerId":"9.9.9.9"}}}}}}"#)
        };
        assert_eq!(default_router_id(&id("172.30.1.1")), Some(Ipv4Addr::new(172, 30, 1, 1)));
        for none in [id("0.0.0.0"), id("x"), "{}".into(), "% Unknown command".into(), r#"{"vrfs":[]}"#.into()]
        {
            assert_eq!(default_router_id(&none), None, "{none}");
        }
    }
}
