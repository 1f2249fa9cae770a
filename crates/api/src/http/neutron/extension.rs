//! The extensions that this server implements. The list is exact, because clients and test suites derive their requests from it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Value, json};

use crate::Fault;

/// The alias, name and description. Some clients search by name, so the names are Neutron's.
pub const EXTENSIONS: &[(&str, &str, &str)] = &[
    ("router", "Neutron L3 Router", "Routers between networks, with gateways and floating IPs."),
    (
        "ext-gw-mode",
        "Neutron L3 Configurable external gateway mode",
        "Source NAT of a gateway can be turned off.",
    ),
    ("extraroute", "Neutron Extra Route", "Static routes of a router."),
    (
        "extraroute-atomic",
        "Atomically add/remove extra routes",
        "Adds or removes single static routes of a router.",
    ),
    (
        "external-gateway-multihoming",
        "Neutron L3 External Gateway Multihoming",
        "Several external gateways of one router.",
    ),
    (
        "enable-default-route-ecmp",
        "Enable Default Route ECMP",
        "Default routes through all gateways of a router at once.",
    ),
    (
        "enable-default-route-bfd",
        "Enable Default Route BFD",
        "Default routes leave when their next hop does not answer.",
    ),
    ("ecmp_routes", "Equal Cost Multipath Routing", "Several next hops for one destination."),
    ("router-enable-snat", "Router Enable SNAT", "Whether a router translates source addresses."),
    ("l3-ha", "HA Router extension", "Routers whose gateways move to another chassis when theirs fails."),
    ("fip-port-details", "Floating IP Port Details Extension", "The port of a floating IP beside its id."),
    ("floatingip-pools", "Floating IP Pools Extension", "Subnets that floating IPs come from."),
    ("router_availability_zone", "Router Availability Zone", "Zones for the gateways of a router."),
    ("l3_agent_scheduler", "L3 Agent Scheduler", "Which chassis carry the gateways of a router."),
    (
        "l3-agent-scheduler-ha-chassis-priority",
        "L3 Agent Scheduler HA Chassis Priority",
        "In which order chassis carry the gateways of a router.",
    ),
    ("external-net", "Neutron external network", "Networks that gateways and floating IPs are on."),
    ("provider", "Provider Network", "How a network reaches the physical one."),
    ("binding", "Port Binding", "Where a port is."),
    ("binding-extended", "Port Bindings Extended", "Several bindings of one port."),
    ("port-security", "Port Security", "Whether a port may send with its own addresses only."),
    ("allowed-address-pairs", "Allowed Address Pairs", "Further addresses that a port may send with."),
    ("extra_dhcp_opt", "Neutron Extra DHCP options", "DHCP options of a port."),
    ("net-mtu", "Network MTU", "The MTU of a network."),
    ("net-mtu-writable", "Network MTU (writable)", "The MTU of a network can be chosen."),
    ("availability_zone", "Availability Zone", "The zones that there are."),
    ("network_availability_zone", "Network Availability Zone", "Zones for a network."),
    ("agent", "agent", "The agents that serve the networks."),
    ("quotas", "Quota management support", "Limits of a project."),
    ("quota_details", "Quota details management support", "How much of its limits a project uses."),
    ("quota-check-limit", "Quota engine limit check", "Refuses a limit below what is used."),
    ("security-group", "security-group", "Rules for what reaches a port."),
    ("stateful-security-group", "Stateful security group", "Groups without connection tracking."),
    (
        "security-groups-normalized-cidr",
        "Normalized CIDR field for security group rules",
        "The prefix of a rule without host bits.",
    ),
    ("rbac-policies", "RBAC Policies", "Objects that other projects may use."),
    ("rbac-address-scope", "Address scope RBAC", "Address scopes that other projects may use."),
    ("address-scope", "Address scope", "Spaces in which addresses do not overlap."),
    ("subnet_allocation", "Subnet Allocation", "Pools that subnets are cut from."),
    ("default-subnetpools", "Default Subnetpools", "The pool for subnets that name none."),
    ("subnetpool-prefix-ops", "Subnet Pool Prefix Operations", "Adds or removes single prefixes of a pool."),
    ("subnet-service-types", "Subnet service types", "Subnets for ports of some owners only."),
    (
        "subnet-external-network",
        "Subnet belongs to external network",
        "Whether a subnet is on an external network.",
    ),
    ("network-ip-availability", "Network IP Availability", "How many addresses of a network are in use."),
    ("service-type", "Neutron Service Type Management", "Who provides which service."),
    ("dns-integration", "DNS Integration", "Names of ports and floating IPs."),
    (
        "port-mac-address-regenerate",
        "Neutron Port MAC address regenerate",
        "A port gets a new MAC if it is set to null.",
    ),
    ("ip_allocation", "IP Allocation", "When a port gets its addresses."),
    ("ip-substring-filtering", "IP address substring filtering", "Ports by a part of an address."),
    ("pagination", "Pagination support", "Lists in pages."),
    ("sorting", "Sorting support", "Lists in a chosen order."),
    ("project-id", "project_id field enabled", "The owner under the name project_id."),
    ("standard-attr-description", "standard-attr-description", "Descriptions of objects."),
    (
        "standard-attr-revisions",
        "Resource revision numbers",
        "A number that grows with every change of an object.",
    ),
    (
        "revision-if-match",
        "If-Match constraints based on revision_number",
        "Changes that are conditional on a revision.",
    ),
    ("standard-attr-timestamp", "Resource timestamps", "When an object was made and changed."),
    ("standard-attr-tag", "Tag support for resources with standard attribute", "Labels on objects."),
    ("tag-creation", "Tag creation", "Labels on objects from the start."),
    ("filter-validation", "Filter parameters validation", "Unknown filters are refused."),
    ("empty-string-filtering", "Empty String Filtering Extension", "The empty text is a value to filter by."),
];

/// The date of the last change of the list.
const UPDATED: &str = "2026-01-01T00:00:00-00:00";

fn shown((alias, name, about): &(&str, &str, &str)) -> Value {
    json!({"alias": alias, "name": name, "description": about, "updated": UPDATED, "links": []})
}

/// `GET /v2.0/extensions`.
pub(super) fn all() -> Value {
    json!({"extensions": EXTENSIONS.iter().map(shown).collect::<Vec<_>>()})
}

/// `GET /v2.0/extensions/{alias}`; the name is accepted too.
pub(super) fn one(asked: &str) -> Result<Value, Fault> {
    match EXTENSIONS.iter().find(|(alias, name, _)| *alias == asked || *name == asked) {
        Some(extension) => Ok(json!({"extension": shown(extension)})),
        None => {
            let text = format!("Extension with alias {asked} does not exist");
            Err(Fault::new(404, "HTTPNotFound", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_02_each_alias_is_there_once_and_found_by_alias_and_name() {
        let mut aliases: Vec<_> = EXTENSIONS.iter().map(|(alias, _, _)| *alias).collect();
        aliases.sort_unstable();
        aliases.dedup();
        assert_eq!(aliases.len(), EXTENSIONS.len());
        for (alias, name, _) in EXTENSIONS {
            assert_eq!(one(alias).unwrap()["extension"]["name"], *name);
            assert_eq!(one(name).unwrap()["extension"]["alias"], *alias);
        }
        assert_eq!(one("Availability Zone").unwrap()["extension"]["alias"], "availability_zone");
        for absent in ["dvr", "qos", "trunk", "segment", "dhcp_agent_scheduler", "port-forwarding", ""] {
            assert_eq!(one(absent).unwrap_err().status, 404, "{absent}");
        }
    }
}
