//! A decision that the next one is made from.
//!
//! A node has a thousand ports, and mostly one of them changes. If it is an ordinary port of a provider network, which no other
//! row refers to and whose addresses nobody else has, then it is plain what that changes: its own addresses come or go. For
//! anything else all is decided anew. The outcome is always that of [`decide`](super::decide); a property test says so.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;
use std::sync::Arc;

use ovn::PortType;
use ovn::sb::PortBinding;
use ovn::text::NatAddresses;
use ovsdb::Uuid;
use reconcile::Outcome;

use super::draft::many_rules;
use super::malformed::{malformed, malformed_cidrs};
use super::networks::Networks;
use super::{Address, Decision, NamedRow, Place, Reason, is_of_its_link, with_chassis, without_chassis};
use crate::ProblemCode;
use crate::bgp::snapshot::{Role, Snapshot, is_lost, is_vip_port, opted_out};

/// A decision with what it was made from.
#[derive(Debug)]
pub struct IncrementalDecision {
    /// The decision, and what could not be decided.
    pub outcome: Outcome<Decision>,
    /// The inputs of this decision; `None` if the next decision cannot start from this one.
    basis: Option<Basis>,
}

#[derive(Debug)]
struct Basis {
    snapshot: Snapshot,
    me: Uuid,
    networks: Arc<Networks>,
    /// The number of addresses with rules of their own.
    wired: usize,
}

impl IncrementalDecision {
    /// Decides.
    pub fn new(snapshot: &Snapshot) -> Self {
        let Some(me) = snapshot.me() else {
            return Self { outcome: without_chassis(snapshot), basis: None };
        };
        let (outcome, networks) = with_chassis(snapshot, me);
        // Where two want the same, or a row cannot be read, what was decided tells too little of what is to be.
        let plain = !snapshot.rebinding
            && outcome.keep.is_empty()
            && outcome.problems.iter().all(|problem| problem.code == ProblemCode::ManyRules);
        let basis = plain.then(|| Basis {
            snapshot: snapshot.clone(),
            me,
            networks: Arc::new(networks),
            wired: outcome.value.addresses.values().filter(|address| address.is_wired()).count(),
        });
        Self { outcome, basis }
    }

    /// Decides after something changed.
    pub fn next(self, snapshot: &Snapshot) -> Self {
        let Some(basis) = self.basis else { return Self::new(snapshot) };
        basis.step(self.outcome.value, snapshot).unwrap_or_else(|| Self::new(snapshot))
    }
}

impl Basis {
    /// The decision after this one, if the difference is plain.
    fn step(self, mut decision: Decision, now: &Snapshot) -> Option<IncrementalDecision> {
        let last = &self.snapshot;
        let same = now.me() == Some(self.me)
            && !now.rebinding
            && now.silent == last.silent
            && *now.before == decision
            && (Arc::ptr_eq(&now.config, &last.config) || now.config == last.config)
            && (Arc::ptr_eq(&now.reserved, &last.reserved) || now.reserved == last.reserved)
            && last.vswitch.diff(&now.vswitch).is_empty();
        if !same {
            return None;
        }
        let delta = last.sb.diff(&now.sb);
        let changes = delta.table::<PortBinding>();
        let sides = || changes.clone().flat_map(|change| [&change.before, &change.after]).flatten();
        if delta.len() != changes.len() || !sides().all(|port| self.is_plain(&decision, now, port)) {
            return None;
        }
        let mut wired = self.wired;
        for change in changes.clone() {
            for ip in change.before.iter().flat_map(|port| self.exposes(port)) {
                let gone = decision.addresses.remove(&ip)?;
                let is_of = |reason: &Reason| matches!(reason, Reason::ProviderPort { port } if port.row == change.uuid);
                if !gone.reasons.iter().all(is_of) {
                    return None;
                }
                wired -= 1;
            }
        }
        for change in changes {
            let Some(port) = &change.after else { continue };
            for ip in self.exposes(port) {
                // Within a subnet there may be a conflict, and what this node lives by is refused.
                if decision.subnet_of(ip).is_some() || now.reserved.has(ip).is_some() {
                    return None;
                }
                let network = self.networks.of(port.datapath.uuid())?;
                let place = Place::Wired { bridge: network.bridge.clone(), dev: network.dev.clone() };
                let port = NamedRow::new(&port.logical_port, change.uuid);
                let reasons = vec![Reason::ProviderPort { port }];
                if decision.addresses.insert(ip, Address { place, neighbour: None, reasons }).is_some() {
                    return None;
                }
                wired += 1;
            }
        }
        let mut outcome = Outcome::new(decision);
        outcome.problems.extend(many_rules(&now.config, wired + outcome.value.subnets.len()));
        Some(IncrementalDecision { outcome, basis: Some(Basis { snapshot: now.clone(), wired, ..self }) })
    }

    /// Whether a port means nothing but its own addresses: to rule D1, and to no other.
    fn is_plain(&self, decision: &Decision, now: &Snapshot, port: &PortBinding) -> bool {
        let is_resident = |nat: &PortBinding| {
            nat.nat_addresses.iter().any(|text| {
                matches!(text.value(), Some(NatAddresses::Announce { resident: Some(name), .. }) if *name == port.logical_port)
            })
        };
        port.kind == PortType::Vif
            && malformed(port).is_none()
            && malformed_cidrs(port).is_none()
            && !is_lost(now, port)
            && port.nat_addresses.is_empty()
            && !is_vip_port(port)
            && !decision.tenant_switches.contains(&port.datapath.uuid())
            && !now.is_led_to(&port.logical_port)
            && !self.snapshot.is_led_to(&port.logical_port)
            && !now.ports_as(Role::Nat).any(|(_, nat)| is_resident(nat))
    }

    /// The addresses that such a port exposes.
    fn exposes(&self, port: &PortBinding) -> Vec<IpAddr> {
        let here =
            port.is_bound(self.me) && self.networks.of(port.datapath.uuid()).is_some() && !opted_out(port);
        let mut ips = if here { port.ips() } else { Vec::new() };
        ips.retain(|ip| !is_of_its_link(*ip));
        ips.sort();
        ips.dedup();
        ips
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::world::World;
    use super::*;

    /// Decides, changes something, and says whether the next decision was made from the one before.
    fn is_step(world: &mut World, change: impl FnOnce(&mut World)) -> bool {
        let before = IncrementalDecision::new(&world.snapshot());
        world.settle();
        change(world);
        let basis = before.basis.expect("nothing is wrong");
        let after = basis.step(before.outcome.value, &world.snapshot());
        after.is_some_and(|after| {
            assert_eq!(after.outcome, world.decide());
            true
        })
    }

    fn world() -> World {
        let mut world = World::new().tenants();
        world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10 2001:db8::10"]);
        world.vif("vm2", "neutron-pub", &["fa:16:3e:00:00:02 172.24.4.11"]);
        world.bind("vm2", "ch-a").bind("cr-lrp-gw1", "ch-a");
        world
    }

    #[test]
    fn ordinary_ports_come_and_go_alone() {
        let mut world = world();
        assert!(is_step(&mut world, |world| {
            world.bind("vm1", "ch-a");
        }));
        assert!(is_step(&mut world, |world| {
            world.bind("vm1", "ch-a").unbind("vm2");
        }));
        assert!(is_step(&mut world, |world| {
            world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.9"]);
        }));
        assert!(is_step(&mut world, |world| {
            world.external_id("vm1", "meridian:advertise", "false");
        }));
        assert!(is_step(&mut world, |world| {
            world.ports.remove("vm1");
        }));
        assert!(is_step(&mut world, |_| ()));
    }

    #[test]
    fn what_others_look_at_is_decided_anew() {
        type Edit = fn(&mut World);
        let cases: [(&str, Edit); 8] = [
            ("an address in a subnet", |world| {
                world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 10.1.0.9"]).bind("vm1", "ch-a");
            }),
            ("a gateway", |world| {
                world.unbind("cr-lrp-gw1");
            }),
            ("a tenant's port", |world| {
                world.vif("vm3", "neutron-ten", &["fa:16:3e:00:00:03 10.1.0.5"]);
            }),
            ("an address that is there", |world| {
                world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.11"]).bind("vm1", "ch-a");
            }),
            ("a gateway's address", |world| {
                world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.221"]).bind("vm1", "ch-a");
            }),
            ("what cannot be read", |world| {
                world.vif("vm1", "neutron-pub", &["garbage"]).bind("vm1", "ch-a");
            }),
            ("a load balancer's port", |world| {
                world.external_id("vm1", "neutron:device_owner", "ovn-lb:vip");
            }),
            ("a setting", |world| {
                world.settings.insert("ovn-bridge-mappings".into(), String::new());
            }),
        ];
        for (what, change) in cases {
            assert!(!is_step(&mut world(), change), "{what}");
        }
        let mut resident = world();
        resident.nat("gw1", &["fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"vm1\")"]);
        assert!(!is_step(&mut resident, |world| {
            world.bind("vm1", "ch-a");
        }));
        let mut led_to = world();
        led_to.port("lrp-sub1").options.insert("peer".into(), "vm1".into());
        assert!(!is_step(&mut led_to, |world| {
            world.bind("vm1", "ch-a");
        }));
    }
}
