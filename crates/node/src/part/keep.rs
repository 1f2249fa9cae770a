//! Objects that a decider could not decide about, so that no plan changes them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use reconcile::ObjectId;

use crate::kernel::Dev;
use crate::kernel::observed::is_host;

/// Objects to keep, in the words of the data plane. The driver drops steps on the objects themselves; this is for what others
/// would take from them: the rule of a subnet in which an address is kept, the announcements in a subnet that is kept.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    addresses: BTreeSet<IpAddr>,
    subnets: BTreeSet<IpNet>,
    devices: BTreeSet<Dev>,
}

impl Keep {
    /// Reads the names of [`object`](super::object).
    pub fn new(keep: &BTreeSet<ObjectId>) -> Self {
        let mut out = Keep::default();
        for object in keep {
            match object.kind.as_str() {
                "address" => out.addresses.extend(object.id.text().parse::<IpAddr>()),
                "subnet" => out.subnets.extend(object.id.text().parse::<IpNet>()),
                "device" => drop(out.devices.insert(object.id.text())),
                _ => {}
            }
        }
        out
    }

    /// Keeps an announcement, and with it what carries it.
    pub fn announcement(&mut self, net: IpNet) {
        if is_host(net) {
            self.addresses.insert(net.addr());
        } else {
            self.subnets.insert(net);
        }
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.subnets.is_empty() && self.devices.is_empty()
    }

    /// Whether the announcement of an address has to stay.
    pub fn address(&self, ip: IpAddr) -> bool {
        self.addresses.contains(&ip) || self.subnets.iter().any(|net| net.contains(&ip))
    }

    /// Whether what carries a prefix has to stay.
    pub fn prefix(&self, net: IpNet) -> bool {
        self.addresses.iter().any(|ip| net.contains(ip))
            || self.subnets.iter().any(|kept| net.contains(kept) || kept.contains(&net))
    }

    /// Whether everything on a device has to stay.
    pub fn device(&self, dev: &Dev) -> bool {
        self.devices.contains(dev)
    }
}
