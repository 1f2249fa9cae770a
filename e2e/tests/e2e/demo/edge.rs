//! A router with two gateways, as an operator makes it, and the death of a border router.

use anyhow::Result;
use lab::demo::Guide;
use ovn::nb::BfdStatus;

use super::cloud::{Cloud, answer, port};
use crate::bfd::session;
use crate::multihoming::{OUTSIDE, UPLINKS, topology};

pub(super) fn show(guide: &Guide) -> Result<()> {
    guide.step("A router with two gateways, made with the openstack command");
    topology().run(|lab| {
        let az1 = lab.central("az1")?;
        let cloud = Cloud::start(lab, guide, 2)?;
        let mut lines = Vec::new();
        for (n, uplink) in (1..).zip(&UPLINKS) {
            let (physnet, cidr, router) = (uplink.physnet, uplink.cidr, uplink.router_ip);
            lines.push(format!(
                "network create --external --provider-network-type flat --provider-physical-network {physnet} N{n}"
            ));
            lines.push(format!(
                "subnet create --network N{n} --subnet-range {cidr} --no-dhcp --allocation-pool start={router},end={router} S{n}"
            ));
        }
        let web = port("web", 10);
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.extend([
            "router create --external-gateway N1 --external-gateway N2 --disable-snat --enable-default-route-ecmp --enable-default-route-bfd edge",
            "network create inside",
            "subnet create --network inside --subnet-range 10.0.0.0/24 inside4",
            "router add subnet edge inside4",
            &web,
        ]);
        cloud.openstack(&lines)?;
        let web = cloud.vm("web", "hv3", 10)?;
        let borders = [UPLINKS[0].start(lab)?, UPLINKS[1].start(lab)?];
        guide.says(&lab.picture().to_string());
        guide.look("each gateway is on a chassis of its own, and each border router leads to the same server outside");

        guide.step("BFD comes up with both border routers, and new connections use both gateways");
        for uplink in &UPLINKS {
            session(az1, uplink.border_ip, BfdStatus::Up)?;
        }
        cloud.becomes("edge", "network: all 2 gateways can carry traffic")?;
        answer(guide, &web, OUTSIDE, &["border1", "border2"])?;

        guide.step("A border router dies: its BFD daemon is killed, its cable cut");
        let (border, uplink) = (&borders[0], &UPLINKS[0]);
        let mut train = web.tcp_train(OUTSIDE);
        train.rolls(3)?;
        border.daemon("bfdd")?.kill()?;
        border.down("eth0")?;
        session(az1, uplink.border_ip, BfdStatus::Down)?;
        az1.sync()?;
        train.now();
        answer(guide, &web, OUTSIDE, &["border2"])?;
        train.rolls(3)?;
        guide.says(&format!("new connections were away for {:.1} s", train.end()?.as_secs_f64()));
        cloud.meridian("explain edge")?;
        guide.look("OVN takes a default route out of use when BFD loses its next hop; nobody has to do anything");

        guide.step("It comes back, and gets its share again");
        border.up("eth0")?;
        uplink.route_back(border)?;
        border.daemon("bfdd")?.start_again()?;
        border.daemon("bfdd")?.ready()?;
        border.frr_config(&uplink.bfd())?;
        session(az1, uplink.border_ip, BfdStatus::Up)?;
        answer(guide, &web, OUTSIDE, &["border1", "border2"])?;
        cloud.becomes("edge", "network: all 2 gateways can carry traffic")
    })
}
