//! Scenarios 61 to 65: extra routes, BFD settings, quotas, gateways without a chassis, and disabled routers.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually};
use crate::journal::{Journal, Kind};
use crate::site::{GATEWAY, Site, internal};
use crate::world::id;

#[test]
fn scenario_61_two_next_hops_for_one_destination_share_the_traffic() {
    let cloud = Cloud::start();
    let (_, subnet) = internal(&cloud, "net", "10.0.0.0/24");
    let router = json!({"name": "R", "enable_default_route_bfd": true});
    let router = id(&cloud.create("routers", "router", router));
    cloud.put(&format!("routers/{router}/add_router_interface"), json!({"subnet_id": subnet}));
    for hop in ["10.0.0.10", "10.0.0.11"] {
        cloud
            .openstack(&format!("router add route --route destination=203.0.113.0/24,gateway={hop} R"))
            .unwrap();
    }
    let shown = |cloud: &Cloud| {
        let routes = cloud.get(&format!("routers/{router}"))["router"]["routes"].as_array().unwrap().clone();
        routes.iter().map(|route| route["nexthop"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let both: BTreeSet<String> = ["10.0.0.10".to_owned(), "10.0.0.11".to_owned()].into();
    assert_eq!(shown(&cloud), both);
    let rows = eventually("both routes are there", || {
        Some(cloud.rows("Logical_Router_Static_Route")).filter(|rows| rows.len() == 2)
    });
    for row in &rows {
        assert_eq!(row["ip_prefix"], "203.0.113.0/24");
        assert_eq!(row["external_ids"]["neutron:is_static_route"], "true");
        assert_eq!(row["bfd"], json!([]));
    }
    assert_eq!(cloud.rows("BFD").len(), 0);
    cloud.nbctl("--wait=sb sync");
    let flows = cloud.sbctl(&format!("lflow-list neutron-{router}"));
    let members = |hop: &str| {
        let ecmp = flows.lines().filter(|line| line.contains("lr_in_ip_routing_ecmp"));
        ecmp.filter(|line| line.contains(&format!("reg0 = {hop};"))).count()
    };
    assert_eq!((members("10.0.0.10"), members("10.0.0.11")), (1, 1), "northd makes a group of both");

    // A route that already exists is no error and changes nothing.
    let revision = cloud.get(&format!("routers/{router}"))["router"]["revision_number"].clone();
    let again = json!({"router": {"routes": [{"destination": "203.0.113.0/24", "nexthop": "10.0.0.10"}]}});
    let answer = cloud.put(&format!("routers/{router}/add_extraroutes"), again.clone());
    assert_eq!(answer["router"]["routes"].as_array().unwrap().len(), 2);
    assert_eq!(answer["router"]["revision_number"], revision);
    cloud.put(&format!("routers/{router}/remove_extraroutes"), again);
    assert_eq!(shown(&cloud), ["10.0.0.11".to_owned()].into());
    let left = eventually("one route is left", || {
        Some(cloud.rows("Logical_Router_Static_Route")).filter(|rows| rows.len() == 1)
    });
    assert_eq!(left[0]["nexthop"], "10.0.0.11");
}

#[test]
fn scenario_62_numbers_of_bfd_are_columns_of_every_session() {
    let numbers = "[network]\nbfd_min_tx = 300\nbfd_min_rx = 0\nbfd_detect_mult = 3\n";
    let mut site = Site::with_three(Cloud::configured(numbers));
    let router = json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true});
    site.router(router, &[&site.n1, &site.n2]);
    let sessions = site.cloud.rows("BFD");
    assert_eq!(sessions.len(), 2);
    for row in &sessions {
        assert_eq!(
            (&row["min_tx"], &row["min_rx"], &row["detect_mult"]),
            (&json!(300), &json!(0), &json!(3))
        );
    }
    let uuids = |rows: &[Value]| rows.iter().map(|row| row["_uuid"].to_string()).collect::<BTreeSet<_>>();
    site.cloud.stop();
    site.cloud.configure("");
    site.cloud.again();
    let cleared = eventually("the columns are empty", || {
        let rows = site.cloud.rows("BFD");
        let empty =
            |row: &Value| ["min_tx", "min_rx", "detect_mult"].iter().all(|name| row[name] == json!([]));
        rows.iter().all(empty).then_some(rows)
    });
    assert_eq!(uuids(&cleared), uuids(&sessions), "the same rows");
    for wrong in ["bfd_min_tx = 0", "bfd_detect_mult = 0"] {
        site.cloud.stop();
        site.cloud.configure(&format!("[network]\n{wrong}\n"));
        let complaint = site.cloud.does_not_start();
        let key = wrong.split(' ').next().unwrap();
        assert!(complaint.contains(key) && complaint.contains("at least 1"), "{complaint}");
        site.cloud.configure("");
        site.cloud.again();
    }
}

#[test]
fn scenario_63_quotas_hold_routers_and_routes_and_leave_gateways_alone() {
    let site = Site::with_three(Cloud::start());
    let cloud = &site.cloud;
    let quota = |limits: Value| cloud.put("quotas/fake_project_id", json!({"quota": limits}));
    let used = || cloud.get("quotas/fake_project_id/details")["quota"].clone();
    let ports = used()["port"]["used"].clone();
    quota(json!({"router": 1, "port": 0}));
    // Gateway ports and the ports that hold their addresses do not count in the project's quota.
    let router = site.router(json!({"name": "R"}), &[&site.n1, &site.n2]);
    let refused = cloud.ask("POST", "/v2.0/routers", Some(json!({"router": {"name": "second"}})));
    assert_eq!(
        (refused.status, &refused.body["NeutronError"]["type"]),
        (409, &json!("OverQuota")),
        "{refused:?}"
    );
    let port = cloud.ask("POST", "/v2.0/ports", Some(json!({"port": {"network_id": site.n1}})));
    assert_eq!((port.status, &port.body["NeutronError"]["type"]), (409, &json!("OverQuota")), "{port:?}");

    quota(json!({"router": 2, "router_route": 2}));
    let other = site.router(json!({"name": "other"}), &[&site.n1]);
    let routes = |count: u8| -> Value {
        (0..count)
            .map(|n| json!({"destination": format!("203.0.{n}.0/24"), "nexthop": "192.0.2.77"}))
            .collect()
    };
    for router in [&router, &other] {
        cloud.put(&format!("routers/{router}"), json!({"router": {"routes": routes(2)}}));
    }
    let body = json!({"router": {"routes": routes(3)}});
    let refused = cloud.ask("PUT", &format!("/v2.0/routers/{router}"), Some(body));
    assert_eq!(
        (refused.status, &refused.body["NeutronError"]["type"]),
        (409, &json!("OverQuota")),
        "{refused:?}"
    );
    let kept = cloud.get(&format!("routers/{router}"))["router"]["routes"].as_array().unwrap().len();
    assert_eq!(kept, 2);
    let used = used();
    assert_eq!((&used["router"]["used"], &used["port"]["used"]), (&json!(2), &ports), "{used}");
}

#[test]
fn scenario_64_a_gateway_that_nobody_hosts_gives_no_route_while_another_is_hosted() {
    let site = Site::new(Cloud::start(), &[("ch1", &["phy1"], GATEWAY), ("ch2", &["phy2"], GATEWAY)]);
    let router = site.router(json!({"name": "R", "enable_default_route_ecmp": true}), &[&site.n1, &site.n2]);
    let ids: Vec<_> =
        site.gateway_ports(&router).iter().map(|port| port["id"].as_str().unwrap().to_owned()).collect();
    site.bind(&ids[0], "ch1");
    site.bind(&ids[1], "ch2");
    let routes = |what: &str, through: &[&String]| {
        let expected: BTreeSet<String> = through.iter().map(|id| format!("lrp-{id}")).collect();
        eventually(what, || {
            let rows = site.cloud.rows("Logical_Router_Static_Route");
            let out: BTreeSet<_> =
                rows.iter().map(|row| row["output_port"].as_str().unwrap().to_owned()).collect();
            (out == expected).then_some(())
        });
    };
    routes("both give a route", &[&ids[0], &ids[1]]);
    // The only chassis with the gateway's physical network is removed.
    site.cloud.sbctl("chassis-del ch1");
    let begin = Instant::now();
    routes("the one that nobody hosts gives none", &[&ids[1]]);
    println!("its route was gone after {:?}", begin.elapsed());
    let shown = site.cloud.get(&format!("routers/{router}/gateway_status"));
    assert_eq!(shown["gateway_status"][0]["chassis"], Value::Null);
    assert_eq!(shown["gateway_status"][0]["routes"][0]["installed"], false);
    site.cloud.chassis("ch1", &["phy1"], GATEWAY);
    site.bind(&ids[0], "ch1");
    routes("both give a route again", &[&ids[0], &ids[1]]);
    // If no gateway has a chassis, all routes stay, because there is no better one.
    site.cloud.sbctl("chassis-del ch1");
    routes("one gives none", &[&ids[1]]);
    site.cloud.sbctl("chassis-del ch2");
    routes("both give a route, hosted or not", &[&ids[0], &ids[1]]);
}

#[test]
fn scenario_65_a_router_that_is_off_changes_one_column() {
    let site = Site::with_three(Cloud::start());
    let router = json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true});
    let router = site.router(router, &[&site.n1, &site.n2]);
    site.cloud.converged();
    let mut journal = Journal::of(&site.cloud);
    for up in [false, true] {
        let path = format!("routers/{router}?wait=ovn");
        site.cloud.put(&path, json!({"router": {"admin_state_up": up}}));
        let row = site.cloud.rows("Logical_Router").remove(0);
        assert_eq!(row["enabled"], up);
        let written = journal.next();
        let [transaction] = written.as_slice() else { panic!("one transaction: {written:?}") };
        let [change] = transaction.0.as_slice() else { panic!("one row: {transaction:?}") };
        assert_eq!((change.kind, change.table.as_str()), (Kind::Modify, "Logical_Router"));
        // The revision is an external id.
        assert_eq!(change.columns, ["enabled".to_owned(), "external_ids".to_owned()].into());
    }
}
