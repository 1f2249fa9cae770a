//! The agent with a node in memory, which takes plans as the real one does.

use std::time::Instant as Time;

use reconcile::DryRun;

use super::*;
use crate::frr;
use crate::part::kind::Counts;
use crate::plane::plan::plan_after;
use crate::plane::plan::tests::model;
use crate::plane::view::Looks;
use crate::plane::{Observed, Op};

/// A node.
#[derive(Clone)]
struct Node {
    world: Arc<Mutex<model::World>>,
    looks: Arc<Looks>,
    counts: Counts,
}

impl Node {
    fn new() -> Self {
        let mut world = model::World::bare();
        world.frr = model::told_frr();
        let looks = Looks::new(watch::channel(frr::FrrReplies::default()).1);
        Self { world: Arc::new(Mutex::new(world)), looks: Arc::new(looks), counts: Counts::default() }
    }

    fn announces(&self, ip: &str) -> bool {
        lock(&self.world).announced().any(|have| have == ip.parse::<IpAddr>().unwrap())
    }

    fn announced(&self) -> usize {
        lock(&self.world).announced().count()
    }
}

impl Target for Node {
    type Desired = plane::Desired;
    type Observed = Observed;
    type Op = Op;

    fn plan(&mut self, want: &plane::Desired, keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Op> {
        let (plan, counts) = plan_after(&mut None, want, keep, have);
        self.counts = counts;
        plan
    }

    fn publish(&mut self, want: &plane::Desired, have: &Observed) {
        self.looks.leave(want, have, self.counts);
    }

    async fn observe(&mut self, _: Scope) -> Result<Observed, TargetError> {
        Ok(lock(&self.world).observed())
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        Ok(lock(&self.world).run(plan, &|_| false, &mut |_, _| {}))
    }
}

/// The agent of a world on a node.
async fn start(world: &World, node: &Node) -> Bench {
    let view = Some(node.looks.view());
    Bench::of(world.schema, world.southbound_rows(), world, |_| (), node.clone(), view).await
}

async fn eventually(bench: &Bench, what: &str, there: impl Fn() -> bool) {
    let begun = Time::now();
    while !there() {
        let status = bench.agent.handle().status().borrow().clone();
        assert!(begun.elapsed() < PATIENCE, "{what}: {status:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Whether everything was there to be looked at.
fn looked(bench: &Bench) -> bool {
    bench.agent.handle().status().borrow().last_success.is_some()
}

fn problem(bench: &Bench, code: &str) -> bool {
    bench.agent.handle().status().borrow().problems.iter().any(|problem| problem.code == code)
}

/// The number of ports of instances here.
fn crowd(count: u8) -> World {
    let mut world = World::new();
    for n in 0..count {
        let (name, mac) = (format!("vm{n}"), format!("fa:16:3e:00:00:{n:02x} 172.24.4.{}", n + 10));
        world.vif(&name, "neutron-pub", &[&mac]).bind(&name, "ch-a");
    }
    world
}

#[tokio::test]
async fn a_drain_holds_up_nothing_and_ends() {
    let mut world = crowd(2);
    world.config.withdraw_drain = Duration::from_secs(600);
    let node = Node::new();
    let bench = start(&world, &node).await;
    eventually(&bench, "both are announced", || node.announced() == 2).await;
    bind(&bench.southbound, "vm0", json!(["set", []]));
    eventually(&bench, "one is withdrawn", || node.announced() == 1).await;
    let carried = |ip: &str| lock(&node.world).has_way(ip.parse().unwrap());
    assert!(carried("172.24.4.10"));
    // While it drains, another goes, and one comes back.
    bind(&bench.southbound, "vm1", json!(["set", []]));
    eventually(&bench, "the other is withdrawn", || node.announced() == 0).await;
    bind(&bench.southbound, "vm0", on("ch-a"));
    eventually(&bench, "the first is back", || node.announces("172.24.4.10")).await;
    assert!(carried("172.24.4.10") && carried("172.24.4.11"));
    let settled = || bench.agent.handle().status().borrow().state == State::Converged;
    eventually(&bench, "nothing is left to do", settled).await;
    // Its time is over.
    lock(&node.world).draining.clear();
    bench.agent.handle().wake();
    eventually(&bench, "its way goes", || !carried("172.24.4.11")).await;
    assert!(carried("172.24.4.10"));
    bench.agent.stop().await;
}

#[tokio::test]
async fn a_database_that_lost_its_ports_is_disbelieved_for_a_while() {
    let node = Node::new();
    let mut bench = start(&crowd(30), &node).await;
    eventually(&bench, "all are announced", || node.announced() == 30).await;
    bench.southbound.stop().await;
    bench.southbound.restart_empty().await.unwrap();
    load(&bench.southbound, &crowd(5));
    eventually(&bench, "withdrawals are held, and that is said", || problem(&bench, "mass-withdraw-held"))
        .await;
    assert_eq!(node.announced(), 30);
    assert_eq!(bench.agent.trouble(), [""; 0], "what works still works");
    eventually(&bench, "it is obeyed in the end", || node.announced() == 5).await;
    eventually(&bench, "nothing is held any more", || !problem(&bench, "mass-withdraw-held")).await;
    bench.agent.stop().await;
}

#[tokio::test]
async fn what_keeps_everything_from_being_announced_is_trouble_and_one_bad_row_is_none() {
    let mut world = crowd(2);
    world.vif("vm1", "neutron-pub", &["garbage"]).bind("vm1", "ch-a");
    let node = Node::new();
    let bench = start(&world, &node).await;
    eventually(&bench, "the other one is announced", || node.announced() == 1).await;
    eventually(&bench, "the bad one is reported", || problem(&bench, "bad-addresses")).await;
    eventually(&bench, "all else is fine", || bench.agent.trouble().is_empty()).await;
    let told = lock(&node.world).frr.clone();
    lock(&node.world).frr = frr::Observed::Silent("connection refused".into());
    bench.agent.handle().run_now();
    eventually(&bench, "bgpd is missed", || {
        let why = bench.agent.trouble();
        why.len() == 1 && why[0].starts_with("frr/bgp-vrf: bgpd does not answer (connection refused)")
    })
    .await;
    let ready = bench.agent.handle().status().borrow().last_success.is_some();
    assert!(ready, "who waits for the agent to be ready does not wait for FRR");
    lock(&node.world).frr = told;
    bench.agent.handle().run_now();
    eventually(&bench, "bgpd is back", || bench.agent.trouble().is_empty()).await;
    bench.agent.stop().await;
}

fn write_mac(bench: &Bench, port: &str, mac: &str) {
    let change = json!({ "op": "update", "table": "Port_Binding", "where": [["logical_port", "==", port]], "row": { "mac": mac } });
    transact(&bench.southbound, vec![change]);
}

/// Announcements of the previous agent, with a row that became unreadable meanwhile, and the other state that it left.
#[tokio::test]
async fn what_works_stays_over_a_restart_though_its_row_cannot_be_read() {
    for (mac, stale_stays) in [("fa:16:3e 172.24.4.11", false), ("garbage", true)] {
        let node = Node::new();
        // The last of them was unbound while no agent ran.
        *lock(&node.world) = model::World::made(&crowd(4).plane());
        lock(&node.world).frr = model::told_frr();
        let mut world = crowd(3);
        world.vif("vm1", "neutron-pub", &[mac]).bind("vm1", "ch-a");
        let bench = start(&world, &node).await;
        let kept = || problem(&bench, "kept-unclaimed");
        eventually(&bench, "it is said", || looked(&bench) && kept()).await;
        eventually(&bench, "what is stale goes if that is certain", || {
            node.announces("172.24.4.13") == stale_stays
        })
        .await;
        // What was seen to be here goes when it does.
        bind(&bench.southbound, "vm2", json!(["set", []]));
        eventually(&bench, "one goes", || !node.announces("172.24.4.12")).await;
        assert!(node.announces("172.24.4.10") && node.announces("172.24.4.11"), "{mac}");
        assert_eq!(node.announces("172.24.4.13"), stale_stays, "{mac}");
        assert!(lock(&node.world).stranded().is_empty(), "all have their ways");
        assert_eq!(bench.agent.trouble(), [""; 0], "what works still works");
        // Once it can be read it is as any other, and so are they all.
        write_mac(&bench, "vm1", "fa:16:3e:00:00:01 172.24.4.11");
        eventually(&bench, "all is known", || !kept() && !node.announces("172.24.4.13")).await;
        assert!(node.announces("172.24.4.11"));
        write_mac(&bench, "vm1", "garbage");
        eventually(&bench, "it is reported", || problem(&bench, "bad-addresses")).await;
        assert!(node.announces("172.24.4.11") && !kept(), "the agent knows what it had");
        bench.agent.stop().await;
    }
}

#[tokio::test]
async fn what_stands_in_the_way_of_the_vrf_is_trouble_and_told_of_each_address() {
    let node = Node::new();
    lock(&node.world).add_vrf("ovnvrf10", 10);
    let bench = start(&crowd(1), &node).await;
    let why = || bench.agent.trouble().join("\n");
    eventually(&bench, "it is said", || {
        why().contains("device/bgp-vrf: routing table 10 belongs to VRF ovnvrf10")
    })
    .await;
    eventually(&bench, "all is decided", || looked(&bench)).await;
    assert_eq!(node.announced(), 0);
    let told = bench.agent.explain("172.24.4.10".parse().unwrap()).await.unwrap();
    assert!(told.text[0].starts_with("172.24.4.10 should be announced by ch-a"), "{told}");
    assert_eq!(told.in_place, Some(false));
    for line in [
        "device/bgp-nic: its VRF cannot be made.",
        "device/bgp-vrf: routing table 10 belongs to VRF ovnvrf10",
    ] {
        assert!(told.text.iter().any(|text| text.starts_with(line)), "{line}: {told}");
    }
    // It is given another table, and all is well without a restart.
    lock(&node.world).drop_device("ovnvrf10");
    bench.agent.handle().wake();
    eventually(&bench, "it is announced", || node.announced() == 1).await;
    let told = bench.agent.explain("172.24.4.10".parse().unwrap()).await.unwrap();
    assert!(
        told.text[0].starts_with("172.24.4.10 is announced by ch-a") && told.in_place == Some(true),
        "{told}"
    );
    eventually(&bench, "nothing is wrong", || why().is_empty()).await;
    bench.agent.stop().await;
}

#[tokio::test]
async fn a_node_that_ovn_forgot_is_in_trouble_after_the_grace() {
    let mut world = crowd(1);
    world.config.chassis_grace = Duration::from_millis(500);
    let node = Node::new();
    let bench = start(&world, &node).await;
    eventually(&bench, "it is announced", || node.announced() == 1).await;
    let gone = json!({ "op": "delete", "table": "Chassis", "where": [["name", "==", "ch-a"]] });
    transact(&bench.southbound, vec![gone]);
    eventually(&bench, "it is missed", || problem(&bench, "no-chassis")).await;
    eventually(&bench, "it is withdrawn", || node.announced() == 0).await;
    eventually(&bench, "that is trouble", || {
        bench.agent.trouble().iter().any(|why| why.contains("no-chassis"))
    })
    .await;
    bench.agent.stop().await;
}

#[tokio::test]
async fn a_dry_run_says_what_it_would_do_and_changes_nothing() {
    let node = Node::new();
    lock(&node.world).add_stale();
    let before = format!("{:?}", lock(&node.world).observed());
    let world = crowd(3);
    let target = DryRun::new(node.clone());
    let bench = Bench::of(world.schema, world.southbound_rows(), &world, |_| (), target, None).await;
    eventually(&bench, "it has looked", || looked(&bench)).await;
    let plan = bench.agent.handle().plan().await.unwrap();
    let texts: Vec<&str> = plan.steps.iter().map(|step| step.text.as_str()).collect();
    for would in ["add address 172.24.4.12/32 to bgp-nic", "delete rule 32000: to 172.24.4.99/32 lookup 201"]
    {
        assert!(texts.contains(&would), "{would}: {texts:?}");
    }
    bind(&bench.southbound, "vm0", json!(["set", []]));
    let addresses = || bench.agent.decision().addresses.len();
    eventually(&bench, "it follows", || addresses() == 2).await;
    bench.agent.handle().run_now();
    eventually(&bench, "it would do less", || {
        bench.agent.handle().status().borrow().planned < plan.steps.len()
    })
    .await;
    bench.agent.stop().await;
    assert_eq!(format!("{:?}", lock(&node.world).observed()), before);
}

#[tokio::test]
async fn the_base_is_there_before_the_database_is_and_all_else_stays() {
    let node = Node::new();
    // What an agent before this one left, and an FRR that has just started.
    let mut before = model::World::made(&crowd(2).plane());
    before.add_stale();
    before.drop_device("bgp-vrf");
    before.frr = frr::Observed::Bgpd(frr::BgpdState::default());
    *lock(&node.world) = before;
    let world = crowd(2);
    let away = |config: &mut Config| config.sb.remotes = Some("unix:/nowhere/at/all".parse().unwrap());
    let bench =
        Bench::of(world.schema, world.southbound_rows(), &world, away, node.clone(), Some(node.looks.view()))
            .await;
    eventually(&bench, "FRR is told", || lock(&node.world).frr == model::told_frr()).await;
    assert!(lock(&node.world).observed().kernel.links.contains_key("bgp-vrf"), "the VRF is made");
    assert_eq!(node.announced(), 3, "what was announced is");
    assert!(lock(&node.world).stranded().is_empty(), "and has its way");
    let said = || bench.agent.handle().status().borrow().clone();
    eventually(&bench, "it waits", || said().waiting_for == Some("the Southbound database".into())).await;
    assert_eq!(
        (said().state, said().last_success),
        (State::Starting, None),
        "nobody is told that it is ready"
    );
    assert!(bench.agent.trouble().iter().any(|why| why.contains("waits for the Southbound database")));
    bench.agent.stop().await;
}
