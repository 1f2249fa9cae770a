//! Many networks on one chassis: made and removed, with an agent that dies in between.

use anyhow::{Result, ensure};
use lab::eventually;
use lab::node::chassis::Chassis;
use lab::{Topology, chassis};
use ovn::PortType;
use ovn::sb;
use ovn::text::Text;
use ovn::vswitch::Interface;

use super::agent::{no_files, sockets};
use super::site::{Backend, WITHIN, daemon, nova, on, start};

/// As many networks there are.
const NETWORKS: usize = 100;
/// The agent dies when so many networks are ready, and when so many are left.
const DEATHS: [usize; 5] = [1, 17, 40, 63, 90];

fn network(n: usize) -> String {
    format!("{n:08x}-2222-3333-4444-555555555555")
}

/// Nothing is left of many networks, whenever the agent dies.
pub(super) fn come_and_go() -> Result<()> {
    Topology::new().central("az1").chassis(chassis("hv1")).run(|lab| {
        let hv = lab.chassis("hv1")?;
        nova(hv)?;
        start(hv, Backend::Builtin)?;
        lab.central("az1")?.write(|net| {
            for n in 0..NETWORKS {
                let network = network(n);
                net.switch(&format!("neutron-{network}"))
                    .port_with(&format!("md-{n}"), |port| {
                        port.kind = PortType::Localport;
                        port.addresses.insert(Text::new(&format!("02:00:00:01:00:{n:02x} 10.0.0.2")));
                        for (key, value) in [
                            ("neutron:device_id", format!("ovnmeta-{network}")),
                            ("neutron:device_owner", "network:distributed".into()),
                            ("neutron:cidrs", "10.0.0.2/24".into()),
                        ] {
                            port.external_ids.insert(key.into(), value.into());
                        }
                    })
                    .port_with(&format!("vm-{n}"), |port| {
                        port.addresses.insert(Text::new(&format!("02:00:00:02:00:{n:02x} 10.0.0.11")));
                        port.external_ids.insert("neutron:device_id".into(), format!("instance-{n}").into());
                    });
            }
        })?;
        let add = (0..NETWORKS).map(|n| {
            format!(
                "-- add-port br-int vif{n} -- set Interface vif{n} type=internal external_ids:iface-id=vm-{n}"
            )
        });
        let switch = format!("ovs-vsctl --db=unix:{}/db.sock", hv.dir().display());
        hv.run(&format!("{switch} {}", add.collect::<Vec<_>>().join(" ")))?;

        println!("the agent dies while it builds:");
        for at in DEATHS {
            until(lab, |ready| ready >= at)?;
            daemon(lab, "hv1", "metadata-agent")?.kill()?;
            daemon(lab, "hv1", "metadata-agent")?.start_again()?;
        }
        until(lab, |ready| ready == NETWORKS)?;
        ensure!(on(hv, "ls /run/netns")?.lines().count() == NETWORKS, "there are other namespaces");
        ensure!(devices(hv)? == NETWORKS, "there are {} devices", devices(hv)?);

        println!("and while it removes:");
        let remove = (0..NETWORKS).map(|n| format!("-- del-port br-int vif{n}"));
        hv.run(&format!("{switch} {}", remove.collect::<Vec<_>>().join(" ")))?;
        for left in DEATHS.into_iter().rev() {
            eventually(WITHIN * 2, "some namespaces are gone", || {
                ensure!(on(hv, "ls /run/netns")?.lines().count() <= left);
                Ok(())
            })?;
            daemon(lab, "hv1", "metadata-agent")?.kill()?;
            daemon(lab, "hv1", "metadata-agent")?.start_again()?;
        }
        until(lab, |ready| ready == 0)?;
        eventually(WITHIN, "nothing is left", || {
            let names = on(hv, "ls /run/netns")?;
            ensure!(names.is_empty(), "namespaces: {names}");
            ensure!(devices(hv)? == 0, "{} devices", devices(hv)?);
            let rows = hv.db().snapshot();
            let mut interfaces = rows.table::<Interface>().iter();
            ensure!(!interfaces.any(|(_, row)| row.name.starts_with("tap000")), "a port is left");
            ensure!(sockets(hv)?.is_empty(), "sockets of the proxy: {:?}", sockets(hv)?);
            no_files(hv)
        })
    })
}

/// Waits for a number of ready networks.
fn until(lab: &lab::Lab, is_reached: impl Fn(usize) -> bool) -> Result<()> {
    lab.central("az1")?.sb().until(WITHIN * 2, "the number of ready networks", |sb| {
        let row = sb.table::<sb::Chassis>().iter().find(|(_, row)| row.name == "hv1")?.1;
        let key = row.external_ids.get("neutron-metadata-proxy-networks");
        is_reached(key.map_or(0, |text| text.split(',').count())).then_some(())
    })
}

/// The host's ends of veth pairs of networks.
fn devices(hv: &Chassis) -> Result<usize> {
    let links = hv.run("ip -o link show type veth")?;
    Ok(links.lines().filter(|line| line.contains("tap000")).count())
}
