//! Ports for VLANs on a real ovs-vswitchd: made, kept, corrected and removed, and packets of the VLAN find them.

use node::connections::switch;
use node::kernel::Dev;
use node::part::keep::Keep;
use node::ports::{self, Observed, Op, Port, PortError, Ports};
use ovn::MacAddr;
use ovsdb::{Client, ClientConfig};

use crate::support::{eventually, run};
use crate::switch::Switch;

const DEV: &str = "br-ex.100";
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 1]);

fn want(mac: MacAddr) -> ports::Desired {
    [(Dev::new(DEV), Port { bridge: "br-ex".into(), tag: 100, mac: Some(mac) })].into()
}

async fn open(switch: &Switch) -> Ports {
    let remote = format!("unix:{}/db.sock", switch.dir.path().display());
    let client = Client::open(ClientConfig::new(remote.parse().unwrap()), switch::model());
    client.synced().await.unwrap();
    Ports::of(client, node::bgp::PORT_MARK)
}

fn planned(want: &ports::Desired, have: &Observed) -> Vec<Op> {
    let mut steps = ports::plan::plan(want, &Keep::default(), have, |_| true).steps;
    steps.sort_by_key(|step| step.phase);
    steps.into_iter().map(|step| step.op).collect()
}

/// Does what is to be done; how much that was. What was done is seen at once.
async fn reconcile(ports: &mut Ports, want: &ports::Desired) -> usize {
    let ops = planned(want, &ports.observe());
    for op in &ops {
        ports.apply(op).await.unwrap();
    }
    assert_eq!(planned(want, &ports.observe()), []);
    ops.len()
}

/// Waits until the switch has made the port with this address; its OpenFlow number.
async fn made(switch: &Switch, mac: &str) -> String {
    eventually("the switch has made the port", async || {
        let told = switch.vsctl(&format!("--bare --columns=mac_in_use,ofport find interface name={DEV}"));
        let mut lines = told.lines();
        (lines.next() == Some(mac)).then(|| lines.next().unwrap_or_default().to_owned())
    })
    .await
}

#[tokio::test]
async fn ports_are_made_kept_corrected_and_removed_and_others_stay() {
    let switch = Switch::start().await;
    switch.vsctl("add-port br-ex br-ex.7 -- set interface br-ex.7 type=internal");
    let mut ports = open(&switch).await;
    assert_eq!(ports.observe().others, [Dev::new("br-ex.7")].into());
    assert_eq!(reconcile(&mut ports, &want(MAC)).await, 1);
    made(&switch, "02:00:00:00:ee:01").await;
    assert_eq!(
        switch.vsctl(&format!("get port {DEV} tag external_ids")),
        "100\n{\"meridian:owner\"=bgp-vlan}\n"
    );
    assert_eq!(
        reconcile(&mut open(&switch).await, &want(MAC)).await,
        0,
        "nothing is left to do after a restart"
    );

    // The bridge has another address, and somebody turned the VLAN.
    switch.vsctl(&format!("set port {DEV} tag=7 external_ids:theirs=kept"));
    let mut ports = open(&switch).await;
    assert_eq!(reconcile(&mut ports, &want(MacAddr([2; 6]))).await, 1);
    made(&switch, "02:02:02:02:02:02").await;
    assert_eq!(
        switch.vsctl(&format!("get port {DEV} tag external_ids")),
        "100\n{\"meridian:owner\"=bgp-vlan, theirs=kept}\n"
    );

    assert_eq!(reconcile(&mut ports, &ports::Desired::new()).await, 1);
    assert_eq!(switch.vsctl("list-ports br-ex"), "br-ex.7\np5\n");
}

#[tokio::test]
async fn packets_of_the_vlan_are_delivered_to_its_port_without_their_tag() {
    let switch = Switch::start().await;
    let mut ports = open(&switch).await;
    reconcile(&mut ports, &want(MAC)).await;
    let number = made(&switch, "02:00:00:00:ee:01").await;
    let control = switch.dir.path().join("switch.ctl").display().to_string();
    let appctl = |words: &[&str]| run("ovs-appctl", &[&["-t", &control], words].concat(), switch.dir.path());
    appctl(&["fdb/add", "br-ex", DEV, "100", "02:00:00:00:ee:01"]);
    let from_overlay =
        "in_port=5,dl_vlan=100,dl_vlan_pcp=0,dl_src=fa:16:3e:00:00:01,dl_dst=02:00:00:00:ee:01,ip";
    let trace = appctl(&["ofproto/trace", "br-ex", from_overlay]);
    let actions = trace.lines().find_map(|line| line.strip_prefix("Datapath actions: ")).unwrap_or_default();
    // To one port, and not flooded; what the kernel gets has no tag.
    assert!(actions.starts_with("pop_vlan,") && actions.matches(',').count() == 1, "{trace}");
    let from_kernel = format!("in_port={},dl_src=02:00:00:00:ee:01,dl_dst=ff:ff:ff:ff:ff:ff,arp", number);
    let trace = appctl(&["ofproto/trace", "br-ex", &from_kernel]);
    assert!(trace.contains("push_vlan(vid=100,pcp=0)"), "{trace}");
}

#[tokio::test]
async fn a_name_that_others_have_and_a_bridge_that_is_gone_are_errors() {
    let switch = Switch::start().await;
    let ports = open(&switch).await;
    switch.vsctl(&format!("add-port br-ex {DEV} -- set interface {DEV} type=internal"));
    let ops = planned(&want(MAC), &Observed::default());
    let error = ports.apply(&ops[0]).await.unwrap_err();
    assert_eq!(
        (error.class(), error.to_string().as_str()),
        (reconcile::Class::Refused, "write the local switch's database")
    );

    switch.vsctl(&format!("del-port br-ex {DEV} -- del-br br-ex"));
    let error = ports.apply(&ops[0]).await.unwrap_err();
    assert!(matches!(&error, PortError::Gone(name) if name == "br-ex"), "{error:?}");
    assert_eq!(switch.vsctl(&format!("find port name={DEV}")), "", "nothing is left of it");
    assert!(matches!(Ports::nowhere(node::bgp::PORT_MARK).apply(&ops[0]).await, Err(PortError::NoDatabase)));
}
