//! A VM: a namespace with one device, whose other end is in a chassis' integration bridge.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use ipnet::IpNet;
use ovn::MacAddr;

use super::Node;
use crate::link::{End, cable};
use crate::picture::Part;
use crate::topology::{Datapath, Lab};

/// A VM that is not plugged in yet, created by [`Lab::vm`].
#[derive(Debug)]
pub struct VmSpec<'a> {
    lab: &'a Lab,
    name: String,
    port: Option<String>,
    chassis: String,
    mac: String,
    ips: Vec<String>,
    gateways: Vec<String>,
}

impl Lab {
    /// A VM of this name, which is also the name of its logical port unless another is given.
    pub fn vm(&self, name: &str) -> VmSpec<'_> {
        let (name, empty) = (name.to_owned(), String::new);
        let (ips, gateways) = (Vec::new(), Vec::new());
        VmSpec { lab: self, name, port: None, chassis: empty(), mac: empty(), ips, gateways }
    }
}

impl VmSpec<'_> {
    /// Sets the chassis.
    #[must_use]
    pub fn on(mut self, chassis: &str) -> Self {
        chassis.clone_into(&mut self.chassis);
        self
    }

    /// Sets the logical port. Ports of the network API have ids as names.
    #[must_use]
    pub fn port(mut self, port: &str) -> Self {
        self.port = Some(port.to_owned());
        self
    }

    /// Sets the Ethernet address.
    #[must_use]
    pub fn mac(mut self, mac: &str) -> Self {
        mac.clone_into(&mut self.mac);
        self
    }

    /// Adds an address with its prefix length.
    #[must_use]
    pub fn ip(mut self, ip: &str) -> Self {
        self.ips.push(ip.to_owned());
        self
    }

    /// Adds a default gateway.
    #[must_use]
    pub fn gateway(mut self, gateway: &str) -> Self {
        self.gateways.push(gateway.to_owned());
        self
    }

    /// Turns it on.
    pub fn plug(self) -> Result<Arc<Node>> {
        let chassis = self.lab.chassis(&self.chassis)?;
        let mac: MacAddr =
            self.mac.parse().with_context(|| format!("{} is no Ethernet address", self.mac))?;
        let node = self.lab.node(&self.name)?;
        let tap = format!("tap-{}", self.name);
        cable(End::new(chassis, &tap), End::new(&node, "eth0").mac(mac), 1500, None)?;
        if self.lab.datapath() == Datapath::Userspace {
            node.no_offload("eth0")?;
        }
        for ip in &self.ips {
            let ip: IpNet = ip.parse().with_context(|| format!("{ip} is no address with a prefix length"))?;
            node.address("eth0", ip)?;
        }
        for gateway in &self.gateways {
            let gateway: IpAddr = gateway.parse().with_context(|| format!("{gateway} is no address"))?;
            node.default_route(gateway)?;
        }
        chassis.plug("br-int", &tap, Some(self.port.as_ref().unwrap_or(&self.name)))?;
        self.lab.note(Part::Vm(self.name.clone(), self.chassis.clone()));
        Ok(node)
    }
}
