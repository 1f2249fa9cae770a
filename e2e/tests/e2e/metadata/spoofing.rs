//! A VM without port security that pretends to be its neighbour, and one that chose its link-local address itself. The lab's ports have
//! no port security, and the proxies enforce `verify_source_mac`.

use std::net::SocketAddrV6;

use anyhow::{Result, ensure};
use lab::node::Node;
use lab::{Lab, eventually};

use super::site::{SERVICE, VMS, WITHIN, asked, gets_its_own, send};

/// A link-local address that does not follow from an Ethernet address.
const CHOSEN: &str = "fe80::1234:5678:9abc:def0";
const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// Both, with the VM `vma3` on the network and chassis of `vma1`.
pub(super) fn all(lab: &Lab) -> Result<()> {
    stolen_address(lab)?;
    chosen_link_local(lab)
}

/// X03: the neighbour takes the address of `vma1` and announces that it has it. The network believes it, and the proxy does not.
fn stolen_address(lab: &Lab) -> Result<()> {
    let (thief, owner) = (lab.find("vma3")?, lab.find("vma1")?);
    gets_its_own(&owner, &VMS[0])?;
    readdress(&thief, "10.0.0.13", "10.0.0.11")?;
    let before = asked();
    let answer = eventually(WITHIN, "the thief's request is answered", || {
        thief.run("arping -A -c 1 -I eth0 10.0.0.11")?;
        send(&thief, SERVICE.parse()?, GET)
    })?;
    ensure!(answer.starts_with("HTTP/1.1 404"), "a stolen address got {answer}");
    ensure!(asked() == before, "Nova was asked for the owner's data");
    let log = lab.chassis("hv1")?.daemon("metadata-proxy")?.said();
    ensure!(log.contains("another Ethernet address than that of the instance's port"), "nobody was warned");
    readdress(&thief, "10.0.0.11", "10.0.0.13")?;
    // Its own address is its own still, and the owner announces itself.
    owner.run("arping -A -c 1 -I eth0 10.0.0.11")?;
    gets_its_own(&thief, &VMS[3])?;
    gets_its_own(&owner, &VMS[0])
}

/// Gives a VM another address.
fn readdress(vm: &Node, old: &str, new: &str) -> Result<()> {
    vm.run(&format!("ip addr del {old}/24 dev eth0"))?;
    vm.run(&format!("ip addr add {new}/24 dev eth0"))?;
    vm.run("ip route replace 169.254.169.254/32 via 10.0.0.2").map(drop)
}

/// A16: the Ethernet address names the instance.
fn chosen_link_local(lab: &Lab) -> Result<()> {
    let vm = lab.find("vma3")?;
    vm.run("ip -6 addr flush dev eth0 scope link")?;
    vm.run(&format!("ip -6 addr add {CHOSEN}/64 dev eth0 nodad"))?;
    let service = SocketAddrV6::new("fe80::a9fe:a9fe".parse()?, 80, 0, vm.index("eth0")?).into();
    let said = eventually(WITHIN, "a chosen address has metadata", || send(&vm, service, GET))?;
    ensure!(said.contains(&format!("instance {} ", VMS[3].4)), "{said}");
    ensure!(said.contains(&format!("x-forwarded-for: {CHOSEN}")), "{said}");
    Ok(())
}
