//! Flows on a real ovs-vswitchd.

use std::collections::BTreeSet;
use std::path::Path;

use node::flows::{self, Bridge, Flows, Observed, Op, Seen};
use node::kernel::Dev;
use node::part::keep::Keep;
use ovn::MacAddr;
use reconcile::Scope;
use tempfile::TempDir;

use crate::support::{Daemon, eventually, run};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 1]);

/// A switch with a bridge `br-ex` that has a port with number 5.
pub(crate) struct Switch {
    pub(crate) dir: TempDir,
    _server: Daemon,
    switch: Daemon,
}

impl Switch {
    pub(crate) async fn start() -> Switch {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        run(
            "ovsdb-tool",
            &["create", &at("conf.db"), "/usr/share/openvswitch/vswitch.ovsschema"],
            dir.path(),
        );
        let remote = format!("--remote=punix:{}", at("db.sock"));
        let control = format!("--unixctl={}", at("server.ctl"));
        let server =
            Daemon::start("ovsdb-server", &["-vconsole:off", &at("conf.db"), &remote, &control], dir.path());
        eventually("ovsdb-server listens", async || dir.path().join("db.sock").exists().then_some(())).await;
        let switch = vswitchd(dir.path());
        let this = Switch { dir, _server: server, switch };
        this.vsctl("--no-wait init");
        this.vsctl("--no-wait add-br br-ex -- set bridge br-ex datapath_type=dummy other-config:hwaddr=02:00:00:00:ee:01");
        this.vsctl("add-port br-ex p5 -- set interface p5 type=dummy ofport_request=5");
        let socket = this.dir.path().join("br-ex.mgmt");
        eventually("the bridge has a socket", async || socket.exists().then_some(())).await;
        this
    }

    pub(crate) fn vsctl(&self, words: &str) -> String {
        let db = format!("--db=unix:{}", self.dir.path().join("db.sock").display());
        let args: Vec<&str> = [db.as_str(), "--timeout=60"].into_iter().chain(words.split(' ')).collect();
        run("ovs-vsctl", &args, self.dir.path())
    }

    fn ofctl(&self, args: &[&str]) -> String {
        run("ovs-ofctl", args, self.dir.path())
    }

    /// The flows of the bridge, without what counts up.
    fn flows(&self) -> Vec<String> {
        let dump = self.ofctl(&["--no-stats", "--no-names", "dump-flows", "br-ex"]);
        let mut lines: Vec<String> = dump.lines().map(|line| line.trim().to_owned()).collect();
        lines.sort();
        lines
    }

    fn open(&self) -> Flows {
        Flows::open(self.dir.path())
    }
}

fn vswitchd(dir: &Path) -> Daemon {
    let at = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let (remote, control) = (format!("unix:{}", at("db.sock")), format!("--unixctl={}", at("switch.ctl")));
    Daemon::start(
        "ovs-vswitchd",
        &["-vconsole:off", "--enable-dummy", "--disable-system", &remote, &control],
        dir,
    )
}

fn want(ports: &[u32]) -> flows::Desired {
    let ports = ports.iter().map(|port| (*port, Dev::new("br-ex"))).collect();
    [(Dev::new("br-ex"), Bridge { mac: Some(MAC), ports, ..Default::default() })].into()
}

fn bridges() -> BTreeSet<Dev> {
    [Dev::new("br-ex")].into()
}

fn planned(want: &flows::Desired, have: &Observed) -> Vec<Op> {
    let mut steps = flows::plan::plan(want, &Keep::default(), have).steps;
    steps.sort_by_key(|step| step.phase);
    steps.into_iter().map(|step| step.op).collect()
}

/// Does what is to be done; how much that was.
async fn reconcile(flows: &mut Flows, want: &flows::Desired) -> usize {
    let have = flows.observe(Scope::Full, bridges()).await;
    let ops = planned(want, &have);
    let all: Vec<&Op> = ops.iter().collect();
    if !all.is_empty() {
        for result in flows.apply(&Dev::new("br-ex"), &all).await.unwrap() {
            result.unwrap();
        }
    }
    // What was changed is remembered as it is seen.
    assert_eq!(planned(want, &flows.glance()), []);
    ops.len()
}

const OURS: [&str; 2] = [
    "cookie=0x3e7, priority=900,ip,in_port=5 actions=mod_dl_dst:02:00:00:00:ee:01,NORMAL",
    "cookie=0x3e7, priority=900,ipv6,in_port=5 actions=mod_dl_dst:02:00:00:00:ee:01,NORMAL",
];
const NORMAL: &str = "priority=0 actions=NORMAL";

#[tokio::test]
async fn flows_are_made_kept_and_removed_and_others_stay() {
    let switch = Switch::start().await;
    switch.ofctl(&["add-flow", "br-ex", "cookie=0x7,priority=900,tcp,in_port=5,actions=drop"]);
    let mut flows = switch.open();
    assert_eq!(reconcile(&mut flows, &want(&[5])).await, 2);
    let theirs = "cookie=0x7, priority=900,tcp,in_port=5 actions=drop";
    assert_eq!(switch.flows(), [OURS[0], OURS[1], theirs, NORMAL]);
    assert_eq!(reconcile(&mut flows, &want(&[5])).await, 0, "nothing is left to do");
    // Stale flows of our cookie in any form and table, also with fields that we never use.
    switch.ofctl(&["add-flow", "br-ex", "cookie=0x3e7,priority=900,ip,in_port=33,actions=NORMAL"]);
    switch.ofctl(&[
        "add-flow",
        "br-ex",
        "cookie=0x3e7,table=4,priority=7,reg3=5,tcp,tp_dst=80,ct_state=+trk,actions=drop",
    ]);
    switch.ofctl(&["add-flow", "br-ex", "cookie=0x3e7,priority=900,dl_vlan=7,actions=NORMAL"]);
    assert_eq!(reconcile(&mut flows, &want(&[5])).await, 3);
    assert_eq!(switch.flows(), [OURS[0], OURS[1], theirs, NORMAL]);
    assert_eq!(reconcile(&mut flows, &want(&[])).await, 2);
    assert_eq!(switch.flows(), [theirs, NORMAL]);
}

#[tokio::test]
async fn flows_of_ovn_bgp_agent_are_taken_over_as_they_are() {
    let switch = Switch::start().await;
    for family in ["ip", "ipv6"] {
        let flow = format!(
            "cookie=0x3e7,priority=900,{family},in_port=5,actions=mod_dl_dst:02:00:00:00:ee:01,NORMAL"
        );
        switch.ofctl(&["add-flow", "br-ex", &flow]);
    }
    assert_eq!(reconcile(&mut switch.open(), &want(&[5])).await, 0);
    // A bridge whose address changed has them corrected in place.
    let mut other = want(&[5]);
    other.get_mut("br-ex").unwrap().mac = Some(MacAddr([2; 6]));
    assert_eq!(reconcile(&mut switch.open(), &other).await, 2);
    assert!(switch.flows().iter().filter(|flow| flow.contains("02:02:02:02:02:02")).count() == 2);
}

#[tokio::test]
async fn flows_that_others_delete_are_noticed() {
    let switch = Switch::start().await;
    let mut flows = switch.open();
    reconcile(&mut flows, &want(&[5])).await;
    let mut changes = flows.changes();
    changes.mark_unchanged();
    switch.ofctl(&["del-flows", "br-ex"]);
    tokio::time::timeout(crate::support::PATIENCE, changes.changed()).await.expect("noticed").unwrap();
    let have = flows.observe(Scope::Cached, bridges()).await;
    assert_eq!(planned(&want(&[5]), &have).len(), 2);
}

#[tokio::test]
async fn the_flow_that_switches_as_usual_is_missed_and_restored_beside_nobody_elses() {
    let switch = Switch::start().await;
    let mut flows = switch.open();
    let mut want = want(&[5]);
    want.get_mut("br-ex").unwrap().restore_normal = true;
    reconcile(&mut flows, &want).await;
    let mut changes = flows.changes();
    changes.mark_unchanged();
    switch.ofctl(&["--strict", "del-flows", "br-ex", "priority=0"]);
    assert_eq!(switch.flows(), OURS);
    tokio::time::timeout(crate::support::PATIENCE, changes.changed()).await.expect("noticed").unwrap();
    assert_eq!(reconcile(&mut flows, &want).await, 1);
    assert_eq!(switch.flows(), [OURS[0], OURS[1], NORMAL]);
    // Another flow to NORMAL is none for every packet, and somebody who has flows has reasons.
    switch.ofctl(&["--strict", "del-flows", "br-ex", "priority=0"]);
    switch.ofctl(&["add-flow", "br-ex", "cookie=0x7,priority=5,arp,actions=NORMAL"]);
    let have = flows.observe(Scope::Full, bridges()).await;
    let part = flows::plan::plan(&want, &Keep::default(), &have);
    assert_eq!((part.steps.len(), part.problems[0].code.as_str()), (0, "no-normal-flow"));
    // One that an operator made with another priority and a mark of their own does as well.
    switch.ofctl(&["add-flow", "br-ex", "cookie=0x7,priority=1,actions=NORMAL"]);
    assert_eq!(reconcile(&mut flows, &want).await, 0);
}

#[tokio::test]
async fn a_restart_of_the_switch_is_survived() {
    let mut switch = Switch::start().await;
    let mut flows = switch.open();
    reconcile(&mut flows, &want(&[5])).await;
    switch.switch.kill();
    let silent = async |flows: &mut Flows| {
        let have = flows.observe(Scope::Full, bridges()).await;
        matches!(have.get("br-ex"), Some(Seen::Silent(_))).then_some(())
    };
    eventually("nobody answers", async || silent(&mut flows).await).await;
    switch.switch = vswitchd(switch.dir.path());
    eventually("it answers again", async || match silent(&mut flows).await {
        Some(()) => None,
        None => Some(()),
    })
    .await;
    assert_eq!(reconcile(&mut flows, &want(&[5])).await, 2);
    assert_eq!(switch.flows()[..2], OURS);
}

#[tokio::test]
async fn a_bridge_needs_openflow_13_and_nothing_else() {
    let switch = Switch::start().await;
    switch.vsctl("set bridge br-ex protocols=OpenFlow13");
    assert_eq!(reconcile(&mut switch.open(), &want(&[5])).await, 2);
    switch.vsctl("set bridge br-ex protocols=OpenFlow10");
    let have = eventually("the bridge refuses", async || {
        let have = switch.open().observe(Scope::Full, bridges()).await;
        matches!(have.get("br-ex"), Some(Seen::Silent(_))).then_some(have)
    })
    .await;
    let Some(Seen::Silent(why)) = have.get("br-ex") else { panic!("{have:?}") };
    assert!(why.contains("OpenFlow13"), "{why}");
}

#[tokio::test]
async fn a_bridge_that_is_not_there_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let have = Flows::open(dir.path()).observe(Scope::Full, bridges()).await;
    let Some(Seen::Silent(why)) = have.get("br-ex") else { panic!("{have:?}") };
    assert!(why.contains("br-ex.mgmt"), "{why}");
}
