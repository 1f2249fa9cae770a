//! Lists: pages, order and booleans in Octavia's grammar.

use std::collections::BTreeSet;

use super::*;
use crate::resource::fixture::subnet;

/// A cloud with many load balancers. Their names repeat, so that pages end between two of one name.
fn crowd(count: usize) -> Cloud {
    let mut cloud = Cloud::new();
    let put = |txn: &mut Txn, _: &ChangeRequest<'_>| {
        txn.put(subnet(9, 1, "10.64.0.0/16"));
        txn.put(QuotaSet { project: "p".to_owned(), limits: [("port".to_owned(), -1)].into() });
        Ok(())
    };
    cloud.run((None, ""), put).unwrap();
    for n in 0..count {
        // A hundred are created in the same second.
        cloud.now = START + n as i64 / 100;
        let balancer =
            json!({"name": format!("lb{}", n % 7), "vip_subnet_id": id(9), "admin_state_up": n % 5 != 0});
        cloud.create("loadbalancers", balancer).unwrap();
    }
    cloud
}

/// Follows a list by its links. Returns the ids in order.
fn walk(cloud: &Cloud, first: &str, direction: &str) -> Vec<String> {
    let (mut found, mut query) = (Vec::new(), first.to_owned());
    loop {
        let page = cloud.page("loadbalancers", &query).unwrap();
        let ids: Vec<String> = page.items.iter().map(|item| text(&item.into_value()["id"])).collect();
        let is_reverse = direction == "previous";
        found.splice(if is_reverse { 0..0 } else { found.len()..found.len() }, ids.iter().cloned());
        match page.links.into_iter().find(|(rel, _)| *rel == direction) {
            Some((_, next)) if !ids.is_empty() => query = next,
            _ => return found,
        }
    }
}

#[test]
fn scenario_59_pages_of_2500_load_balancers_have_each_once() {
    let cloud = crowd(2500);
    let all: BTreeSet<String> =
        cloud.world.table::<LoadBalancer>().iter().map(|it| it.id.to_string()).collect();
    assert_eq!(all.len(), 2500);
    for query in ["", "limit=5000", "limit=infinite"] {
        let page = cloud.page("loadbalancers", query).unwrap();
        let rels: Vec<_> = page.links.iter().map(|(rel, _)| *rel).collect();
        assert_eq!((page.items.len(), rels), (1000, vec!["next"]), "{query}");
    }
    for query in [
        "",
        "limit=5000",
        "limit=1000",
        "limit=333&sort=name:desc",
        "limit=250&sort_key=name",
        "limit=499&admin_state_up=t",
    ] {
        let walked = walk(&cloud, query, "next");
        let expected = if query.contains("admin_state_up") { 2000 } else { 2500 };
        assert_eq!(walked.len(), expected, "{query}");
        let distinct: BTreeSet<String> = walked.iter().cloned().collect();
        assert_eq!(distinct.len(), expected, "{query}: one twice");
        assert!(distinct.is_subset(&all), "{query}");
        let last = walked.last().unwrap();
        let back = walk(&cloud, &format!("{query}&marker={last}&page_reverse=True"), "previous");
        assert_eq!(back, walked[..walked.len() - 1], "{query} backwards");
    }
}

#[test]
fn sort_keys_and_directions_are_comma_lists_and_keys_go_up() {
    let mut cloud = Cloud::new();
    for (name, description) in [("b", "1"), ("a", "2"), ("c", "1")] {
        let balancer = json!({"name": name, "description": description, "vip_subnet_id": id(2)});
        cloud.create("loadbalancers", balancer).unwrap();
    }
    for (query, expected) in [
        ("sort_key=name", "abc"),
        ("sort_key=name&sort_dir=desc", "cba"),
        ("sort_key=name&sort_dir=DESC", "cba"),
        ("sort_key=description,name&sort_dir=desc", "abc"),
        ("sort_key=description,name&sort_dir=asc,desc", "cba"),
        ("sort_key=description&sort_key=name&sort_dir=asc&sort_dir=desc", "cba"),
        ("sort_key=name&sort_dir=asc,up", "abc"),
        ("sort=name:desc&sort_key=name", "cba"),
        ("sort=name:DESC", "cba"),
    ] {
        assert_eq!(cloud.names("loadbalancers", query).concat(), expected, "{query}");
    }
    for (query, refusal) in [
        ("sort_key=colour", "Supplied sort key 'colour' is not valid."),
        ("sort_key=name&sort_dir=up", "Supplied sort direction 'up' is not valid."),
    ] {
        assert_eq!(cloud.page("loadbalancers", query).map(drop), Err((400, refusal.to_owned())), "{query}");
    }
}

#[test]
fn booleans_are_read_as_octavia_reads_them() {
    let mut cloud = Cloud::new();
    for (name, admin_state_up) in [("on", true), ("off", false)] {
        let balancer = json!({"name": name, "admin_state_up": admin_state_up, "vip_subnet_id": id(2)});
        cloud.create("loadbalancers", balancer).unwrap();
    }
    for (words, expected) in [
        (&["true", "True", "1", "yes", "YES", "on", "t", "y"][..], "on"),
        (&["false", "False", "0", "no", "off", "f", "n", "maybe"][..], "off"),
    ] {
        for word in words {
            assert_eq!(cloud.names("loadbalancers", &format!("admin_state_up={word}")), [expected], "{word}");
        }
    }
}
