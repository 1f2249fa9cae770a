//! The creator of a VLAN's device: the kernel, or Open vSwitch if the kernel has no 8021q.
//!
//! The device has the same name either way, and all that stands on it is the same. What is there and works is left alone; one
//! that has to give way to the other is deleted before the other is made, and nothing is announced through it meanwhile.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::sync::Arc;

use super::state::{Desired, Observed};
use crate::kernel::observed::Kind;
use crate::kernel::{self, Link};
use crate::ports::{self, Port};

/// The program that creates the devices of VLANs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VlanDevice {
    /// The kernel, unless it makes none; but what is there stays.
    #[default]
    Auto,
    /// The kernel.
    Kernel,
    /// Open vSwitch: internal ports.
    Internal,
}

/// Desired and observed state, after the creator of the VLANs' devices is chosen.
#[derive(Debug)]
pub(super) struct ArrangedVlans<'a> {
    /// The desired state of the kernel, without the devices that Open vSwitch creates.
    pub(super) kernel: Cow<'a, kernel::Desired>,
    /// The observed state of the kernel, corrected by the switch's database.
    pub(super) seen: Arc<kernel::Observed>,
    /// The ports that are wanted.
    pub(super) ports: ports::Desired,
}

impl<'a> ArrangedVlans<'a> {
    pub(super) fn new(want: &'a Desired, have: &Observed) -> Self {
        let mut out = ArrangedVlans {
            kernel: Cow::Borrowed(&want.kernel),
            seen: Arc::clone(&have.kernel),
            ports: ports::Desired::new(),
        };
        for (dev, port) in &have.ports.ours {
            // One that is something else to the kernel is not what the port would be.
            if have.kernel.links.get(dev).is_some_and(|link| link.kind == Kind::Other) {
                let kind = Kind::Port { bridge: port.bridge.clone() };
                let links = &mut Arc::make_mut(&mut out.seen).links;
                links.get_mut(dev).into_iter().for_each(|link| link.kind = kind.clone());
            }
        }
        for (dev, link) in &want.kernel.links {
            let Link::Vlan { parent, tag } = link else { continue };
            let there = have.kernel.links.get(dev).map(|link| &link.kind);
            let port = have.ports.ours.get(dev);
            let internal = match want.vlan_device {
                VlanDevice::Kernel => false,
                VlanDevice::Internal => true,
                VlanDevice::Auto => match there {
                    Some(Kind::Vlan { .. }) => false,
                    Some(_) => port.is_some(),
                    None => port.is_some() || have.kernel.lacks_vlans,
                },
            };
            if !internal {
                continue;
            }
            out.kernel.to_mut().links.insert(dev.clone(), Link::Port { bridge: parent.clone() });
            // While something else has the name no port can have it.
            if there.is_none() || port.is_some() {
                let mac = want.flows.get(parent).and_then(|bridge| bridge.mac);
                out.ports.insert(dev.clone(), Port { bridge: parent.clone(), tag: *tag, mac });
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
