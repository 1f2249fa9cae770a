//! Address allocation: chooses the addresses of a port.
//!
//! A port without a request gets one IPv4 address, one IPv6 address if a subnet assigns them, and one self-formed address in each subnet
//! with SLAAC. A port with a request gets that. Automatic addresses come from the allocation pools, the lowest free one first, and are
//! never a subnet's gateway; requested addresses may be anywhere in the prefix.
//!
//! This module stores nothing: an address is used from the moment its port is in the world.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use ovn::MacAddr;
use uuid::Uuid;

use crate::fault::Fault;
use crate::model::{FixedIp, Port, Subnet, owner};
use crate::world::{Link, World, after};

/// A request for one address: by subnet, by address, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FixedIpRequest {
    /// Any address of this subnet, unless an address is given.
    pub subnet_id: Option<Uuid>,
    /// This address. Its subnet is found if none is given.
    pub ip_address: Option<IpAddr>,
}

impl From<FixedIp> for FixedIpRequest {
    fn from(fixed: FixedIp) -> Self {
        FixedIpRequest { subnet_id: Some(fixed.subnet_id), ip_address: Some(fixed.ip_address) }
    }
}

/// Chooses the addresses of a new port. `None` leaves the choice free; an empty request means no address.
pub fn allocate(
    world: &World,
    network: Uuid,
    request: Option<&[FixedIpRequest]>,
    device_owner: &str,
    mac: MacAddr,
) -> Result<Vec<FixedIp>, Fault> {
    let choice = Choice::new(world, network, device_owner, mac, &[]);
    match request {
        Some(request) => choice.listed(request),
        None => choice.automatic(),
    }
}

/// Chooses new addresses for an existing port. Addresses that it has and requests again stay. So do the addresses that its host forms,
/// unless the MAC is new.
pub fn reallocate(
    world: &World,
    port: &Port,
    request: &[FixedIpRequest],
    device_owner: &str,
    mac: MacAddr,
) -> Result<Vec<FixedIp>, Fault> {
    Choice::new(world, port.network_id, device_owner, mac, &port.fixed_ips).listed(request)
}

/// The lowest free address of a subnet's pools.
pub fn lowest_free(world: &World, subnet: &Subnet) -> Option<IpAddr> {
    free_from(world, subnet, None, &BTreeSet::new())
}

/// The address that a host with this MAC forms in a /64 prefix (RFC 4291, appendix A).
pub fn self_formed(prefix: IpNet, mac: MacAddr) -> IpAddr {
    let host = u128::from(mac.link_local()) & u128::from(u64::MAX);
    match prefix.network() {
        IpAddr::V6(network) => IpAddr::V6(Ipv6Addr::from(u128::from(network) | host)),
        v4 => v4,
    }
}

/// Whether a port may have this address: it is in the prefix and neither the network nor the broadcast address.
pub fn is_usable(prefix: IpNet, address: IpAddr) -> bool {
    prefix.contains(&address)
        && match prefix {
            IpNet::V4(v4) if v4.prefix_len() < 31 => {
                address != IpAddr::V4(v4.network()) && address != IpAddr::V4(v4.broadcast())
            }
            _ => true,
        }
}

/// The fault for an address in use: 409.
pub fn already_allocated(address: IpAddr, subnet: Uuid) -> Fault {
    let message = format!("IP address {address} already allocated in subnet {subnet}");
    Fault::conflict("IpAddressAlreadyAllocated", message)
}

/// The fault for a network without free addresses: 409.
pub fn exhausted(network: Uuid) -> Fault {
    let message = format!("No more IP addresses available on network {network}.");
    Fault::conflict("IpAddressGenerationFailure", message)
}

fn free_from(
    world: &World,
    subnet: &Subnet,
    from: Option<IpAddr>,
    picked: &BTreeSet<(Uuid, IpAddr)>,
) -> Option<IpAddr> {
    subnet.allocation_pools.iter().find_map(|pool| {
        let mut next = Some(from.map_or(pool.start, |from| from.max(pool.start)));
        while let Some(address) = next.filter(|address| *address <= pool.end) {
            if let Some(last) = world.last_taken(subnet.id, address) {
                next = after(last);
            } else if subnet.gateway_ip == Some(address) || picked.contains(&(subnet.id, address)) {
                next = after(address);
            } else {
                return Some(address);
            }
        }
        None
    })
}

/// The state of one port's allocation.
struct Choice<'w> {
    world: &'w World,
    network: Uuid,
    subnets: Vec<&'w Arc<Subnet>>,
    device_owner: &'w str,
    mac: MacAddr,
    own: &'w [FixedIp],
    picked: BTreeSet<(Uuid, IpAddr)>,
    /// The next address to check in each subnet, so that a long request checks each address once.
    next: BTreeMap<Uuid, IpAddr>,
}

impl<'w> Choice<'w> {
    fn new(
        world: &'w World,
        network: Uuid,
        device_owner: &'w str,
        mac: MacAddr,
        own: &'w [FixedIp],
    ) -> Choice<'w> {
        let subnets = world.linked::<Subnet>(Link::SubnetsOfNetwork(network)).collect();
        let (picked, next) = (BTreeSet::new(), BTreeMap::new());
        Choice { world, network, subnets, device_owner, mac, own, picked, next }
    }

    fn automatic(mut self) -> Result<Vec<FixedIp>, Fault> {
        if self.subnets.is_empty() {
            return Ok(Vec::new());
        }
        let candidates = self.candidates();
        if candidates.is_empty() {
            let message = format!(
                "No more IP addresses available on network {}: none of its subnets serves device owner '{}'.",
                self.network, self.device_owner
            );
            return Err(Fault::conflict("IpAddressGenerationFailureNoMatchingSubnet", message));
        }
        let mut fixed = Vec::new();
        for v4 in [true, false] {
            let suits =
                |subnet: &&Arc<Subnet>| subnet.cidr.addr().is_ipv4() == v4 && !self.forms_its_own(subnet);
            let of_family: Vec<_> = candidates.iter().copied().filter(suits).collect();
            if !of_family.is_empty() {
                let found = of_family.iter().find_map(|subnet| self.any_of(subnet));
                fixed.push(found.ok_or_else(|| exhausted(self.network))?);
            }
        }
        self.add_self_formed(&candidates, &mut fixed)?;
        Ok(fixed)
    }

    fn listed(mut self, request: &[FixedIpRequest]) -> Result<Vec<FixedIp>, Fault> {
        let mut fixed: Vec<Option<FixedIp>> = Vec::with_capacity(request.len());
        // Literal addresses come first, so that "any" does not take one that a later element names.
        for wanted in request {
            fixed.push(match wanted.ip_address {
                Some(address) => Some(self.named(*wanted, address)?),
                None => None,
            });
        }
        for (slot, wanted) in fixed.iter_mut().zip(request).filter(|(slot, _)| slot.is_none()) {
            let Some(id) = wanted.subnet_id else {
                return Err(Fault::new(
                    400,
                    "InvalidInput",
                    "IP allocation requires subnet_id or ip_address.",
                ));
            };
            let subnet = self.subnet(id)?;
            let found = self.kept(subnet).or_else(|| self.any_of(subnet));
            *slot = Some(found.ok_or_else(|| exhausted(self.network))?);
        }
        let mut fixed: Vec<FixedIp> = fixed.into_iter().flatten().collect();
        // A gateway has exactly the requested addresses. Hosts form theirs in any case.
        if self.device_owner != owner::ROUTER_GATEWAY {
            let candidates = self.candidates();
            self.add_self_formed(&candidates, &mut fixed)?;
        }
        Ok(fixed)
    }

    /// The subnets for this device owner: first those with its service type, then those without any.
    fn candidates(&self) -> Vec<&'w Arc<Subnet>> {
        let made_for = |subnet: &&Arc<Subnet>| subnet.service_types.iter().any(|of| of == self.device_owner);
        let special = self.subnets.iter().copied().filter(made_for);
        let general = self.subnets.iter().copied().filter(|subnet| subnet.service_types.is_empty());
        special.chain(general).collect()
    }

    /// Whether the host forms its own address in a subnet. A router interface does not; it gets one assigned.
    fn forms_its_own(&self, subnet: &Subnet) -> bool {
        subnet.is_autoconfigured() && self.device_owner != owner::ROUTER_INTERFACE
    }

    fn add_self_formed(
        &mut self,
        candidates: &[&'w Arc<Subnet>],
        fixed: &mut Vec<FixedIp>,
    ) -> Result<(), Fault> {
        // A floating IP's port only reserves an address; no host is behind it that could form one.
        if self.device_owner == owner::FLOATING_IP {
            return Ok(());
        }
        for subnet in candidates {
            if self.forms_its_own(subnet) && !fixed.iter().any(|fixed| fixed.subnet_id == subnet.id) {
                let address = self_formed(subnet.cidr, self.mac);
                fixed.push(self.pick(subnet, address)?);
            }
        }
        Ok(())
    }

    fn subnet(&self, id: Uuid) -> Result<&'w Arc<Subnet>, Fault> {
        self.subnets.iter().copied().find(|subnet| subnet.id == id).ok_or_else(|| {
            Fault::input(format!(
                "Failed to create port on network {}, because fixed_ips included invalid subnet {id}",
                self.network
            ))
        })
    }

    fn named(&mut self, wanted: FixedIpRequest, address: IpAddr) -> Result<FixedIp, Fault> {
        let subnet = match wanted.subnet_id {
            Some(id) => self.subnet(id)?,
            None => self.subnets.iter().copied().find(|subnet| is_usable(subnet.cidr, address)).ok_or_else(
                || {
                    let message = format!(
                        "IP address {address} is not a valid IP for any of the subnets on the specified network."
                    );
                    Fault::new(400, "InvalidIpForNetwork", message)
                },
            )?,
        };
        if !is_usable(subnet.cidr, address) {
            let message = format!("IP address {address} is not a valid IP for the specified subnet.");
            return Err(Fault::new(400, "InvalidIpForSubnet", message));
        }
        let formed = self_formed(subnet.cidr, self.mac);
        if self.forms_its_own(subnet) && self.device_owner != owner::ROUTER_GATEWAY && address != formed {
            if self.has(subnet, address) {
                // The address was formed from the previous MAC.
                return self.pick(subnet, formed);
            }
            let message = format!(
                "IPv6 address {address} cannot be directly assigned to a port on subnet {} as the subnet is \
                 configured for automatic addresses",
                subnet.id
            );
            return Err(Fault::new(400, "AllocationOnAutoAddressSubnet", message));
        }
        self.pick(subnet, address)
    }

    fn any_of(&mut self, subnet: &Subnet) -> Option<FixedIp> {
        let address = if self.forms_its_own(subnet) {
            self_formed(subnet.cidr, self.mac)
        } else {
            free_from(self.world, subnet, self.next.get(&subnet.id).copied(), &self.picked)?
        };
        self.next.extend(after(address).map(|next| (subnet.id, next)));
        self.pick(subnet, address).ok()
    }

    /// An address that the port already has in a subnet and that the request did not name.
    fn kept(&mut self, subnet: &Subnet) -> Option<FixedIp> {
        let free = |own: &&FixedIp| {
            own.subnet_id == subnet.id && !self.picked.contains(&(subnet.id, own.ip_address))
        };
        let own = *self.own.iter().filter(|_| !self.forms_its_own(subnet)).find(free)?;
        self.pick(subnet, own.ip_address).ok()
    }

    fn has(&self, subnet: &Subnet, address: IpAddr) -> bool {
        self.own.contains(&FixedIp { subnet_id: subnet.id, ip_address: address })
    }

    fn pick(&mut self, subnet: &Subnet, address: IpAddr) -> Result<FixedIp, Fault> {
        let taken = self.world.address_holder(subnet.id, address).is_some() && !self.has(subnet, address);
        if taken || !self.picked.insert((subnet.id, address)) {
            return Err(already_allocated(address, subnet.id));
        }
        Ok(FixedIp { subnet_id: subnet.id, ip_address: address })
    }
}

#[cfg(test)]
mod tests;
