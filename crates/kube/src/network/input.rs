//! The fields of a network as a user wrote them, and the rules that they must keep.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{ClusterNetwork, Layer2Network, NetworkName, choose_transit};
use crate::address::{DualAddress, DualNet, DualStack, host_count, nets_overlap};

/// The fewest addresses of a subnet with room for a pod: its network address, the gateway, the management port and the pod.
const SMALLEST: u128 = 4;
/// The MTU that every IPv6 link has at least.
const IPV6_MTU: u32 = 1280;

/// The fields of a network. A list that the user left out is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer2Input {
    /// The path of the fields for messages: `spec.layer2.`.
    pub path: &'static str,
    /// The name of the join subnets' field: `joinSubnets`.
    pub join_field: &'static str,
    /// The MTU.
    pub mtu: Option<u32>,
    /// The subnets of the pods.
    pub subnets: Vec<String>,
    /// Subnets without automatic allocation.
    pub reserved: Vec<String>,
    /// Subnets of the gateway and the management port.
    pub infrastructure: Vec<String>,
    /// The default gateways.
    pub gateways: Vec<String>,
    /// The join subnets.
    pub join: Vec<String>,
    /// The transit subnets, if somebody has chosen them already.
    pub transit: Option<Vec<String>>,
    /// Whether pods get addresses.
    pub is_allocated: bool,
    /// Whether addresses survive their pod.
    pub persistent: bool,
}

/// A field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// The field with its path.
    pub field: String,
    /// The rule, and what to do.
    pub cause: String,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.cause)
    }
}

/// All problems in one line.
pub fn describe_problems(problems: &[FieldProblem]) -> String {
    problems.iter().map(|problem| problem.to_string()).collect::<Vec<_>>().join("; ")
}

/// Collects the problems of an input.
struct Check<'i> {
    input: &'i Layer2Input,
    problems: Vec<FieldProblem>,
}

impl Layer2Input {
    /// The network, or every rule that the fields break.
    pub fn check(
        &self,
        name: NetworkName,
        cluster: &ClusterNetwork,
    ) -> Result<Layer2Network, Vec<FieldProblem>> {
        let mut check = Check { input: self, problems: Vec::new() };
        if !self.is_allocated {
            check.refuse("ipam.mode", "Disabled is for secondary networks; use Enabled");
        }
        let subnets = check.pod_subnets(cluster);
        check.mtu(subnets);
        let join = check.join(subnets, cluster);
        let reserved = check.inside("reservedSubnets", &self.reserved, 25, subnets);
        let infrastructure = check.inside("infrastructureSubnets", &self.infrastructure, 4, subnets);
        for net in &infrastructure {
            if let Some(other) = reserved.iter().find(|other| nets_overlap(*net, **other)) {
                check.refuse("infrastructureSubnets", format!("{net} overlaps with the reserved {other}"));
            }
        }
        let gateways = check.gateways(subnets, &infrastructure);
        let transit = check.transit(&name, subnets, join, cluster);
        if !check.problems.is_empty() {
            return Err(check.problems);
        }
        let made = Layer2Network::new(name, subnets, join, transit)
            .with_mtu(self.mtu)
            .with_reserved(reserved)
            .with_persistence(self.persistent)
            .with_infrastructure(infrastructure, gateways);
        let room = |family: &str| FieldProblem {
            field: format!("{}infrastructureSubnets", self.path),
            cause: format!(
                "no room for the {family} gateway and management port; add a subnet of two or more addresses"
            ),
        };
        let mut missing = Vec::new();
        for (has, gateway, management, family) in [
            (subnets.ipv4.is_some(), made.gateway.ipv4.is_some(), made.management.ipv4.is_some(), "IPv4"),
            (subnets.ipv6.is_some(), made.gateway.ipv6.is_some(), made.management.ipv6.is_some(), "IPv6"),
        ] {
            if has && !(gateway && management) {
                missing.push(room(family));
            }
        }
        if missing.is_empty() { Ok(made) } else { Err(missing) }
    }
}

impl Check<'_> {
    fn refuse(&mut self, field: &str, cause: impl Into<String>) {
        self.problems
            .push(FieldProblem { field: format!("{}{field}", self.input.path), cause: cause.into() });
    }

    /// The subnets of a list; those that do not parse are refused.
    fn parse(&mut self, field: &str, texts: &[String]) -> Vec<IpNet> {
        let mut nets = Vec::new();
        for text in texts {
            match text.parse::<IpNet>() {
                Ok(IpNet::V6(net)) if net.addr().to_ipv4_mapped().is_some() => {
                    self.refuse(field, format!("{net} is an IPv4 subnet in IPv6 form; write it as IPv4"));
                }
                Ok(net) => nets.push(net),
                Err(_) => {
                    let text: String = text.chars().take(60).collect();
                    self.refuse(field, format!("{text:?} is not a subnet such as 10.20.0.0/16"));
                }
            }
        }
        nets
    }

    /// At most one subnet of each family.
    fn dual(&mut self, field: &str, texts: &[String]) -> Option<DualNet> {
        if texts.len() > 2 {
            self.refuse(field, "more than two subnets; give one of each address family");
            return None;
        }
        let nets = self.parse(field, texts);
        let complete = nets.len() == texts.len();
        let Some(dual) = DualNet::from_nets(nets.into_iter().map(|net| net.trunc())) else {
            self.refuse(field, "two subnets of one address family; give one of each");
            return None;
        };
        complete.then_some(dual)
    }

    fn pod_subnets(&mut self, cluster: &ClusterNetwork) -> DualNet {
        if self.input.subnets.is_empty() {
            self.refuse("subnets", "missing; a primary network needs one or two subnets");
            return DualNet::default();
        }
        let Some(subnets) = self.dual("subnets", &self.input.subnets) else { return DualNet::default() };
        for net in subnets.nets() {
            let smallest = if net.addr().is_ipv4() { SMALLEST + 1 } else { SMALLEST };
            if host_count(net) < smallest {
                self.refuse("subnets", format!("{net} has no address for a pod; use a larger one"));
            }
            let others = cluster
                .service_subnets
                .iter()
                .map(|other| (*other, "the cluster's service subnet"))
                .chain(cluster.default_join.nets().map(|other| (other, "the default network's join subnet")))
                .chain(cluster.masquerade.nets().map(|other| (other, "the masquerade subnet")));
            let found: Vec<_> = others.filter(|(other, _)| nets_overlap(net, *other)).collect();
            for (other, noun) in found {
                self.refuse("subnets", format!("{net} overlaps with {noun} {other}; use another one"));
            }
        }
        subnets
    }

    fn mtu(&mut self, subnets: DualNet) {
        let Some(mtu) = self.input.mtu else { return };
        if !(576..=65536).contains(&mtu) {
            self.refuse("mtu", format!("{mtu} is not from 576 to 65536"));
        } else if mtu < IPV6_MTU && subnets.ipv6.is_some() {
            self.refuse("mtu", format!("{mtu} is less than {IPV6_MTU}, which an IPv6 subnet needs"));
        }
    }

    fn join(&mut self, subnets: DualNet, cluster: &ClusterNetwork) -> DualNet {
        let field = self.input.join_field;
        let given = self.dual(field, &self.input.join).unwrap_or_default();
        let join =
            DualStack { ipv4: given.ipv4.or(cluster.join.ipv4), ipv6: given.ipv6.or(cluster.join.ipv6) };
        let join = join.only_families_of(&subnets);
        for net in subnets.nets() {
            if let Some(other) = join.nets().find(|other| nets_overlap(net, *other)) {
                self.refuse(
                    "subnets",
                    format!("{net} overlaps with the join subnet {other}; change one of them"),
                );
            }
        }
        for net in join.nets() {
            let others = cluster.service_subnets.iter().copied().chain(cluster.masquerade.nets());
            let others = others.chain(cluster.default_join.nets());
            let found: Vec<_> = others.filter(|other| nets_overlap(net, *other)).collect();
            for other in found {
                self.refuse(field, format!("{net} overlaps with the cluster's {other}; use another one"));
            }
        }
        join
    }

    /// Subnets inside of the pods' ones.
    fn inside(&mut self, field: &str, texts: &[String], most: usize, subnets: DualNet) -> Vec<IpNet> {
        if texts.len() > most {
            self.refuse(field, format!("more than {most} subnets; merge some"));
            return Vec::new();
        }
        let nets = self.parse(field, texts);
        for net in &nets {
            if net.trunc() != *net {
                self.refuse(field, format!("{net} has host bits; write {}", net.trunc()));
            }
            if !subnets.is_empty() && !subnets.nets().any(|outer| outer.contains(net)) {
                self.refuse(field, format!("{net} is not inside of the network's subnets"));
            }
        }
        nets
    }

    fn gateways(&mut self, subnets: DualNet, infrastructure: &[IpNet]) -> DualAddress {
        let field = "defaultGatewayIPs";
        let mut addresses = Vec::new();
        for text in &self.input.gateways {
            match text.parse::<IpAddr>() {
                Ok(address) => addresses.push(address),
                Err(_) => {
                    let text: String = text.chars().take(60).collect();
                    self.refuse(field, format!("{text:?} is not an address such as 10.20.0.1"));
                }
            }
        }
        for address in &addresses {
            let Some(net) = subnets.of_family(*address).filter(|net| net.contains(address)) else {
                if !subnets.is_empty() {
                    self.refuse(field, format!("{address} is not inside of the network's subnets"));
                }
                continue;
            };
            if *address == net.network() || (net.addr().is_ipv4() && *address == net.broadcast()) {
                self.refuse(
                    field,
                    format!("{address} is the first or last address of {net}; use another one"),
                );
            }
            let mut of_family =
                infrastructure.iter().filter(|it| it.addr().is_ipv4() == address.is_ipv4()).peekable();
            if of_family.peek().is_some() && !of_family.any(|net| net.contains(address)) {
                self.refuse(field, format!("{address} is not inside of the infrastructure subnets"));
            }
        }
        DualAddress::from_addresses(addresses).unwrap_or_else(|| {
            self.refuse(field, "two addresses of one family; give one of each");
            DualAddress::default()
        })
    }

    fn transit(
        &mut self,
        name: &NetworkName,
        subnets: DualNet,
        join: DualNet,
        cluster: &ClusterNetwork,
    ) -> DualNet {
        let Some(texts) = &self.input.transit else {
            return choose_transit(cluster, subnets, join).unwrap_or_else(|error| {
                self.refuse("subnets", format!("{error} for {name}"));
                DualNet::default()
            });
        };
        let transit = self.dual("transitSubnet", texts).unwrap_or_default();
        if (transit.ipv4.is_some(), transit.ipv6.is_some())
            != (subnets.ipv4.is_some(), subnets.ipv6.is_some())
        {
            self.refuse("transitSubnet", "not of the same address families as the subnets");
        }
        for net in transit.nets() {
            if let Some(other) = subnets.nets().chain(join.nets()).find(|other| nets_overlap(net, *other)) {
                self.refuse("transitSubnet", format!("{net} overlaps with {other}"));
            }
        }
        transit
    }
}
