//! A member dies, and OVN's probes notice.

use anyhow::{Result, ensure};
use lab::eventually;
use serde_json::{Value, json};

use super::site::*;

pub(super) fn dies() -> Result<()> {
    topology().run(|lab| {
        let site = Site::start(lab, "phy1")?;
        // Members need not admit the probes, only their clients.
        site.admit_only(&format!("{}/32", CLIENTS[1].ip()))?;
        let mut vms: Vec<Vm> = MEMBERS.into();
        vms.push(Vm("m3", "hv2", 1, 108));
        let (nodes, clients) = (site.plug(&vms)?, site.plug(&CLIENTS)?);
        let mut servers: Vec<_> =
            nodes.iter().map(|node| node.echo_server(80).map(Some)).collect::<Result<_>>()?;
        let members = [(&vms[0], json!({})), (&vms[1], json!({})), (&vms[2], json!({"backup": true}))];
        let monitor =
            json!({"type": "TCP", "delay": 1, "timeout": 1, "max_retries": 2, "max_retries_down": 2});
        let datagrams =
            json!({"type": "UDP-CONNECT", "delay": 3, "timeout": 1, "max_retries": 1, "max_retries_down": 1});
        let balancer = site.balancer(json!([
            site.listener("TCP", 80, json!({"pool": {"healthmonitor": monitor}}), &members),
            site.listener("UDP", 80, json!({"pool": {"healthmonitor": datagrams}}), &members[..2]),
        ]))?;
        let pool = |name: &str| -> Result<String> {
            Ok(site.named("pools", "pools", name)?["id"].as_str().unwrap_or_default().to_owned())
        };
        let pools = [("TCP", pool("TCP80")?), ("UDP", pool("UDP80")?)];
        let shows = |pool_is: &str, up: [&str; 2]| {
            for (protocol, pool) in &pools {
                eventually(
                    LONG,
                    &format!("members are {up:?} by {protocol}, the pool is {pool_is}"),
                    || {
                        let list =
                            site.load_balancing("GET", &format!("pools/{pool}/members"), &Value::Null)?;
                        for (vm, wanted) in MEMBERS.iter().zip(up) {
                            let of = |member: &&Value| member["name"] == vm.0 && member["address"] == vm.ip();
                            let member = list["members"].as_array().and_then(|list| list.iter().find(of));
                            let status = member.map(|member| member["operating_status"].clone());
                            ensure!(status == Some(json!(wanted)), "{} is {status:?}", vm.0);
                        }
                        let shown = site.load_balancing("GET", &format!("pools/{pool}"), &Value::Null)?;
                        ensure!(shown["pool"]["operating_status"] == pool_is, "{shown}");
                        ensure!(shown["pool"]["provisioning_status"] == "ACTIVE", "{shown}");
                        Ok(())
                    },
                )?;
            }
            Ok::<_, anyhow::Error>(())
        };
        let answered_by = |who: &[&str]| {
            eventually(LONG, &format!("connections are answered by {who:?}"), || {
                let mut answers = std::collections::BTreeMap::<String, u32>::new();
                for _ in 0..24 {
                    *answers.entry(clients[1].ask_by_tcp(&format!("{VIP}:80"))?.by).or_default() += 1;
                }
                ensure!(answers.keys().eq(who), "answered by {answers:?}");
                Ok(())
            })
        };
        shows("ONLINE", ["ONLINE", "ONLINE"])?;
        answered_by(&["m1", "m2"])?;

        println!("the server of m2 ends:");
        servers[1] = None;
        shows("DEGRADED", ["ONLINE", "ERROR"])?;
        answered_by(&["m1"])?;
        let text = site.meridian(&format!("explain {VIP}"))?;
        println!("{text}");
        for part in
            ["member 10.0.0.107:80 on hv1 is ONLINE", "on hv2 is ERROR: it does not answer the probes"]
        {
            ensure!(text.contains(part), "{part} is not explained");
        }
        let text = site.meridian("status")?;
        ensure!(text.contains("member 20.0.0.107 port 80: it does not answer"), "{text}");
        let text = site.meridian("status --metrics")?;
        ensure!(text.contains("meridian_load_balancer_members{state=\"failed\"}"), "{text}");
        println!("the other dies as well, and the backup serves:");
        nodes[0].down("eth0")?;
        answered_by(&["m3"])?;
        println!("both are back:");
        servers[1] = Some(nodes[1].echo_server(80)?);
        nodes[0].up("eth0")?;
        nodes[0].default_route("10.0.0.1".parse()?)?;
        // The device lost its IPv6 address when it went down.
        nodes[0].address("eth0", format!("{}/64", MEMBERS[0].ip6()).parse()?)?;
        shows("ONLINE", ["ONLINE", "ONLINE"])?;
        answered_by(&["m1", "m2"])?;
        println!("no health monitor, no state:");
        let monitors = site.load_balancing("GET", "healthmonitors", &Value::Null)?;
        for monitor in monitors["healthmonitors"].as_array().into_iter().flatten() {
            let path = format!("healthmonitors/{}", monitor["id"].as_str().unwrap_or_default());
            site.load_balancing("DELETE", &path, &Value::Null)?;
            site.applied(&balancer)?;
        }
        shows("ONLINE", ["NO_MONITOR", "NO_MONITOR"])
    })
}
