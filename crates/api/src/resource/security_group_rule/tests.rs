//! Rules: accepted values, responses and duplicates.

use serde_json::{Value, json};

use super::*;
use crate::resource::fixture::{Desk, fault};

const RULES: &str = "security-group-rules";

fn member() -> Caller {
    Caller::member("p")
}

fn desk() -> (Desk, Value) {
    let mut desk = Desk::new();
    let group = desk.create("security-groups", &member(), json!({"name": "web"})).unwrap();
    (desk, group)
}

/// A rule of a group, with more attributes.
fn rule(group: &Value, more: Value) -> Value {
    let mut body = json!({"security_group_id": group["id"], "direction": "ingress"});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[test]
fn what_is_accepted_and_how_it_is_shown() {
    let (mut desk, group) = desk();
    for (asked, shown) in [
        (
            json!({"protocol": "TCP", "port_range_min": 80, "port_range_max": "443"}),
            json!({"protocol": "tcp", "port_range_min": 80, "port_range_max": 443, "ethertype": "IPv4"}),
        ),
        (json!({"protocol": 17}), json!({"protocol": "17"})),
        (
            json!({"protocol": "icmp", "port_range_min": 8}),
            json!({"port_range_min": 8, "port_range_max": null}),
        ),
        (
            json!({"protocol": "icmp", "port_range_min": 0, "port_range_max": 0}),
            json!({"port_range_min": 0, "port_range_max": 0}),
        ),
        (json!({"protocol": "icmp", "ethertype": "ipv6"}), json!({"protocol": "icmp", "ethertype": "IPv6"})),
        (json!({"protocol": "any"}), json!({"protocol": null})),
        (
            json!({"remote_ip_prefix": "10.0.0.7/8"}),
            json!({"remote_ip_prefix": "10.0.0.7/8", "normalized_cidr": "10.0.0.0/8"}),
        ),
        (
            json!({"remote_ip_prefix": "192.0.2.1"}),
            json!({"remote_ip_prefix": "192.0.2.1/32", "normalized_cidr": "192.0.2.1/32"}),
        ),
        (
            json!({"remote_group_id": group["id"], "description": "d"}),
            json!({"remote_group_id": group["id"], "description": "d", "belongs_to_default_sg": false}),
        ),
        (json!({"protocol": "ipv6-opts", "ethertype": "IPv6"}), json!({"protocol": "ipv6-opts"})),
        (json!({"protocol": 0}), json!({"protocol": "0"})),
        (json!({"protocol": "255"}), json!({"protocol": "255"})),
    ] {
        let answer = desk.create(RULES, &member(), rule(&group, asked.clone())).unwrap();
        for (key, value) in shown.as_object().unwrap() {
            assert_eq!(answer[key], *value, "{key} of {asked}");
        }
    }
}

#[test]
fn what_is_refused() {
    let (mut desk, group) = desk();
    let foreign = desk.create("security-groups", &Caller::member("q"), json!({"name": "q"})).unwrap();
    for (asked, want) in [
        (json!({"direction": "sideways"}), (400, "HTTPBadRequest")),
        (json!({"direction": null}), (400, "HTTPBadRequest")),
        (json!({"ethertype": "ARP"}), (400, "HTTPBadRequest")),
        (json!({"protocol": "tcpp"}), (400, "HTTPBadRequest")),
        (json!({"protocol": 256}), (400, "HTTPBadRequest")),
        (json!({"protocol": -1}), (400, "HTTPBadRequest")),
        (json!({"protocol": ["tcp"]}), (400, "HTTPBadRequest")),
        (json!({"port_range_min": 1.5, "protocol": "tcp"}), (400, "HTTPBadRequest")),
        (json!({"port_range_min": 65536, "protocol": "tcp"}), (400, "SecurityGroupInvalidPortValue")),
        (json!({"remote_ip_prefix": "10.0.0.0/33"}), (400, "InvalidCIDR")),
        (json!({"remote_ip_prefix": "everywhere"}), (400, "InvalidCIDR")),
        (json!({"remote_group_id": "web"}), (404, "SecurityGroupNotFound")),
        (
            json!({"protocol": "tcp", "port_range_min": -16, "port_range_max": 80}),
            (400, "SecurityGroupInvalidPortValue"),
        ),
        (
            json!({"protocol": "tcp", "port_range_min": 80, "port_range_max": 65_536}),
            (400, "SecurityGroupInvalidPortValue"),
        ),
        (json!({"port_range_min": 1, "port_range_max": 2}), (400, "SecurityGroupProtocolRequiredWithPorts")),
        (
            json!({"protocol": "tcp", "port_range_min": 9, "port_range_max": 2}),
            (400, "SecurityGroupInvalidPortRange"),
        ),
        (json!({"protocol": "udp", "port_range_min": 9}), (400, "SecurityGroupInvalidPortRange")),
        (
            json!({"protocol": "6", "port_range_min": 0, "port_range_max": 2}),
            (400, "SecurityGroupInvalidPortValue"),
        ),
        (json!({"protocol": "icmp", "port_range_min": 256}), (400, "SecurityGroupInvalidIcmpValue")),
        (json!({"protocol": "icmp", "port_range_max": 1}), (400, "SecurityGroupMissingIcmpType")),
        (
            json!({"protocol": "gre", "port_range_min": 1, "port_range_max": 2}),
            (400, "SecurityGroupInvalidProtocolForPort"),
        ),
        (
            json!({"protocol": "dccp", "port_range_min": 1, "port_range_max": 2}),
            (400, "SecurityGroupInvalidProtocolForPort"),
        ),
        (
            json!({"protocol": 136, "port_range_min": 1, "port_range_max": 2}),
            (400, "SecurityGroupInvalidProtocolForPort"),
        ),
        (json!({"protocol": "58"}), (400, "SecurityGroupEthertypeConflictWithProtocol")),
        (json!({"protocol": 41}), (400, "SecurityGroupEthertypeConflictWithProtocol")),
        (
            json!({"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": group["id"]}),
            (400, "SecurityGroupRemoteGroupAndRemoteIpPrefix"),
        ),
        (json!({"remote_ip_prefix": "2001:db8::/32"}), (400, "SecurityGroupRuleParameterConflict")),
        (
            json!({"ethertype": "IPv6", "remote_ip_prefix": "10.0.0.0/8"}),
            (400, "SecurityGroupRuleParameterConflict"),
        ),
        (json!({"protocol": "icmpv6"}), (400, "SecurityGroupEthertypeConflictWithProtocol")),
        (json!({"protocol": "ipv6-route"}), (400, "SecurityGroupEthertypeConflictWithProtocol")),
        (json!({"remote_group_id": foreign["id"]}), (404, "SecurityGroupNotFound")),
        (json!({"security_group_id": foreign["id"]}), (404, "SecurityGroupNotFound")),
        (
            json!({"security_group_id": "7d7d0000-0000-4000-8000-000000000000"}),
            (404, "SecurityGroupNotFound"),
        ),
        (json!({"tags": []}), (400, "HTTPBadRequest")),
    ] {
        assert_eq!(fault(desk.create(RULES, &member(), rule(&group, asked.clone()))), want, "{asked}");
    }
}

#[test]
fn the_same_rule_in_other_words_is_there_already() {
    let (mut desk, group) = desk();
    let tables = [
        vec![
            json!({"protocol": "tcp"}),
            json!({"protocol": 6}),
            json!({"protocol": "6"}),
            json!({"protocol": "tcp", "port_range_min": 1, "port_range_max": 65535}),
            json!({"protocol": "TCP", "remote_ip_prefix": "0.0.0.0/0", "description": "another"}),
        ],
        vec![
            json!({"protocol": "icmp", "ethertype": "IPv6"}),
            json!({"protocol": "icmpv6", "ethertype": "IPv6"}),
            json!({"protocol": 58, "ethertype": "IPv6"}),
        ],
        vec![json!({"remote_ip_prefix": "10.1.2.3/8"}), json!({"remote_ip_prefix": "10.0.0.0/8"})],
        vec![json!({"protocol": "any"}), json!({}), json!({"protocol": null})],
    ];
    for table in tables {
        for (at, asked) in table.iter().enumerate() {
            let answer = desk.create(RULES, &member(), rule(&group, asked.clone()));
            let want = if at == 0 { (200, "no fault") } else { (409, "SecurityGroupRuleExists") };
            assert_eq!(fault(answer), want, "{asked}");
        }
    }
    // Another direction, range or group makes another rule.
    for asked in [
        json!({"direction": "egress", "protocol": "tcp"}),
        json!({"protocol": "tcp", "port_range_min": 1, "port_range_max": 65534}),
        json!({"protocol": "tcp", "remote_group_id": group["id"]}),
        json!({"protocol": "tcp", "ethertype": "IPv6"}),
    ] {
        assert!(desk.create(RULES, &member(), rule(&group, asked.clone())).is_ok(), "{asked}");
    }
}

#[test]
fn a_rule_counts_as_a_change_of_its_group() {
    let (mut desk, group) = desk();
    let revision =
        |desk: &Desk| desk.show("security-groups", &member(), &group).unwrap()["revision_number"].as_u64();
    let first = revision(&desk);
    let made = desk.create(RULES, &member(), rule(&group, json!({"protocol": "tcp"}))).unwrap();
    let second = revision(&desk);
    desk.delete(RULES, &member(), &made).unwrap();
    assert!(first < second && second < revision(&desk));
    assert_eq!(fault(desk.show(RULES, &member(), &made)), (404, "SecurityGroupRuleNotFound"));
}

#[test]
fn rules_are_listed_by_group_and_seen_by_their_owner() {
    let (mut desk, group) = desk();
    let query = format!("security_group_id={}&direction=egress", group["id"].as_str().unwrap());
    assert_eq!(desk.list(RULES, &member(), &query).unwrap().len(), 2);
    assert_eq!(desk.list(RULES, &Caller::member("q"), &query).unwrap().len(), 0);
    assert_eq!(desk.list(RULES, &member(), "").unwrap().len(), 6, "with those of the default group");
}

#[test]
fn rules_are_counted() {
    let (mut desk, group) = desk();
    desk.outside.settings.quotas.set("security_group_rule", 7);
    assert!(desk.create(RULES, &member(), rule(&group, json!({"protocol": "tcp"}))).is_ok());
    assert_eq!(
        fault(desk.create(RULES, &member(), rule(&group, json!({"protocol": "udp"})))),
        (409, "OverQuota")
    );
}
