//! A floating IP and a load balancer, announced by the agents of two chassis, and the death of the chassis that carries the gateway.

use anyhow::{Context, Result};
use lab::demo::Guide;
use lab::node::chassis::Chassis;
use lab::{Topology, chassis};

use super::cloud::{Cloud, answer, port};
use crate::agent;
use crate::border::learns;

/// The floating IPs of a VM and of a load balancer.
const OF_VM: &str = "172.24.4.110";
const OF_BALANCER: &str = "172.24.4.120";

pub(super) fn show(guide: &Guide) -> Result<()> {
    guide.step("Two chassis and a spine that speak BGP (FRR), and a network that only BGP leads to");
    let border = |name: &str| {
        chassis(name).bridge_mapping("physnet", "br-ex").setting("ovn-cms-options", "enable-chassis-as-gw")
    };
    // The VMs are on a third chassis. A chassis that reaches no other one takes itself for the one that is cut off.
    let topology =
        Topology::new().central("az1").chassis(border("hv1")).chassis(border("hv2")).chassis(chassis("hv3"));
    topology.run(|lab| {
        agent::fabric(lab)?;
        let spine = lab.find("spine")?;
        let cloud = Cloud::start(lab, guide, 2)?;
        cloud.openstack(&[
            "network create --external --provider-network-type flat --provider-physical-network physnet public",
            "subnet create --network public --subnet-range 172.24.4.0/24 --no-dhcp --allocation-pool start=172.24.4.100,end=172.24.4.200 public4",
            "network create inside",
            "subnet create --network inside --subnet-range 10.0.0.0/24 inside4",
            "router create --external-gateway public shop",
            "router add subnet shop inside4",
            // The security group of all ports, which are of one project.
            "security group rule create --protocol icmp default",
            "security group rule create --protocol tcp default",
            &port("web1", 21),
            &port("web2", 22),
        ])?;
        let first = cloud.gateway_chassis(&cloud.attribute("routers", "shop", "id")?)?;
        let second = if first == "hv1" { "hv2" } else { "hv1" };
        let members = [cloud.vm("web1", "hv3", 21)?, cloud.vm("web2", "hv3", 22)?];
        members.iter().try_for_each(|vm| vm.serve(80))?;
        guide.says(&lab.picture().to_string());
        guide.look(&format!("the gateway is on {first}, the VMs on hv3; no cable leads from the spine to the network public"));

        guide.step("A floating IP: the agent of the gateway's chassis announces it");
        cloud.openstack(&[&format!("floating ip create --port web1 --floating-ip-address {OF_VM} public")])?;
        for name in ["hv1", "hv2"] {
            guide.types(&format!("meridian bgp-agent    # on {name}"));
            agent::start(lab.chassis(name)?)?;
        }
        learns(&spine, OF_VM)?;
        guide.says(&format!("the spine's route: {}", spine.run(&format!("ip route show {OF_VM}"))?.trim()));
        spine.reaches(OF_VM)?;
        explain(guide, lab.chassis(&first)?)?;

        guide.step("A load balancer with a floating IP of its own");
        cloud.openstack(&[
            "loadbalancer create --name shop --vip-subnet-id inside4 --vip-address 10.0.0.50 --wait",
            "loadbalancer pool create --name web --loadbalancer shop --protocol TCP --lb-algorithm SOURCE_IP_PORT --wait",
            "loadbalancer member create --address 10.0.0.21 --subnet-id inside4 --protocol-port 80 --wait web",
            "loadbalancer member create --address 10.0.0.22 --subnet-id inside4 --protocol-port 80 --wait web",
            "loadbalancer listener create --name http --protocol TCP --protocol-port 80 --default-pool web --wait shop",
        ])?;
        let vip = cloud.attribute("loadbalancers", "shop", "vip_port_id")?;
        cloud.openstack(&[&format!("floating ip create --port {vip} --floating-ip-address {OF_BALANCER} public")])?;
        learns(&spine, OF_BALANCER)?;
        answer(guide, &spine, &format!("{OF_BALANCER}:80"), &["web1", "web2"])?;

        guide.step(&format!("{first}, which carries the gateway, dies: killed without warning, its cables cut"));
        let mut train = spine.ping_train(OF_VM)?;
        train.rolls(5)?;
        let dying = lab.chassis(&first)?;
        dying.kill_all()?;
        dying.cut()?;
        spine.down(if first == "hv1" { "up1" } else { "up2" })?;
        train.now();
        train.rolls(10)?;
        guide.says(&format!("pings from the spine were away for {:.1} s", train.end()?.as_secs_f64()));
        explain(guide, lab.chassis(second)?)?;
        answer(guide, &spine, &format!("{OF_BALANCER}:80"), &["web1", "web2"])?;
        guide.look("ovn-controller took the gateway over, the agent there announced its addresses, and nobody had to do anything");
        cloud.becomes("shop", "network: the only gateway can carry traffic")
    })
}

/// Asks the agent of a chassis why the floating IP is reached.
fn explain(guide: &Guide, hv: &Chassis) -> Result<()> {
    guide.types(&format!("meridian explain {OF_VM}    # on {}", hv.label()));
    let said =
        lab::eventually(super::cloud::LONG, "the agent says that it announces the floating IP", || {
            let said = agent::ask(hv, &format!("explain {OF_VM}"))?;
            said.contains("is announced by").then_some(said.clone()).with_context(|| said)
        })?;
    guide.says(said.trim_end());
    Ok(())
}
