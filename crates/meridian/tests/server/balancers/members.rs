//! Members: rejected requests, their entries in the Northbound, batches, weights.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::site::{BalancerSite, note};
use crate::journal::Journal;
use crate::site::internal;
use crate::world::id;

/// A load balancer with a pool behind a listener at port 82.
struct Served {
    site: BalancerSite,
    balancer: String,
    pool: String,
}

impl Served {
    fn new() -> Self {
        let site = BalancerSite::new();
        let balancer = site.balancer("lb1", &site.s1);
        let pool = site.pool("p1", &balancer);
        site.listener(&balancer, 82, &pool);
        Self { site, balancer, pool }
    }

    fn path(&self) -> String {
        format!("pools/{}/members", self.pool)
    }

    /// The backends in the order of the row; empty if the VIP has no entry.
    fn backends(&self) -> Vec<String> {
        let row = self.site.row(&self.balancer);
        let vips = row["vips"].as_object().unwrap();
        vips.values().flat_map(|value| value.as_str().unwrap().split(',').map(str::to_owned)).collect()
    }

    /// The members by address, each with its id.
    fn members(&self) -> BTreeMap<String, String> {
        let list = self.site.get(&self.path())["members"].clone();
        let pair = |member: &Value| (member["address"].as_str().unwrap().to_owned(), id(member));
        list.as_array().unwrap().iter().map(pair).collect()
    }

    #[track_caller]
    fn refused(&self, member: Value, status: u16, part: &str) {
        let (found, text) = self.site.refusal("POST", &self.path(), json!({ "member": member }));
        assert!(found == status && text.contains(part), "{found} {text}");
    }
}

#[test]
fn scenario_29_to_32_members_that_cannot_be() {
    let served = Served::new();
    let (s1, s2) = (&served.site.s1, &served.site.s2);
    let nowhere = "11111111-2222-4333-8444-555555555555";
    let member =
        |address: &str, subnet: &str| json!({"address": address, "protocol_port": 80, "subnet_id": subnet});
    served.refused(
        member("not-an-ip", s1),
        400,
        "Invalid input for field/attribute address. Value: 'not-an-ip'.",
    );
    served.refused(
        member("169.254.169.254", s1),
        400,
        "169.254.169.254 is not a valid option for member address",
    );
    served.refused(member("10.0.0.107", nowhere), 400, &format!("Subnet {nowhere} not found."));
    served.refused(json!({"address": "20.0.0.107", "protocol_port": 80}), 501, "Subnet is required");
    served.refused(member("fd00::1", s2), 501, "mixing IPv4/IPv6");
    let mut monitored = member("10.0.0.107", s1);
    monitored["monitor_port"] = json!(8080);
    served.refused(monitored, 501, "does not support different member monitor address or port");
    assert_eq!(served.members(), BTreeMap::new());

    // A member without a subnet gets that of the VIP in the rows, and null in the API.
    let alone = json!({"address": "10.0.0.107", "protocol_port": 80});
    let alone = served.site.make(&served.path(), "member", alone);
    let row = served.site.row(&served.balancer);
    assert_eq!(
        note(&row, &format!("pool_{}", served.pool)),
        &json!(format!("member_{alone}_10.0.0.107:80_{s1}"))
    );
    assert_eq!(served.site.get(&format!("{}/{alone}", served.path()))["member"]["subnet_id"], Value::Null);
    let taken = "Another member on this pool is already using ip 10.0.0.107 on protocol_port 80";
    served.refused(member("10.0.0.107", s1), 409, taken);

    // A member in a subnet that has no route to the VIP.
    let (n3, s3) = internal(&served.site.cloud, "N3", "30.0.0.0/24");
    served.site.member(&served.pool, "30.0.0.107", &s3);
    assert_eq!(served.site.on_network(&n3), [served.balancer.clone()].into());
    assert_eq!(served.backends(), ["10.0.0.107:80", "30.0.0.107:80"]);
    let path = format!("loadbalancers/{}/status", served.balancer);
    let members = |path: &str| {
        let tree = served.site.get(path)["statuses"]["loadbalancer"].clone();
        tree["listeners"][0]["pools"][0]["members"].as_array().unwrap().clone()
    };
    let reasons: Vec<Value> =
        members(&format!("{path}?verbose=true")).iter().map(|it| it["reason"].clone()).collect();
    let (lone, near) =
        (reasons.iter().find(|it| !it.is_null()), reasons.iter().filter(|it| it.is_null()).count());
    assert!(lone.unwrap().as_str().unwrap().contains("no router joins its subnet"), "{reasons:?}");
    assert_eq!(near, 1);
    assert!(members(&path).iter().all(|it| it.get("reason").is_none()), "Octavia's keys only");
}

#[test]
fn scenario_33_a_member_that_is_off_gets_no_traffic() {
    let served = Served::new();
    let member = json!({"address": "10.0.0.107", "protocol_port": 80, "admin_state_up": false});
    let member = served.site.make(&served.path(), "member", member);
    let path = format!("{}/{member}", served.path());
    let state = || served.site.get(&path)["member"]["operating_status"].clone();
    assert_eq!((served.backends(), state()), (vec![], json!("OFFLINE")));
    served.site.set(&path, json!({"member": {"admin_state_up": true}}));
    assert_eq!((served.backends(), state()), (vec!["10.0.0.107:80".to_owned()], json!("NO_MONITOR")));
}

#[test]
fn scenario_34_and_35_a_batch_is_all_or_nothing() {
    let served = Served::new();
    let site = &served.site;
    let member = |last: u8| json!({"address": format!("10.0.0.{last}"), "protocol_port": 80});
    let batch = |members: Value| site.ask("PUT", &served.path(), Some(json!({ "members": members })));
    assert_eq!(batch(json!([member(1), member(2)])).status, 202);
    site.settled();
    let before = served.members();

    let mut second = member(2);
    second["weight"] = json!(2);
    assert_eq!(batch(json!([second, member(3)])).status, 202);
    site.settled();
    let after = served.members();
    assert_eq!(after.keys().collect::<Vec<_>>(), ["10.0.0.2", "10.0.0.3"]);
    assert_eq!(after["10.0.0.2"], before["10.0.0.2"], "it keeps its id");
    assert_eq!(served.backends(), ["10.0.0.2:80", "10.0.0.2:80", "10.0.0.3:80"]);

    let additive = format!("{}?additive_only=true", served.path());
    assert_eq!(site.ask("PUT", &additive, Some(json!({"members": [member(4)]}))).status, 202);
    site.settled();
    assert_eq!(served.members().len(), 3);

    // The same batch again changes nothing.
    let row = site.row(&served.balancer);
    let same = json!([second, member(3), member(4)]);
    assert_eq!(batch(same).status, 202);
    assert_eq!(site.unsettled(), [].into(), "nothing is pending");
    site.cloud.converged();
    assert_eq!(site.row(&served.balancer), row);

    // One invalid member makes the server reject the whole batch.
    for (bad, status) in [
        (json!({"address": "nowhere", "protocol_port": 80}), 400),
        (json!({"address": "fd00::1", "protocol_port": 80}), 501),
        (json!({"address": "10.0.0.9", "protocol_port": 80, "monitor_port": 1}), 501),
        (member(5), 400),
    ] {
        let answer = batch(json!([member(5), bad]));
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(served.members().len(), 3);
    }
    assert_eq!(site.row(&served.balancer), row);
}

#[test]
fn scenario_36_a_thousand_members_are_one_request() {
    let served = Served::new();
    let site = &served.site;
    let quota = json!({"quota": {"member": 1000}});
    assert_eq!(site.ask("PUT", "quotas/fake_project_id", Some(quota)).status, 202);
    let address = |n: u32| format!("10.0.{}.{}", n / 250, n % 250 + 1);
    let member = |n: u32| json!({"address": address(n), "protocol_port": 80, "subnet_id": site.s1});
    let members: Vec<Value> = (0..1000).map(member).collect();
    let path = served.path();
    assert_eq!(site.ask("PUT", &path, Some(json!({ "members": members }))).status, 202);
    site.settled();
    let expected: Vec<String> = (0..1000).map(|n| format!("{}:80", address(n))).collect();
    assert_eq!(served.backends(), expected, "in the order of their creation");

    let mut seen = Vec::new();
    let mut next = Some(format!("{path}?limit=300"));
    while let Some(page) = next {
        let body = site.get(&page);
        seen.extend(body["members"].as_array().unwrap().iter().map(id));
        let links = body["members_links"].as_array().unwrap();
        let link = links.iter().find(|link| link["rel"] == "next");
        next = link.map(|link| link["href"].as_str().unwrap().split_once("/lbaas/").unwrap().1.to_owned());
    }
    assert_eq!(seen.len(), 1000);
    let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), 1000);

    let extra = json!({"member": {"address": "10.0.9.1", "protocol_port": 80, "subnet_id": site.s1}});
    let (status, text) = site.refusal("POST", &path, extra);
    assert_eq!((status, text.as_str()), (403, "Quota has been met for resources: Member"));
    site.delete(&format!("loadbalancers/{}?cascade=true", served.balancer));
    assert_eq!(site.cloud.rows("Load_Balancer").len(), 0);
    assert_eq!(site.get("pools")["pools"], json!([]));
}

#[test]
fn scenario_37_weights_are_repetitions_and_zero_drains() {
    let served = Served::new();
    let member = |last: u8, weight: u8| {
        let member = json!({"address": format!("10.0.0.{last}"), "protocol_port": 80, "weight": weight});
        served.site.make(&served.path(), "member", member)
    };
    let (_, heavy) = (member(1, 1), member(2, 3));
    let count = |address: &str| served.backends().iter().filter(|backend| *backend == address).count();
    assert_eq!((count("10.0.0.1:80"), count("10.0.0.2:80")), (1, 3));
    let path = format!("{}/{heavy}", served.path());
    served.site.set(&path, json!({"member": {"weight": 0}}));
    assert_eq!(served.backends(), ["10.0.0.1:80"]);
    assert_eq!(served.site.get(&path)["member"]["operating_status"], "DRAINING");
    served.site.set(&path, json!({"member": {"weight": null}}));
    assert_eq!(served.site.get(&path)["member"]["weight"], 1);
    assert_eq!((count("10.0.0.1:80"), count("10.0.0.2:80")), (1, 1));
}

#[test]
fn each_request_is_one_northbound_transaction() {
    let served = Served::new();
    served.site.cloud.converged();
    let mut journal = Journal::of(&served.site.cloud);
    for last in 0..20 {
        served.site.member(&served.pool, &format!("10.0.0.{}", 100 + last), &served.site.s1);
    }
    served.site.cloud.converged();
    let written = journal.next();
    assert_eq!(written.len(), 20, "{written:#?}");
}
