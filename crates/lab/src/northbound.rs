//! A logical network in the vocabulary of network builders, written to the Northbound as one transaction.
//!
//! Tests name the objects (`switch`, `router`, `join`, `floating_ip`), and this module writes their rows. For other columns a
//! test sets the row itself: [`Switch::port_with`], [`Router::port_with`], [`Router::route_with`]. Cells are written as given;
//! OVN, not this module, validates them.

use ovn::PortType;
use ovn::nb::{
    Bfd, DhcpOptions, GatewayChassis, LoadBalancer, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat, NatType, PolicyAction,
};
use ovn::text::Text;
use ovsdb::{Ref, Snapshot, Table, Transaction, Uuid, Weak};

/// Rows of a table that are new or may change.
#[derive(Debug)]
struct Rows<T>(Vec<(Ref<T>, Option<T>, T)>);

impl<T: Table + Clone> Rows<T> {
    fn add(&mut self, row: T) -> Ref<T> {
        let uuid = Ref::new(Uuid::new_v4());
        self.0.push((uuid, None, row));
        uuid
    }

    /// The matching row: a new one of this edit, one of the database, or one that is created now.
    fn row(&mut self, snapshot: &Snapshot, holds: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> usize {
        if let Some(at) = self.0.iter().position(|(.., row)| holds(row)) {
            return at;
        }
        let known = snapshot.table::<T>().iter().find(|(_, row)| holds(row));
        match known {
            Some((uuid, row)) => self.0.push((uuid, Some(row.clone()), row.clone())),
            None => {
                self.add(make());
            }
        }
        self.0.len() - 1
    }

    fn write(&self, transaction: &mut Transaction) {
        for (uuid, before, after) in &self.0 {
            match before {
                Some(before) => transaction.update(*uuid, before, after),
                None => transaction.insert(*uuid, after),
            };
        }
    }
}

/// A network under construction, created by [`Central::write`](crate::node::central::Central::write).
#[derive(Debug)]
pub struct Edit {
    snapshot: Snapshot,
    switches: Rows<LogicalSwitch>,
    ports: Rows<LogicalSwitchPort>,
    routers: Rows<LogicalRouter>,
    router_ports: Rows<LogicalRouterPort>,
    routes: Rows<LogicalRouterStaticRoute>,
    policies: Rows<LogicalRouterPolicy>,
    nats: Rows<Nat>,
    sessions: Rows<Bfd>,
    balancers: Rows<LoadBalancer>,
    gateways: Rows<GatewayChassis>,
    dhcp: Rows<DhcpOptions>,
}

impl Edit {
    pub(crate) fn new(snapshot: Snapshot) -> Edit {
        Edit {
            snapshot,
            switches: Rows(Vec::new()),
            ports: Rows(Vec::new()),
            routers: Rows(Vec::new()),
            router_ports: Rows(Vec::new()),
            routes: Rows(Vec::new()),
            policies: Rows(Vec::new()),
            nats: Rows(Vec::new()),
            sessions: Rows(Vec::new()),
            balancers: Rows(Vec::new()),
            gateways: Rows(Vec::new()),
            dhcp: Rows(Vec::new()),
        }
    }

    pub(crate) fn into_transaction(self) -> Transaction {
        let mut transaction = Transaction::new();
        self.switches.write(&mut transaction);
        self.ports.write(&mut transaction);
        self.routers.write(&mut transaction);
        self.router_ports.write(&mut transaction);
        self.routes.write(&mut transaction);
        self.policies.write(&mut transaction);
        self.nats.write(&mut transaction);
        self.sessions.write(&mut transaction);
        self.balancers.write(&mut transaction);
        self.gateways.write(&mut transaction);
        self.dhcp.write(&mut transaction);
        transaction
    }

    /// The switch with this name, created if it does not exist.
    pub fn switch(&mut self, name: &str) -> Switch<'_> {
        let make = || LogicalSwitch { name: name.into(), ..Default::default() };
        let at = self.switches.row(&self.snapshot, |row| row.name == name, make);
        Switch { edit: self, at }
    }

    /// A switch on a physical network. The packets of its port `localnet` leave through the chassis' bridge for that network.
    pub fn provider(&mut self, name: &str, localnet: &str, physnet: &str) -> Switch<'_> {
        self.switch(name).port_with(localnet, |port| {
            port.kind = PortType::Localnet;
            port.addresses.insert(Text::new("unknown"));
            port.options.insert("network_name".into(), physnet.into());
        })
    }

    /// The router with this name, created if it does not exist.
    pub fn router(&mut self, name: &str) -> Router<'_> {
        let make = || LogicalRouter { name: name.into(), ..Default::default() };
        let at = self.routers.row(&self.snapshot, |row| row.name == name, make);
        Router { edit: self, at }
    }

    /// A load balancer: connections to `vip` go to one of `backends`.
    pub fn load_balancer(&mut self, name: &str, vip: &str, backends: &[&str]) -> Balancer<'_> {
        let mut row = LoadBalancer { name: name.into(), ..Default::default() };
        row.vips.insert(Text::new(vip), Text::new(&backends.join(",")));
        let balancer = self.balancers.add(row);
        Balancer { edit: self, balancer }
    }

    /// A BFD session from a router's port to a neighbour, with packets every 300 ms of which three may be lost.
    pub fn bfd(&mut self, port: &str, neighbour: &str) -> Weak<Bfd> {
        let row = Bfd {
            logical_port: port.into(),
            dst_ip: Text::new(neighbour),
            min_tx: Some(300),
            min_rx: Some(300),
            detect_mult: Some(3),
            ..Default::default()
        };
        Weak::new(self.sessions.add(row).uuid())
    }

    /// The options that OVN's DHCP server sends to the ports that refer to it.
    pub fn dhcp(&mut self, cidr: &str, options: &[(&str, &str)]) -> Weak<DhcpOptions> {
        let options = options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        Weak::new(self.dhcp.add(DhcpOptions { cidr: Text::new(cidr), options, ..Default::default() }).uuid())
    }
}

/// A switch that is being described.
#[derive(Debug)]
pub struct Switch<'a> {
    edit: &'a mut Edit,
    at: usize,
}

impl Switch<'_> {
    /// A port with the addresses of its VM: `02:00:00:00:00:11 10.0.0.11`.
    pub fn port(self, name: &str, addresses: &str) -> Self {
        self.port_with(name, |port| {
            port.addresses.insert(Text::new(addresses));
        })
    }

    /// A port that is set up, or changed, column by column.
    pub fn port_with(self, name: &str, set: impl FnOnce(&mut LogicalSwitchPort)) -> Self {
        let make = || LogicalSwitchPort { name: name.into(), ..Default::default() };
        let at = self.edit.ports.row(&self.edit.snapshot, |row| row.name == name, make);
        let (uuid, _, row) = &mut self.edit.ports.0[at];
        set(row);
        self.edit.switches.0[self.at].2.ports.insert(*uuid);
        self
    }

    /// The switch's side of a router's port.
    pub fn router_port(self, name: &str, router_port: &str) -> Self {
        self.port_with(name, |port| {
            port.kind = PortType::Router;
            port.addresses.insert(Text::new("router"));
            port.options.insert("router-port".into(), router_port.into());
        })
    }

    /// A setting of the switch as a whole.
    pub fn config(self, key: &str, value: &str) -> Self {
        self.edit.switches.0[self.at].2.other_config.insert(key.into(), value.into());
        self
    }
}

/// A router that is being described.
#[derive(Debug)]
pub struct Router<'a> {
    edit: &'a mut Edit,
    at: usize,
}

impl Router<'_> {
    fn row(&mut self) -> &mut LogicalRouter {
        &mut self.edit.routers.0[self.at].2
    }

    /// Joins the router to a switch: its port is named `<router>-<switch>`, the switch's `<switch>-<router>`.
    pub fn join(mut self, switch: &str, mac: &str, networks: &str) -> Self {
        let router = self.row().name.clone();
        let port = format!("{router}-{switch}");
        self.edit.switch(switch).router_port(&format!("{switch}-{router}"), &port);
        self.port(&port, mac, networks)
    }

    /// A port with its Ethernet address and its networks, separated by blanks.
    pub fn port(self, name: &str, mac: &str, networks: &str) -> Self {
        self.port_with(name, |port| {
            port.mac = Text::new(mac);
            port.networks = networks.split_ascii_whitespace().map(Text::new).collect();
        })
    }

    /// A port that is set up, or changed, column by column.
    pub fn port_with(mut self, name: &str, set: impl FnOnce(&mut LogicalRouterPort)) -> Self {
        let make = || LogicalRouterPort { name: name.into(), ..Default::default() };
        let at = self.edit.router_ports.row(&self.edit.snapshot, |row| row.name == name, make);
        let (uuid, _, row) = &mut self.edit.router_ports.0[at];
        set(row);
        let uuid = *uuid;
        self.row().ports.insert(uuid);
        self
    }

    /// Adds a chassis that may host a port. The live one with the highest priority hosts it.
    pub fn gateway_chassis(self, port: &str, chassis: &str, priority: i64) -> Self {
        let row = GatewayChassis {
            name: format!("{port}-{chassis}").into(),
            chassis_name: chassis.into(),
            priority,
            ..Default::default()
        };
        let gateway = self.edit.gateways.add(row);
        self.port_with(port, |port| {
            port.gateway_chassis.insert(gateway);
        })
    }

    /// A route by a neighbour.
    pub fn static_route(self, prefix: &str, next_hop: &str) -> Self {
        self.route_with(prefix, next_hop, |_| {})
    }

    /// Adds a route with further columns: a port, a BFD session, a policy.
    pub fn route_with(
        mut self,
        prefix: &str,
        next_hop: &str,
        set: impl FnOnce(&mut LogicalRouterStaticRoute),
    ) -> Self {
        let mut row = LogicalRouterStaticRoute {
            ip_prefix: Text::new(prefix),
            nexthop: Text::new(next_hop),
            ..Default::default()
        };
        set(&mut row);
        let route = self.edit.routes.add(row);
        self.row().static_routes.insert(route);
        self
    }

    /// A policy: matching packets go to `next_hop`, or follow the routes if there is none.
    pub fn policy(mut self, priority: i64, matches: &str, next_hop: Option<&str>) -> Self {
        let row = LogicalRouterPolicy {
            priority,
            matches: matches.into(),
            action: if next_hop.is_some() { PolicyAction::Reroute } else { PolicyAction::Allow },
            nexthops: next_hop.into_iter().map(Text::new).collect(),
            ..Default::default()
        };
        let policy = self.edit.policies.add(row);
        self.row().policies.insert(policy);
        self
    }

    /// Removes the policies of a priority.
    pub fn without_policies(mut self, priority: i64) -> Self {
        let snapshot = self.edit.snapshot.clone();
        for (policy, row) in snapshot.table::<LogicalRouterPolicy>().iter() {
            if row.priority == priority {
                self.row().policies.remove(&policy);
            }
        }
        self
    }

    /// Source NAT: packets from `inside` leave as `outside`.
    pub fn snat(self, outside: &str, inside: &str) -> Self {
        self.nat(NatType::Snat, outside, inside)
    }

    /// An external address that is translated to an internal one, in both directions.
    pub fn floating_ip(self, outside: &str, inside: &str) -> Self {
        self.nat(NatType::DnatAndSnat, outside, inside)
    }

    fn nat(mut self, kind: NatType, outside: &str, inside: &str) -> Self {
        let row = Nat {
            kind,
            external_ip: Text::new(outside),
            logical_ip: Text::new(inside),
            ..Default::default()
        };
        let nat = self.edit.nats.add(row);
        self.row().nat.insert(nat);
        self
    }

    /// A setting of the router as a whole.
    pub fn option(mut self, key: &str, value: &str) -> Self {
        self.row().options.insert(key.into(), value.into());
        self
    }
}

/// A load balancer that is being described.
#[derive(Debug)]
pub struct Balancer<'a> {
    edit: &'a mut Edit,
    balancer: Ref<LoadBalancer>,
}

impl Balancer<'_> {
    /// Adds the load balancer to this router.
    pub fn on_router(self, name: &str) -> Self {
        let balancer = Weak::new(self.balancer.uuid());
        self.edit.router(name).row().load_balancer.insert(balancer);
        self
    }

    /// Adds the load balancer to this switch.
    pub fn on_switch(self, name: &str) -> Self {
        let balancer = Weak::new(self.balancer.uuid());
        let switch = self.edit.switch(name);
        switch.edit.switches.0[switch.at].2.load_balancer.insert(balancer);
        self
    }
}

#[cfg(test)]
mod tests;
