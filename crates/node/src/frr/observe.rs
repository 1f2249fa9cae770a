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
use super::apply::vtysh;
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
    /// How long a look waits for an answer: then it goes on with the last one.
    pub glance: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: "/run/frr".into(),
            backend: Backend::Vty,
            check: Duration::from_secs(15),
            vtysh: "vtysh".into(),
            glance: Duration::from_millis(500),
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

/// FRR on this node. It is asked beside the loop, one question at a time: a bgpd that hangs delays nothing else.
#[derive(Debug)]
pub struct Frr {
    pub(super) config: Config,
    /// Counts reasons to look again.
    reasons: watch::Sender<u64>,
    /// Whether the last answer is no longer true.
    forgotten: bool,
    /// The last question.
    question: watch::Sender<Question>,
    answer: watch::Receiver<Option<Answer>>,
    /// Counts answers that came too late for those who asked.
    late: watch::Receiver<u64>,
    tasks: [JoinHandle<()>; 2],
}

/// What bgpd is asked, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Question {
    number: u64,
    reasons: u64,
    vrfs: BTreeSet<Dev>,
}

/// What was seen, and for which question.
#[derive(Debug, Clone)]
struct Answer {
    question: Question,
    observed: Arc<Observed>,
}

impl Frr {
    /// Begins to follow bgpd. Must be called within a tokio runtime.
    pub fn open(config: Config) -> Self {
        let (reasons, question) = (watch::Sender::new(0), watch::Sender::new(Question::default()));
        let (answers, answer) = watch::channel(None);
        let (late_answers, late) = watch::channel(0);
        let asker = Asker { config: config.clone(), reasons: reasons.clone(), untied: Untied::default() };
        let tasks = [
            task::spawn("frr", follow(config.dir.clone(), config.check, reasons.clone())),
            task::spawn("frr-questions", asker.run(question.subscribe(), answers, late_answers)),
        ];
        Frr { config, reasons, forgotten: false, question, answer, late, tasks }
    }

    /// Changes whenever there is a reason to look again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.reasons.subscribe()
    }

    /// Changes whenever an answer came that nobody waited for any more.
    pub fn late_answers(&self) -> watch::Receiver<u64> {
        self.late.clone()
    }

    /// What is, while the kernel has these VRFs. Where bgpd takes longer than a moment to tell, it is what it told last.
    pub async fn observe(&mut self, scope: Scope, vrfs: BTreeSet<Dev>) -> Arc<Observed> {
        let reasons = *self.reasons.borrow();
        let asked = self.question.borrow().clone();
        let last = self.answer.borrow().clone();
        let open = last.as_ref().is_none_or(|last| last.question.number < asked.number) && asked.number > 0;
        let fits = asked.reasons == reasons && asked.vrfs == vrfs && asked.number > 0 && !self.forgotten;
        match last {
            Some(last) if !open && fits && scope == Scope::Cached => return last.observed,
            // It has had its moment, and is not asked again before it has answered.
            last if open => return told(last),
            _ => {}
        }
        let number = asked.number + 1;
        self.forgotten = false;
        self.question.send_replace(Question { number, reasons, vrfs });
        let is_it = |answer: &Option<Answer>| answer.as_ref().is_some_and(|a| a.question.number >= number);
        // Whether it came in time or not, the last answer is what is known.
        let _ = tokio::time::timeout(self.config.glance, self.answer.wait_for(is_it)).await;
        told(self.answer.borrow().clone())
    }

    /// What was seen is no longer true.
    pub(super) fn forget(&mut self) {
        self.forgotten = true;
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What an answer says; what is known where there was none.
fn told(answer: Option<Answer>) -> Arc<Observed> {
    answer.map_or_else(
        || Arc::new(Observed::Silent("it has not answered yet".into())),
        |answer| answer.observed,
    )
}

/// Asks bgpd, and remembers what it takes several looks to see.
#[derive(Debug)]
struct Asker {
    config: Config,
    reasons: watch::Sender<u64>,
    untied: Untied,
}

impl Asker {
    async fn run(
        mut self,
        mut questions: watch::Receiver<Question>,
        answers: watch::Sender<Option<Answer>>,
        late: watch::Sender<u64>,
    ) {
        while questions.changed().await.is_ok() {
            let question = questions.borrow_and_update().clone();
            let begun = Instant::now();
            let observed = match self.look(&question.vrfs).await {
                Ok(config) => config,
                Err(error) => {
                    // One that comes back begins anew.
                    self.untied = Untied::default();
                    Observed::Silent(chain(&error))
                }
            };
            answers.send_replace(Some(Answer { question, observed: Arc::new(observed) }));
            if begun.elapsed() >= self.config.glance {
                late.send_modify(|n| *n += 1);
            }
        }
    }

    async fn look(&mut self, vrfs: &BTreeSet<Dev>) -> Result<Observed, VtyError> {
        let (running, instances) = match self.config.backend {
            Backend::Vty => {
                let mut vty = Vty::open(&self.config.dir, "bgpd").await?;
                let running = vty.expect(RUNNING).await?;
                // Without it there is no router id, which is no reason to stop.
                (running, vty.ask(INSTANCES).await?.text)
            }
            Backend::Vtysh => {
                let config = &self.config;
                (vtysh(config, &["-c", RUNNING]).await?, vtysh(config, &["-c", INSTANCES]).await?)
            }
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
