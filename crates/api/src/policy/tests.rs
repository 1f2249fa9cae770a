//! Compares the declarations of all nouns with the default policies of Neutron 29, and the API's behaviour with both.

mod walk;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::resource::{Audience, NOUNS, Permission};

/// Rules by name, as sorted terms.
pub(super) type Table = BTreeMap<String, BTreeSet<String>>;

/// Deliberate differences: the rule, our terms, and the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("create_port", "admin | member@network | service | shared-member", "a reader does not write"),
    ("create_port:fixed_ips", "admin | member@network | service | shared-member", "the same"),
    ("create_port:fixed_ips:subnet_id", "admin | member@network | service | shared-member", "the same"),
    ("update_port:fixed_ips:subnet_id", "admin | member@network | service | shared-member", "the same"),
    ("create_subnet:tags", "admin | member", "who makes a subnet without being administrator makes its own"),
    (
        "create_subnet:service_types",
        "admin | member | member@network",
        "Neutron has the rule and does not ask it",
    ),
    ("update_subnet:service_types", "admin | member | member@network", "the same"),
    ("gateway_status", "admin", "an action of ours: chassis are the operator's"),
];

/// Prefixes of Neutron's rules for features that this API does not have.
const NOT_OFFERED: &[&str] = &[
    "create_port:hints",
    "update_port:hints",
    "get_port:hints",
    "create_port:trusted",
    "update_port:trusted",
    "get_port:trusted",
    "get_port:resource_request",
    "update_port:data_plane_status",
    "create_network:segments",
    "get_network:segments",
    "update_network:segments",
    // Immutable once the network exists.
    "update_network:provider:network_type",
    "update_network:provider:physical_network",
    "create_subnet:segment_id",
    "get_subnet:segment_id",
    "update_subnet:segment_id",
    "update_router:distributed",
    // The same attribute under its other name.
    "create_rbac_policy:target_project",
    "update_rbac_policy:target_project",
    "onboard_network_subnets",
    "create_dhcp-network",
    "get_dhcp-networks",
    "delete_dhcp-network",
    "get_dhcp-agents",
    "create_agent",
];

/// Rules that are not evaluated through declarations: of computed nouns, of quotas, and of the lists of the gateway sub-methods. Their
/// tests are beside them.
const ELSEWHERE: &[&str] = &[
    "get_quota",
    "update_quota",
    "delete_quota",
    "get_agent",
    "update_agent",
    "delete_agent",
    "get_network_ip_availability",
    "get_floatingip_pool",
    "get_availability_zone",
    "get_service_provider",
    "add_external_gateways:external_gateways",
    "update_external_gateways:external_gateways",
    "remove_external_gateways:external_gateways",
    "create_l3-router",
    "get_l3-routers",
    "update_l3-router",
    "delete_l3-router",
];

/// Tags have the visibility of their object, and the permission to set them includes deleting them.
fn is_about_labels(name: &str) -> bool {
    name.ends_with(":tags") && (name.starts_with("get_") || name.starts_with("delete_"))
}

fn terms(text: &str) -> BTreeSet<String> {
    text.split('|').map(|term| term.trim().to_owned()).filter(|term| !term.is_empty()).collect()
}

/// Neutron's table. The role `advsvc` is deprecated there and does not exist here.
pub(super) fn neutron() -> Table {
    let lines =
        include_str!("neutron-29.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rule = |line: &str| {
        let (name, text) = line.split_once(" = ").expect("a rule");
        let mut terms = terms(text);
        terms.remove("advsvc");
        (name.to_owned(), terms)
    };
    lines.map(rule).collect()
}

/// Neutron's table with our differences.
pub(super) fn expected() -> Table {
    let mut table = neutron();
    table.extend(DIFFERENT.iter().map(|(name, ours, _)| ((*name).to_owned(), terms(ours))));
    table
}

fn written(rule: Rule) -> BTreeSet<String> {
    let at = |role: &str, party| match party {
        Party::Owner => role.to_owned(),
        Party::Network => format!("{role}@network"),
        Party::Group => format!("{role}@group"),
    };
    let term = |term: &Term| match term {
        Term::Admin => "admin".to_owned(),
        Term::Service => "service".to_owned(),
        Term::Manager(party) => at("manager", *party),
        Term::Member(party) => at("member", *party),
        Term::Reader(party) => at("reader", *party),
        Term::Shared => "shared".to_owned(),
        Term::SharedMember => "shared-member".to_owned(),
        Term::External => "external".to_owned(),
        Term::NoNetworkDevice => "no-network-device".to_owned(),
        Term::NotEverybody => "not-everybody".to_owned(),
    };
    rule.0.iter().map(term).collect()
}

/// The declarations of the nouns.
fn declared() -> Table {
    let mut table = Table::new();
    for noun in NOUNS {
        let name = noun.name();
        table.extend(noun.rules().into_iter().map(|(name, rule)| (name, written(rule))));
        for attribute in noun.attributes() {
            for (verb, who) in [("create", attribute.create), ("update", attribute.update)] {
                let of = format!("{verb}_{name}:{}", attribute.name);
                if who != Permission::Nobody {
                    for part in attribute.parts {
                        let rule = if verb == "create" { part.create } else { part.update };
                        table.insert(format!("{of}:{}", part.name), written(rule));
                    }
                }
                if let Permission::By(rule) = who {
                    table.insert(of, written(rule));
                }
            }
            let seen = format!("get_{name}:{}", attribute.name);
            match attribute.shown {
                Audience::Admin => drop(table.insert(seen, written(ADMIN))),
                Audience::Service => drop(table.insert(seen, written(ADMIN_OR_SERVICE))),
                Audience::All | Audience::Never => {}
            }
        }
        for action in noun.actions() {
            let own = noun.rules().into_iter().find(|(rule, _)| *rule == format!("update_{name}"));
            match (action.who, own) {
                (Permission::By(rule), _) => drop(table.insert(action.rule.to_owned(), written(rule))),
                (Permission::Owner, Some((_, rule))) => {
                    drop(table.insert(action.rule.to_owned(), written(rule)))
                }
                _ => {}
            }
        }
    }
    table
}

#[test]
fn every_rule_is_neutrons_or_differs_for_a_reason() {
    let (declared, expected) = (declared(), expected());
    let wrong: Vec<String> = declared
        .iter()
        .filter(|(name, ours)| expected.get(*name) != Some(*ours))
        .map(|(name, ours)| format!("{name} = {ours:?}, Neutron: {:?}", expected.get(name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_of_neutron_is_declared_or_known_to_be_missing() {
    let declared = declared();
    let known = |name: &str| {
        let begins =
            |with: &str| name == with || name.strip_prefix(with).is_some_and(|rest| rest.starts_with(':'));
        NOT_OFFERED.iter().chain(ELSEWHERE).any(|with| begins(with)) || is_about_labels(name)
    };
    let missing: Vec<String> =
        neutron().into_keys().filter(|name| !declared.contains_key(name) && !known(name)).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    // No entry of the lists here is obsolete.
    let neutron = neutron();
    let stale: Vec<_> = NOT_OFFERED.iter().filter(|name| !neutron.contains_key(**name)).collect();
    assert!(stale.is_empty(), "{stale:?}");
    let stale: Vec<_> =
        DIFFERENT.iter().filter(|(name, ours, _)| declared.get(*name) != Some(&terms(ours))).collect();
    assert!(stale.is_empty(), "{stale:?}");
}
