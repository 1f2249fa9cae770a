//! The agent between two database servers and a target that only remembers.

mod node;
mod northbound;

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovsdb::fake::Server;
use reconcile::{Applied, ObjectId, Plan, Scope, TargetError};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::bgp::desired::tests::world::{VSWITCH, World, id};
use crate::plane::reserved::Reserve;

/// Time limit for any step, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A target that takes everything at once, and remembers every state it was in.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<plane::Desired>>>);

impl Recorder {
    fn addresses(plane: &plane::Desired) -> BTreeSet<IpAddr> {
        let announced =
            plane.kernel.addresses.iter().filter(|address| address.dev == plane.kernel.own.announce);
        announced.map(|address| address.net.addr()).collect()
    }

    fn announced(&self) -> BTreeSet<IpAddr> {
        lock(&self.0).last().map(Self::addresses).unwrap_or_default()
    }

    /// Everything that was ever announced, state by state.
    fn history(&self) -> Vec<BTreeSet<IpAddr>> {
        lock(&self.0).iter().map(Self::addresses).collect()
    }

    async fn eventually(&self, handle: &Handle, what: &[&str]) {
        let what: BTreeSet<IpAddr> = what.iter().map(|ip| ip.parse().unwrap()).collect();
        let there = async {
            while self.announced() != what {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = timeout(PATIENCE, there).await.is_ok();
        let status = handle.status().borrow().clone();
        assert!(in_time, "announced {:?} instead of {what:?}: {status:?}", self.announced());
    }
}

impl Target for Recorder {
    type Desired = plane::Desired;
    type Observed = Option<plane::Desired>;
    type Op = String;

    fn plan(
        &mut self,
        want: &plane::Desired,
        _: &BTreeSet<ObjectId>,
        have: &Option<plane::Desired>,
    ) -> Plan<String> {
        // What is there before OVN's database told anything is not of interest here.
        if want.partial {
            return Plan::new(0, 0);
        }
        let there = have.as_ref().is_some_and(|have| have.kernel == want.kernel && have.flows == want.flows);
        let mut plan = Plan::new(1, usize::from(there));
        if !there {
            lock(&self.0).push(want.clone());
            plan.push(ObjectId::new("plane", "all"), format!("become as wanted ({})", lock(&self.0).len()));
        }
        plan
    }

    async fn observe(&mut self, _: Scope) -> Result<Option<plane::Desired>, TargetError> {
        Ok(lock(&self.0).last().cloned())
    }

    async fn apply(&mut self, plan: &Plan<String>) -> Result<Applied, TargetError> {
        Ok(Applied::all_done(plan))
    }
}

struct Bench {
    /// OVN's: the Southbound, but where another is named.
    southbound: Server,
    agent: Agent,
    target: Recorder,
    vswitch: Server,
    _dir: tempfile::TempDir,
}

impl Bench {
    /// Both servers with what a world has, and the agent on them.
    async fn start(world: &World) -> Self {
        Self::on(world.schema, world.southbound_rows(), world).await
    }

    /// The agent of a world's node, on a database of OVN's with these rows.
    async fn on(schema: &str, rows: Vec<Value>, world: &World) -> Self {
        Self::with(schema, rows, world, |_| ()).await
    }

    /// The same, with further settings.
    async fn with(schema: &str, rows: Vec<Value>, world: &World, set: impl FnOnce(&mut Config)) -> Self {
        let target = Recorder::default();
        Self { target: target.clone(), ..Self::of(schema, rows, world, set, target, None).await }
    }

    /// The same on a target of another kind.
    async fn of<T>(
        schema: &str,
        rows: Vec<Value>,
        world: &World,
        set: impl FnOnce(&mut Config),
        target: T,
        view: Option<plane::View>,
    ) -> Self
    where
        T: Target<Desired = plane::Desired> + 'static,
        T::Observed: 'static,
        T::Op: 'static,
    {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let southbound = Server::builder().schema(schema).listen_unix(at("ovn.sock")).start().await.unwrap();
        let vswitch = Server::builder().schema(VSWITCH).listen_unix(at("vs.sock")).start().await.unwrap();
        transact(&southbound, rows);
        transact(&vswitch, world.vswitch_rows());
        let mut settings = world.config.sb.clone();
        settings.remotes = Some(southbound.remote().parse().unwrap());
        let mut config = Config {
            ovsdb_connection: Some(vswitch.remote().parse().unwrap()),
            sb: settings.clone(),
            nb: settings,
            mass_withdraw_hold: Duration::from_millis(500),
            ..world.config.clone()
        };
        set(&mut config);
        let connections = NodeConnections::open(config.connections(), &[tables(&config)]);
        let agent = Agent::start(config, &connections, target, view, [], Metrics::default());
        Self { southbound, agent, target: Recorder::default(), vswitch, _dir: dir }
    }
}

impl Bench {
    async fn announces(&self, what: &[&str]) {
        self.target.eventually(self.agent.handle(), what).await;
    }
}

fn load(server: &Server, world: &World) {
    transact(server, world.southbound_rows());
}

fn transact(server: &Server, ops: Vec<Value>) {
    let reply = server.transact(&Value::Array(ops));
    let errors =
        reply.as_array().map_or(1, |all| all.iter().filter(|one| one.get("error").is_some()).count());
    assert_eq!(errors, 0, "{reply}");
}

fn bind(server: &Server, port: &str, chassis: Value) {
    let row = json!({ "chassis": chassis, "up": true });
    transact(
        server,
        vec![
            json!({ "op": "update", "table": "Port_Binding", "where": [["logical_port", "==", port]], "row": row }),
        ],
    );
}

fn on(chassis: &str) -> Value {
    json!(["uuid", id(chassis).to_string()])
}

/// One VM here, one behind the gateway, which is here, on another chassis.
fn world() -> World {
    let mut world = World::new().tenants();
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
    world
        .vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"])
        .bind("vm2", "ch-b")
        .bind("cr-lrp-gw1", "ch-a");
    world
}

const ALL: [&str; 4] = ["172.24.4.10", "172.24.4.221", "2001:db8::221", "10.1.0.5"];

#[tokio::test]
async fn the_first_decision_has_all_the_rows_that_matter() {
    let bench = Bench::start(&world()).await;
    bench.announces(&ALL).await;
    assert_eq!(
        bench.target.history()[0],
        bench.target.announced(),
        "nothing was decided from half of the rows"
    );
    assert_eq!(bench.agent.databases().len(), 2);
    bench.agent.stop().await;
    assert_eq!(bench.target.announced().len(), ALL.len(), "a stop leaves everything as it is");
}

#[tokio::test]
async fn changes_are_followed_and_rows_asked_for_as_they_come_to_matter() {
    let mut start = world();
    start.bind("cr-lrp-gw1", "ch-b");
    let bench = Bench::start(&start).await;
    bench.announces(&["172.24.4.10"]).await;
    bind(&bench.southbound, "cr-lrp-gw1", on("ch-a"));
    bench.announces(&ALL).await;
    bind(&bench.southbound, "vm1", json!(["set", []]));
    bench.announces(&ALL[1..]).await;
    bind(&bench.southbound, "cr-lrp-gw1", on("ch-b"));
    bench.announces(&[]).await;
    bench.agent.stop().await;
}

#[tokio::test]
async fn a_database_that_is_away_or_empty_for_a_moment_withdraws_nothing() {
    let mut bench = Bench::start(&world()).await;
    bench.announces(&ALL).await;
    bench.southbound.stop().await;
    sleep(Duration::from_millis(200)).await;
    bench.southbound.restart_empty().await.unwrap();
    let southbound = bench.agent.databases().remove(1);
    let empty = async {
        while !southbound.snapshot().table::<ovn::sb::PortBinding>().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, empty).await.expect("the client loads the empty database");
    sleep(Duration::from_millis(200)).await;
    load(&bench.southbound, &world());
    let back = async {
        while southbound.snapshot().table::<ovn::sb::PortBinding>().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, back).await.expect("the rows come back");
    bench.announces(&ALL).await;
    let least = bench.target.history().iter().map(BTreeSet::len).min();
    assert_eq!(least, Some(ALL.len()), "nothing was ever withdrawn");
    bench.agent.stop().await;
}

#[tokio::test]
async fn a_database_that_stays_empty_is_believed_in_the_end() {
    let mut world = world();
    world.config.chassis_grace = Duration::from_millis(500);
    let mut bench = Bench::start(&world).await;
    bench.announces(&ALL).await;
    bench.southbound.stop().await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.target.history().len(), 1, "an outage changes nothing");
    bench.southbound.restart_empty().await.unwrap();
    bench.announces(&[]).await;
    assert_eq!(bench.target.history().len(), 2, "all at once, after the grace");
    bench.agent.stop().await;
}

/// ovn-controller restarts: our row goes with all bindings, comes back as another, and ports are bound to it one by one.
#[tokio::test]
async fn a_new_chassis_row_gets_time_to_have_its_ports_bound() {
    let bench = Bench::start(&world()).await;
    bench.announces(&ALL).await;
    let gone = json!({ "op": "delete", "table": "Chassis", "where": [["name", "==", "ch-a"]] });
    transact(&bench.southbound, vec![gone]);
    let new = id("ch-a made anew");
    transact(&bench.southbound, World::chassis_rows("ch-a", new));
    sleep(Duration::from_millis(100)).await;
    for port in ["vm1", "cr-lrp-gw1"] {
        bind(&bench.southbound, port, json!(["uuid", new.to_string()]));
    }
    sleep(Duration::from_millis(700)).await;
    bench.announces(&ALL).await;
    let least = bench.target.history().iter().map(BTreeSet::len).min();
    assert_eq!(least, Some(ALL.len()), "nothing was ever withdrawn");
    // What is not bound again is withdrawn in the end.
    bind(&bench.southbound, "vm1", json!(["set", []]));
    bench.announces(&ALL[1..]).await;
    bench.agent.stop().await;
}

#[tokio::test]
async fn a_stop_withdraws_where_that_was_asked_for() {
    let mut world = world();
    world.config.withdraw_on_stop = true;
    let bench = Bench::start(&world).await;
    bench.announces(&ALL).await;
    let rules = lock(&bench.target.0).last().unwrap().kernel.rules.clone();
    bench.agent.stop().await;
    assert_eq!(bench.target.announced(), BTreeSet::new());
    assert_eq!(lock(&bench.target.0).last().unwrap().kernel.rules, rules, "the wiring stays");
}

#[tokio::test]
async fn explanations_know_the_rows_of_others() {
    let mut start = world();
    start.vif("vm3", "neutron-pub", &["fa:16:3e:00:00:03 172.24.4.12"]).bind("vm3", "ch-b");
    let bench = Bench::start(&start).await;
    bench.announces(&ALL).await;
    let told = bench.agent.explain("172.24.4.12".parse().unwrap()).await.unwrap();
    assert!(!told.exposed && told.text[1].contains("is bound to chassis ch-b"), "{told:?}");
    let told = bench.agent.explain("172.24.4.10".parse().unwrap()).await.unwrap();
    assert!(told.announced && told.device.as_deref() == Some("br-ex"), "{told:?}");
    bench.agent.stop().await;
}

#[tokio::test]
async fn what_is_waited_for_is_said() {
    let mut world = world();
    world.settings.remove("system-id");
    let bench = Bench::start(&world).await;
    let mut status = bench.agent.handle().status();
    let said =
        status.wait_for(|now| now.waiting_for.as_deref().is_some_and(|what| what.contains("system-id")));
    timeout(PATIENCE, said).await.unwrap().unwrap();
    assert!(bench.agent.explain("10.0.0.1".parse().unwrap()).await.is_err());
    bench.agent.stop().await;
}

#[tokio::test]
async fn what_the_name_of_a_database_server_stands_for_is_reserved_when_it_is_named() {
    let bench = Bench::start(&world()).await;
    bench.announces(&ALL).await;
    let shared = &bench.agent.shared;
    let reserved = |ip: &str| lock(&shared.reserved).has(ip.parse().unwrap()).map(|(_, why)| why.clone());
    assert_ne!(reserved("127.0.0.1"), Some(Reserve::Database));
    // ovn-controller lives by this remote, the agent by another.
    let remote = json!(["map", [["ovn-remote", "unix:/none,tcp:localhost:6642,ssl:[2001:db8::5]:6642"]]]);
    let mutations =
        json!([["external_ids", "delete", ["set", ["ovn-remote"]]], ["external_ids", "insert", remote]]);
    transact(
        &bench.vswitch,
        vec![json!({ "op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": mutations })],
    );
    let known = async {
        while ["127.0.0.1", "2001:db8::5"].map(reserved) != [Some(Reserve::Database), Some(Reserve::Database)]
        {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(PATIENCE, known).await.is_ok(), "{:?}", lock(&shared.reserved));
}
