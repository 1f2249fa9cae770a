//! Asks FRR beside the loop, one question at a time, and enters changes beside it as well: a daemon that hangs delays nothing but what it
//! is asked itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::adrift::{self, Untied};
use super::apply::{enter, vtysh};
use super::behind::{self, Behind, Differences};
use super::config::{self, Node};
use super::observe::{Backend, Config, FrrReplies};
use super::state::{BgpdState, Observed, Op, Zebra};
use super::vty::{Vty, VtyError};
use crate::cause::chain;
use crate::kernel::{self, Dev, Family};

/// The command that shows the configuration.
pub(super) const RUNNING: &str = "show running-config";
/// The command that shows the instances with their router ids, also of those without a neighbour.
const INSTANCES: &str = "show bgp vrfs json";
/// The command that shows the neighbours of the default instance in all families.
const SUMMARY: &str = "show bgp summary json";
/// The command that shows who is connected to zebra.
const CLIENTS: &str = "show zebra client summary";
/// Time limit for a route that bgpd has learned to reach the kernel.
const INSTALLED: Duration = Duration::from_secs(3);
/// Time limit for zebra's reply. The agent asks zebra last, and bgpd's answer waits for it.
const ZEBRA: Duration = Duration::from_secs(2);

/// A request to FRR, and its reason.
#[derive(Debug, Clone, Default)]
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) reasons: u64,
    pub(super) vrfs: BTreeSet<Dev>,
    pub(super) kernel: Arc<kernel::Observed>,
}

/// The observation, with the request that it answers.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) question: u64,
    pub(super) observed: Arc<Observed>,
}

/// Lines to be entered, and who waits for the outcome.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) op: Op,
    pub(super) outcome: oneshot::Sender<Result<(), VtyError>>,
}

/// Asks FRR, and remembers what it takes several looks to see.
#[derive(Debug)]
pub(super) struct Asker {
    config: Config,
    reasons: watch::Sender<u64>,
    answering: watch::Sender<FrrReplies>,
    untied: Untied,
    differences: Differences,
    /// Since when the kernel has lacked a default route that bgpd has, by family.
    no_default: BTreeMap<Family, Instant>,
}

impl Asker {
    pub(super) fn new(
        config: Config,
        reasons: watch::Sender<u64>,
        answering: watch::Sender<FrrReplies>,
    ) -> Self {
        let (untied, differences, no_default) = Default::default();
        Asker { config, reasons, answering, untied, differences, no_default }
    }

    /// Answers questions and enters changes, one after the other, until nobody is left to ask.
    pub(super) async fn run(
        mut self,
        mut questions: watch::Receiver<Question>,
        mut changes: mpsc::Receiver<Change>,
        answers: watch::Sender<Option<Answer>>,
        late: watch::Sender<u64>,
    ) {
        loop {
            tokio::select! {
                // What is seen after a change is what the change has made.
                biased;
                Some(Change { op, outcome }) = changes.recv() => {
                    let begun = Instant::now();
                    self.answering.send_modify(|answering| answering.open_since = Some(begun));
                    let result = enter(&self.config, &op).await;
                    self.note(result.is_ok());
                    // Whoever gave up waiting asks for the outcome later, or not at all.
                    let _ = outcome.send(result);
                    if begun.elapsed() >= self.config.glance {
                        late.send_modify(|n| *n += 1);
                    }
                }
                asked = questions.changed() => {
                    if asked.is_err() {
                        return;
                    }
                    let question = questions.borrow_and_update().clone();
                    let begun = Instant::now();
                    self.answering.send_modify(|answering| answering.open_since = Some(begun));
                    let observed = match self.look(&question).await {
                        Ok(state) => Observed::Bgpd(state),
                        Err(error) => {
                            // One that comes back begins anew.
                            (self.untied, self.differences) = Default::default();
                            Observed::Silent(chain(&error))
                        }
                    };
                    self.note(matches!(observed, Observed::Bgpd(_)));
                    let question = question.number;
                    answers.send_replace(Some(Answer { question, observed: Arc::new(observed) }));
                    if begun.elapsed() >= self.config.glance {
                        late.send_modify(|n| *n += 1);
                    }
                }
            }
        }
    }

    fn note(&self, answered: bool) {
        self.answering.send_modify(|answering| {
            answering.open_since = None;
            if answered {
                answering.last = Some(Instant::now());
            }
        });
    }

    async fn look(&mut self, question: &Question) -> Result<BgpdState, VtyError> {
        let mut asked = BgpdChannel::new(&self.config).await?;
        let running = asked.expect(RUNNING).await?;
        // Without it there is no router id, which is no reason to stop.
        let instances = asked.ask(INSTANCES).await?;
        let sessions = sessions(&asked.ask(SUMMARY).await?);
        let tree = config::parse(&running);
        let (vrf, kernel) = (self.config.vrf.clone(), &*question.kernel);
        let known = question.vrfs.contains(&vrf) && config::instance(&tree, Some(&vrf)).is_some();
        let tables = match known {
            true => [asked.table(&vrf, "ipv4").await?, asked.table(&vrf, "ipv6").await?],
            false => [None, None],
        };
        let mut no_default = BTreeSet::new();
        for family in Family::BOTH {
            let has = kernel.defaults.keys().any(|(of, ..)| *of == family);
            if !has && learned(&asked.ask(&default_route(family)).await?) {
                no_default.insert(family);
            }
        }
        let zebra = self.zebra().await;
        let now = Instant::now();
        self.no_default.retain(|family, _| no_default.contains(family));
        let since = |family: &Family| *self.no_default.entry(*family).or_insert(now);
        let young = no_default.iter().map(since).any(|since| now < since + INSTALLED);
        no_default
            .retain(|family| self.no_default.get(family).is_some_and(|since| *since + INSTALLED <= now));
        let untied = adrift::untied(&instances, &question.vrfs);
        let adrift = self.untied.look(now, untied, self.config.check);
        let behind = self.behind(now, &tree, &tables, kernel, &zebra);
        let waits = [self.untied.waits().then_some(adrift::TOLD), young.then_some(INSTALLED)];
        if let Some(after) = waits.into_iter().flatten().chain(self.differences.next(now)).min() {
            look_again(self.reasons.clone(), after);
        }
        let behind = behind.map(|behind| (vrf, behind)).into_iter().collect();
        let router_id = default_router_id(&instances);
        Ok(BgpdState { tree, router_id, adrift, behind, sessions, zebra, no_default })
    }

    fn behind(
        &mut self,
        now: Instant,
        tree: &[Node],
        tables: &[Option<BTreeMap<IpNet, bool>>; 2],
        kernel: &kernel::Observed,
        zebra: &Zebra,
    ) -> Option<Behind> {
        let found = behind::compare(&self.config.vrf, tree, tables, kernel);
        self.differences.look(now, found, *zebra == Zebra::Connected)
    }

    /// Asks zebra whether bgpd is connected to it.
    async fn zebra(&self) -> Zebra {
        let asked = async {
            match self.config.backend {
                Backend::Vty => Vty::open(&self.config.dir, "zebra").await?.expect(CLIENTS).await,
                Backend::Vtysh => vtysh(&self.config, &["-c", CLIENTS]).await,
            }
        };
        match timeout(ZEBRA, asked).await {
            Ok(Ok(clients)) if lists_bgp(&clients) => Zebra::Connected,
            Ok(Ok(_)) => Zebra::Apart,
            Ok(Err(error)) if error.is_denied() => Zebra::Unknown,
            Ok(Err(VtyError::Refused { .. })) => Zebra::Unknown,
            Ok(Err(error)) => Zebra::Silent(chain(&error)),
            Err(_) => Zebra::Silent(format!("no answer within {} s", ZEBRA.as_secs())),
        }
    }
}

/// The question for a default route.
fn default_route(family: Family) -> String {
    match family {
        Family::V4 => "show bgp ipv4 unicast 0.0.0.0/0 json".into(),
        Family::V6 => "show bgp ipv6 unicast ::/0 json".into(),
    }
}

/// Whether bgpd has chosen a route in its answer that a neighbour has told it.
fn learned(json: &str) -> bool {
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let paths = value["paths"].as_array().into_iter().flatten();
    let mut best = paths.filter(|path| path["bestpath"]["overall"] == true);
    best.any(|path| {
        let peer = path["peer"]["peerId"].as_str().and_then(|peer| peer.parse::<IpAddr>().ok());
        peer.is_some_and(|peer| !peer.is_unspecified())
    })
}

/// Gives a reason to look after a while.
pub(super) fn look_again(reasons: watch::Sender<u64>, after: Duration) {
    task::spawn("zebra", async move {
        tokio::time::sleep(after).await;
        reasons.send_modify(|n| *n += 1);
    });
}

/// bgpd, by its socket or through vtysh.
enum BgpdChannel<'a> {
    Socket(Vty),
    Program(&'a Config),
}

impl<'a> BgpdChannel<'a> {
    async fn new(config: &'a Config) -> Result<Self, VtyError> {
        Ok(match config.backend {
            Backend::Vty => BgpdChannel::Socket(Vty::open(&config.dir, "bgpd").await?),
            Backend::Vtysh => BgpdChannel::Program(config),
        })
    }

    async fn ask(&mut self, command: &str) -> Result<String, VtyError> {
        match self {
            BgpdChannel::Socket(vty) => Ok(vty.ask(command).await?.text),
            BgpdChannel::Program(config) => vtysh(config, &["-c", command]).await,
        }
    }

    async fn expect(&mut self, command: &str) -> Result<String, VtyError> {
        match self {
            BgpdChannel::Socket(vty) => vty.expect(command).await,
            BgpdChannel::Program(config) => vtysh(config, &["-c", command]).await,
        }
    }

    async fn table(&mut self, vrf: &str, family: &str) -> Result<Option<BTreeMap<IpNet, bool>>, VtyError> {
        Ok(behind::table(&self.ask(&format!("show bgp vrf {vrf} {family} unicast json")).await?))
    }
}

/// The router id of the default instance in the answer to `show bgp vrfs json`.
pub fn default_router_id(json: &str) -> Option<Ipv4Addr> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let id = value.pointer("/vrfs/default/routerId")?.as_str()?.parse().ok()?;
    Some(id).filter(|id: &Ipv4Addr| !id.is_unspecified())
}

/// The neighbours in the answer to `show bgp summary json`, and whether each has an established session that carries unicast
/// routes. A session for EVPN alone announces none of the agent's addresses.
fn sessions(json: &str) -> BTreeMap<String, bool> {
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let families = ["ipv4Unicast", "ipv6Unicast"].map(|family| &value[family]["peers"]).into_iter();
    let peers = families.chain([&value["peers"]]).filter_map(|peers| peers.as_object()).flatten();
    let mut sessions = BTreeMap::new();
    for (peer, about) in peers {
        *sessions.entry(peer.clone()).or_default() |= about["state"] == "Established";
    }
    sessions
}

/// Whether bgpd is in zebra's list of clients, in which each line begins with a client's protocol.
fn lists_bgp(clients: &str) -> bool {
    clients.lines().any(|line| line.split_ascii_whitespace().next() == Some("bgp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_counts_if_a_neighbour_has_told_it_and_it_was_chosen() {
        let route = |peer: &str, best: bool| {
            format!(
                r#"{{"paths":[{{"valid":true,"bestpath":{{"overall":{best}}},"peer":{{"peerId":"{peer}"}}}}]}}"#
            )
        };
        for (json, is) in [
            (route("100.64.1.0", true), true),
            (route("fe80::1", true), true),
            (route("100.64.1.0", false), false),
            (route("0.0.0.0", true), false),
            ("{}".into(), false),
            ("% Network not in table".into(), false),
            (r#"{"paths":{}}"#.into(), false),
        ] {
            assert_eq!(learned(&json), is, "{json}");
        }
    }

    #[test]
    fn sessions_are_counted_over_both_families_and_bgpd_is_found_among_the_clients() {
        let json = r#"{"ipv4Unicast":{"routerId":"1.1.1.1","peers":{"a":{"state":"Active"},"b":{"state":"Established"}}},
            "ipv6Unicast":{"peers":{"a":{"state":"Established"},"c":{"state":"Idle"}}},
            "l2VpnEvpn":{"peers":{"c":{"state":"Established"},"d":{"state":"Established"}}}}"#;
        let up = |peer: &str, up| (peer.to_owned(), up);
        assert_eq!(sessions(json), [up("a", true), up("b", true), up("c", false)].into());
        assert_eq!(sessions(r#"{"peers":{"a":{"state":"Active"}}}"#), [up("a", false)].into());
        for none in ["", "{}", "% No BGP neighbors found", "[]", r#"{"peers":[]}"#] {
            assert_eq!(sessions(none), BTreeMap::new(), "{none}");
        }
        let clients =
            "Name      Connect Time    Last Read\n--------\nstatic    00:00:10\nbgp       00:00:09\n";
        assert!(lists_bgp(clients) && !lists_bgp("Name  bgp\nstatic bgp\n") && !lists_bgp(""));
    }

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
