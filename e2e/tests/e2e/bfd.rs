//! Routes that last as long as their next hops are alive.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lab::node::Node;
use lab::node::central::Central;
use lab::{Lab, Test, Topology, chassis};
use ovn::nb::{Bfd, BfdStatus};
use ovn::text::Text;

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new(
        "bfd::routes_live_as_long_as_their_next_hops",
        "equal-cost routes watched by BFD (with FRR's bfdd as the peer) leave when their next hop dies and return with it",
        &[],
        routes_follow_their_next_hops,
    )]
}

/// How long a session may take to come up, or to detect a failure.
const SESSION: Duration = Duration::from_secs(60);

const PEER: &str = "bfd
 peer 172.24.4.100 interface eth0
  detect-multiplier 3
  receive-interval 300
  transmit-interval 300
  no shutdown
 exit
exit
";

fn routes_follow_their_next_hops() -> Result<()> {
    let topology = Topology::new()
        .central("az1")
        .chassis(chassis("hv1").wired("physnet", "br-ex"))
        .chassis(chassis("hv2").wired("physnet", "br-ex"));
    topology.run(|lab| {
        let az1 = lab.central("az1")?;
        az1.write(|net| {
            net.switch("sw0").port("vm2", "02:00:00:00:00:12 10.0.0.12");
            net.provider("public", "ln-public", "physnet");
            let (one, two) = (net.bfd("lr0-public", "172.24.4.1"), net.bfd("lr0-public", "172.24.4.2"));
            let mut router = net
                .router("lr0")
                .join("sw0", "02:00:00:00:01:01", "10.0.0.1/24")
                .join("public", "02:00:00:00:01:03", "172.24.4.100/24")
                .gateway_chassis("lr0-public", "hv1", 20);
            for (next_hop, session) in [("172.24.4.1", one), ("172.24.4.2", two)] {
                router = router.route_with("192.168.50.0/24", next_hop, |route| {
                    route.output_port = Some("lr0-public".into());
                    route.bfd = Some(session);
                });
            }
        })?;
        let (ext1, ext2) = (peer(lab, "ext1", "172.24.4.1/24")?, peer(lab, "ext2", "172.24.4.2/24")?);
        let vm2 =
            lab.vm("vm2").on("hv2").mac("02:00:00:00:00:12").ip("10.0.0.12/24").gateway("10.0.0.1").plug()?;
        az1.ready(&["vm2"])?;
        for ext in [&ext1, &ext2] {
            ext.frr(&["bfdd"], PEER)?;
        }
        session(az1, "172.24.4.1", BfdStatus::Up)?;
        session(az1, "172.24.4.2", BfdStatus::Up)?;
        vm2.reaches("192.168.50.1")?;

        ext1.daemon("bfdd")?.kill()?;
        session(az1, "172.24.4.1", BfdStatus::Down)?;
        az1.sync()?;
        // On a busy machine a live session may miss packets too, and comes up again.
        session(az1, "172.24.4.2", BfdStatus::Up)?;
        vm2.reaches("192.168.50.1")?;

        ext2.down("eth0")?;
        session(az1, "172.24.4.2", BfdStatus::Down)?;
        az1.sync()?;
        vm2.gets_no_answer("192.168.50.1")?;

        ext2.up("eth0")?;
        // The route through the device disappeared with it.
        ext2.route("10.0.0.0/24".parse()?, "172.24.4.100".parse()?)?;
        session(az1, "172.24.4.2", BfdStatus::Up)?;
        vm2.reaches("192.168.50.1")
    })
}

/// A router outside that has the network behind both next hops.
fn peer(lab: &Lab, name: &str, address: &str) -> Result<Arc<Node>> {
    let ext = lab.external(name, "physnet", &[address])?;
    ext.address("lo", "192.168.50.1/32".parse()?)?;
    ext.route("10.0.0.0/24".parse()?, "172.24.4.100".parse()?)?;
    Ok(ext)
}

/// Waits until a session with a neighbour has a state, and prints how long that took.
pub(crate) fn session(az: &Central, peer: &str, status: BfdStatus) -> Result<()> {
    let begin = std::time::Instant::now();
    let what = format!("BFD with {peer} is {status}");
    az.nb().until(SESSION, &what, |snapshot| {
        let mut rows = snapshot.table::<Bfd>().iter();
        rows.any(|(_, row)| row.dst_ip == Text::new(peer) && row.status.as_ref() == Some(&status))
            .then_some(())
    })?;
    println!("{what}: after {} ms", begin.elapsed().as_millis());
    Ok(())
}
