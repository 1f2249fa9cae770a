//! Reads bgpd's configuration, and notices when bgpd goes and comes.
//!
//! A task holds a connection to bgpd on which it says nothing. When it breaks, bgpd has gone; when it can be made again, bgpd
//! is back, without what was not saved. It is then told its configuration line by line (`vtysh -b`), and ours does not go between
//! those lines. What an operator changes later is found by reading the configuration now and then, and so is an instance that
//! does not know its VRF (see [`adrift`](super::adrift)).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reconcile::Scope;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::adrift::{self, Untied};
use super::config;
use super::state::Observed;
use super::vty::{Vty, VtyError};
use crate::cause::chain;
use crate::kernel::Dev;

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
    reasons: watch::Sender<u64>,
    seen: Option<Seen>,
    untied: Untied,
    task: JoinHandle<()>,
}

/// What was seen, and when that was.
#[derive(Debug)]
struct Seen {
    reasons: u64,
    vrfs: BTreeSet<Dev>,
    observed: Arc<Observed>,
}

impl Frr {
    /// Begins to follow bgpd. Must be called within a tokio runtime.
    pub fn open(config: Config) -> Self {
        let reasons = watch::Sender::new(0);
        let task = task::spawn("frr", follow(config.dir.clone(), config.check, reasons.clone()));
        Frr { config, reasons, seen: None, untied: Untied::default(), task }
    }

    /// Changes whenever there is a reason to look again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.reasons.subscribe()
    }

    /// What is, while the kernel has these VRFs.
    pub async fn observe(&mut self, scope: Scope, vrfs: BTreeSet<Dev>) -> Arc<Observed> {
        let reasons = *self.reasons.borrow();
        match &self.seen {
            Some(seen) if scope == Scope::Cached && seen.reasons == reasons && seen.vrfs == vrfs => {
                seen.observed.clone()
            }
            _ => {
                let observed = Arc::new(match self.look(&vrfs).await {
                    Ok(config) => config,
                    Err(error) => {
                        // One that comes back begins anew.
                        self.untied = Untied::default();
                        Observed::Silent(chain(&error))
                    }
                });
                self.seen = Some(Seen { reasons, vrfs, observed: observed.clone() });
                observed
            }
        }
    }

    /// What was seen is no longer true.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }

    async fn look(&mut self, vrfs: &BTreeSet<Dev>) -> Result<Observed, VtyError> {
        let (running, instances) = match self.config.backend {
            Backend::Vty => {
                let mut vty = Vty::open(&self.config.dir, "bgpd").await?;
                let running = vty.expect(RUNNING).await?;
                // Without it there is no router id, which is no reason to stop.
                (running, vty.ask(INSTANCES).await?.text)
            }
            Backend::Vtysh => (self.vtysh(&["-c", RUNNING]).await?, self.vtysh(&["-c", INSTANCES]).await?),
        };
        let untied = adrift::untied(&instances, vrfs);
        let adrift = self.untied.look(Instant::now(), untied, self.config.check);
        if self.untied.waits() {
            self.look_again();
        }
        let (tree, router_id) = (config::parse(&running), default_router_id(&instances));
        Ok(Observed::Config { tree, router_id, adrift })
    }

    /// Gives a reason to look when zebra has had its time.
    fn look_again(&self) {
        let reasons = self.reasons.clone();
        task::spawn("zebra", async move {
            tokio::time::sleep(adrift::TOLD).await;
            reasons.send_modify(|n| *n += 1);
        });
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
