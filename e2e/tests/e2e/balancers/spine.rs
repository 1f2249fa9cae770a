//! The VIP and its floating IP, used from beyond BGP.

use anyhow::{Result, ensure};
use lab::{Topology, chassis};
use serde_json::{Value, json};

use super::site::*;
use crate::agent;
use crate::border::learns;

pub(super) fn reaches() -> Result<()> {
    let border = |name: &str| {
        chassis(name).bridge_mapping("physnet", "br-ex").setting("ovn-cms-options", "enable-chassis-as-gw")
    };
    Topology::new().central("az1").chassis(border("hv1")).chassis(border("hv2")).run(|lab| {
        agent::fabric(lab)?;
        let site = Site::start(lab, "physnet")?;
        let members = site.plug(&MEMBERS)?;
        let _servers = members.iter().map(|member| member.echo_server(80)).collect::<Result<Vec<_>>>()?;
        for name in ["hv1", "hv2"] {
            agent::start(lab.chassis(name)?)?;
        }
        let members: Vec<(&Vm, Value)> = MEMBERS.iter().map(|vm| (vm, json!({}))).collect();
        let balancer = site.balancer(json!([
            site.listener("TCP", 80, Value::Null, &members),
            site.listener("UDP", 80, Value::Null, &members),
        ]))?;
        site.floating_ip(&balancer)?;
        let spine = lab.find("spine")?;
        for address in [VIP, FLOATING] {
            learns(&spine, address)?;
            let address = format!("{address}:80");
            let answers = count(24, &format!("the spine at {address}"), || spine.ask_by_tcp(&address))?;
            ensure!(answers.keys().eq(["m1", "m2"]), "answered by {answers:?}");
            count(3, &format!("the spine at {address} by UDP"), || spine.ask_by_udp(&address))?;
        }
        // `meridian explain` names the chassis that announces the VIP, and no other.
        let (route, told) =
            (spine.run(&format!("ip route show {VIP}"))?, site.meridian(&format!("explain {VIP}"))?);
        for (cable, chassis) in [("up1", "hv1"), ("up2", "hv2")] {
            let is_named = told.contains(&format!("chassis {chassis} hosts the gateway"));
            ensure!(route.contains(cable) == is_named, "the route is {route}; {told}");
        }
        Ok(())
    })
}
