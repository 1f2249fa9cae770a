//! Tables of the events to send to Nova.

use jiff::Timestamp;
use reconcile::Desire;
use uuid::Uuid;

use super::desired::{DecideEvents, DueEvents, EventInputs, METADATA_NOT_READY, Notification};
use super::{NovaEvent, note};
use crate::desired::tests::scene::{NET, SUB, Scene, copy, port};
use crate::model::{PlugNotice, Port, owner};
use crate::report::{Agent, AgentKind, Place, Report};
use crate::resource::fixture::{id, network, subnet};

const VM: &str = "7e000000-0000-4000-8000-000000000001";
const P1: u128 = 0x71;
const P2: u128 = 0x72;
const OTHER: u128 = 0x51;
const OTHER_SUB: u128 = 0x52;
const TIMEOUT: u32 = 15;

/// An instance with a port on each of two networks, whose metadata ports have addresses.
struct Site {
    scene: Scene,
    report: Report,
    now: i64,
}

impl Site {
    fn new() -> Self {
        let mut scene = Scene::new();
        scene.put(network(OTHER, "p")).put(subnet(OTHER_SUB, OTHER, "10.9.0.0/24"));
        for (n, net, sub, address) in [(0x61, NET, SUB, "10.0.0.2"), (0x62, OTHER, OTHER_SUB, "10.9.0.2")] {
            let mut service = port(n, net, sub, address);
            service.device_owner = owner::DISTRIBUTED.into();
            service.device_id = format!("ovnmeta-{}", id(net));
            scene.put(service);
        }
        for (n, net, sub, address) in [(P1, NET, SUB, "10.0.0.7"), (P2, OTHER, OTHER_SUB, "10.9.0.7")] {
            let mut port = port(n, net, sub, address);
            port.device_owner = "compute:nova".into();
            port.device_id = VM.into();
            port.binding.host_id = host("ch1");
            scene.put(port);
        }
        Site { scene, report: Report::default(), now: 1000 }
    }

    fn edit(&mut self, n: u128, change: impl FnOnce(&mut Port)) {
        let mut port: Port = copy(&self.scene, n);
        change(&mut port);
        self.scene.put(port);
    }

    /// Puts a port on chassis and reports it as up.
    fn plug(&mut self, n: u128, chassis: &[&str]) {
        let places = chassis.iter().map(|name| Place { chassis: (*name).into(), host: host(name).into() });
        self.report.set_claims(id(n), places.collect(), self.time());
        self.set_up(n, Some(!chassis.is_empty()));
    }

    fn set_up(&mut self, n: u128, up: Option<bool>) {
        self.report.set_up(id(n), up == Some(true));
        self.report.set_down(id(n), up == Some(false));
    }

    fn agent(&mut self, chassis: &str, alive: bool) {
        let agent = Agent {
            id: format!("agent of {chassis}"),
            kind: AgentKind::Metadata,
            host: host(chassis),
            chassis: chassis.into(),
            zones: Default::default(),
            bridge_mappings: String::new(),
            nb_cfg: 0,
            heartbeat: Timestamp::UNIX_EPOCH,
            alive,
            description: String::new(),
        };
        self.report.set_agents(vec![agent]);
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    /// The events to send, and the number of ports that wait.
    fn due(&self) -> (Vec<Notification>, usize) {
        let inputs = EventInputs {
            world: self.scene.world().clone(),
            report: self.report.clone(),
            timeout: TIMEOUT,
            now: self.time(),
        };
        let outcome = DecideEvents.desire(&inputs);
        assert!(outcome.problems.iter().all(|problem| problem.code == METADATA_NOT_READY));
        let DueEvents { notifications, .. } = outcome.value;
        (notifications, outcome.problems.len())
    }

    /// Stores notices for all due events. Returns the events by port.
    fn tell(&mut self) -> Vec<(u128, Option<NovaEvent>)> {
        let (due, _) = self.due();
        self.scene.edit(|txn| due.iter().for_each(|notification| note(txn, notification)));
        let mut told: Vec<_> = due.iter().map(|due| (due.port.as_u128(), due.event)).collect();
        told.sort_by_key(|(port, _)| *port);
        told
    }

    fn hosts(&self, n: u128) -> Vec<String> {
        let notice = self.scene.world().get::<PlugNotice>(&id(n));
        notice.map(|notice| notice.hosts.iter().cloned().collect()).unwrap_or_default()
    }
}

fn host(chassis: &str) -> String {
    format!("{chassis}.example")
}

fn plugged(n: u128) -> (u128, Option<NovaEvent>) {
    (id(n).as_u128(), Some(NovaEvent::Plugged))
}

fn unplugged(n: u128) -> (u128, Option<NovaEvent>) {
    (id(n).as_u128(), Some(NovaEvent::Unplugged))
}

#[test]
fn nova_is_told_of_each_change_once() {
    let mut site = Site::new();
    assert!(site.tell().is_empty(), "nothing is plugged in");
    site.plug(P1, &["ch1"]);
    assert_eq!(site.tell(), [plugged(P1)]);
    assert!(site.tell().is_empty());
    site.plug(P2, &["ch1"]);
    assert_eq!(site.tell(), [plugged(P2)]);
    site.plug(P1, &[]);
    assert_eq!(site.tell(), [unplugged(P1)]);
    assert!(site.tell().is_empty());
    site.plug(P1, &["ch1"]);
    assert_eq!(site.tell(), [plugged(P1)], "the same host again is news");
}

#[test]
fn ports_of_nobody_and_of_services_are_none_of_novas() {
    let mut site = Site::new();
    for (owner, device) in
        [("", VM), ("network:dhcp", VM), ("compute:nova", "no uuid"), ("baremetal:none", VM)]
    {
        site.edit(P1, |port| (port.device_owner, port.device_id) = (owner.into(), device.into()));
        site.plug(P1, &["ch1"]);
        assert!(site.tell().is_empty(), "{owner} {device}");
    }
}

#[test]
fn silence_is_not_a_lost_port() {
    let mut site = Site::new();
    site.plug(P1, &["ch1"]);
    site.tell();
    // The Northbound was lost: first the row is gone, then it exists and northd has not processed it.
    site.report = Report::default();
    assert!(site.tell().is_empty());
    site.set_up(P1, None);
    assert!(site.tell().is_empty());
    // Up in the Northbound, while the Southbound has not reported a chassis.
    site.set_up(P1, Some(true));
    assert!(site.tell().is_empty());
    assert_eq!(site.hosts(P1), [host("ch1")]);
    site.plug(P1, &["ch1"]);
    assert!(site.tell().is_empty(), "it never left");
}

#[test]
fn a_port_waits_for_the_metadata_of_all_networks_of_its_instance() {
    let mut site = Site::new();
    site.agent("ch1", true);
    site.plug(P1, &["ch1"]);
    site.plug(P2, &["ch1"]);
    assert_eq!(site.due(), (Vec::new(), 4), "two networks for each of two ports");
    site.report.set_metadata_ready("ch1", [id(NET)].into_iter().collect());
    assert_eq!(site.due(), (Vec::new(), 2));
    site.report.set_metadata_ready("ch2", [id(OTHER)].into_iter().collect());
    assert_eq!(site.due().1, 2, "another chassis is ready");
    site.report.set_metadata_ready("ch1", [id(NET), id(OTHER)].into_iter().collect());
    assert_eq!(site.tell(), [plugged(P1), plugged(P2)]);
}

#[test]
fn a_port_does_not_wait_for_ever_nor_for_a_dead_agent() {
    let mut site = Site::new();
    site.agent("ch1", true);
    site.plug(P1, &["ch1"]);
    site.now += i64::from(TIMEOUT) - 1;
    assert_eq!(site.due().1, 2, "both networks of the instance");
    site.now += 1;
    let (due, waiting) = site.due();
    assert_eq!((due.len(), waiting), (1, 0));
    assert_eq!(due[0].unready.iter().copied().collect::<Vec<Uuid>>(), [id(NET), id(OTHER)]);

    for agent in [Some(("ch1", false)), Some(("ch2", true)), None] {
        let mut site = Site::new();
        if let Some((chassis, alive)) = agent {
            site.agent(chassis, alive);
        }
        site.plug(P1, &["ch1"]);
        assert_eq!(site.tell(), [plugged(P1)], "{agent:?}");
    }
}

#[test]
fn networks_that_the_instance_cannot_use_for_metadata_do_not_count() {
    let mut site = Site::new();
    site.agent("ch1", true);
    site.report.set_metadata_ready("ch1", [id(NET)].into_iter().collect());
    site.edit(0x62, |service| service.fixed_ips.clear());
    site.plug(P1, &["ch1"]);
    site.plug(P2, &["ch1"]);
    assert_eq!(site.tell(), [plugged(P1), plugged(P2)], "the service has no address in the other network");
    let mut site = Site::new();
    site.agent("ch1", true);
    site.report.set_metadata_ready("ch1", [id(NET)].into_iter().collect());
    site.scene.edit(|txn| drop(txn.remove::<Port>(&id(0x62))));
    site.plug(P1, &["ch1"]);
    site.plug(P2, &["ch1"]);
    assert_eq!(site.tell(), [plugged(P1), plugged(P2)], "the other network has no service");
}

#[test]
fn a_migration_is_told_when_the_destination_has_the_port() {
    let mut site = Site::new();
    site.plug(P1, &["ch1"]);
    site.tell();
    site.now += 100;
    site.agent("ch2", true);
    site.plug(P1, &["ch1", "ch2"]);
    assert_eq!(site.due(), (Vec::new(), 1), "the destination's metadata service is not ready");
    site.report.set_metadata_ready("ch2", [id(NET)].into_iter().collect());
    assert_eq!(site.tell(), [plugged(P1)]);
    assert_eq!(site.hosts(P1), [host("ch1"), host("ch2")]);
    // The instance runs on the destination now. Nova knows that, and no port was unplugged.
    site.plug(P1, &["ch2"]);
    assert_eq!(site.tell(), [(id(P1).as_u128(), None)]);
    assert_eq!(site.hosts(P1), [host("ch2")]);
    // A cancelled migration.
    site.plug(P1, &["ch2", "ch3"]);
    assert_eq!(site.tell(), [plugged(P1)]);
    site.plug(P1, &["ch2"]);
    assert_eq!(site.tell(), [(id(P1).as_u128(), None)]);
}

#[test]
fn deleted_ports_and_those_that_nova_let_go() {
    let mut site = Site::new();
    site.plug(P1, &["ch1"]);
    site.plug(P2, &["ch1"]);
    site.tell();
    site.scene.edit(|txn| drop(txn.remove::<Port>(&id(P1))));
    site.edit(P2, |port| (port.device_owner, port.device_id) = (String::new(), String::new()));
    assert_eq!(site.tell(), [(id(P1).as_u128(), Some(NovaEvent::Deleted)), (id(P2).as_u128(), None)]);
    assert!(site.tell().is_empty());
    assert!(site.scene.world().table::<PlugNotice>().is_empty());
}

#[test]
fn another_instance_on_the_port_is_news() {
    let mut site = Site::new();
    site.plug(P1, &["ch1"]);
    site.tell();
    let next = "7e000000-0000-4000-8000-000000000002";
    site.edit(P1, |port| port.device_id = next.into());
    let (due, _) = site.due();
    assert_eq!(
        (due.len(), due[0].event, due[0].instance.to_string()),
        (1, Some(NovaEvent::Plugged), next.into())
    );
    site.tell();
    assert!(site.tell().is_empty());
}

#[test]
fn an_external_port_is_where_its_instance_is() {
    let mut site = Site::new();
    site.agent("ch1", true);
    site.edit(P1, |port| port.binding.vnic_type = "direct".into());
    site.set_up(P1, Some(true));
    assert_eq!(site.tell(), [plugged(P1)]);
    assert_eq!(site.hosts(P1), [host("ch1")]);
    site.set_up(P1, Some(false));
    assert_eq!(site.tell(), [unplugged(P1)]);
}
