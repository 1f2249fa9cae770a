//! Tests the rules of lists, on networks.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::Fault;
use crate::model::{Network, Standard};
use crate::report::Report;
use crate::resource::RenderedObject;
use crate::resource::fixture::{id, network, txn};
use crate::resource::network::Networks;
use crate::resource::of;
use crate::world::Outside;
use crate::{Caller, World};

fn named(n: u128, name: &str, mtu: u32) -> Network {
    let mut network = Network { name: name.into(), mtu, ..network(n, "p") };
    network.standard = Standard::new(jiff::Timestamp::from_second(n as i64).unwrap(), "");
    network
}

/// Five networks, b B a c and one without a name, of two projects; the fourth is external.
fn world() -> World {
    let mut txn = txn();
    txn.put(named(1, "b", 1000));
    txn.put(Network { project: "q".into(), ..named(2, "B", 900) });
    let mut tagged = named(3, "a", 1100);
    tagged.standard.tags = BTreeSet::from(["red".into(), "blue".into()]);
    txn.put(tagged);
    let mut tagged = Network { external: true, project: "q".into(), ..named(4, "c", 1000) };
    tagged.standard.tags = BTreeSet::from(["red".into()]);
    txn.put(tagged);
    txn.put(Network { dns_domain: "x.".into(), admin_state_up: false, ..named(5, "", 1000) });
    txn.finish().0
}

fn query(text: &str) -> Result<Query, Fault> {
    of::<Networks>().query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
}

fn list_by(caller: &Caller, world: &World, text: &str) -> Result<Page, Fault> {
    let (report, outside) = (Report::default(), Outside::default());
    let scene = Scene {
        world,
        report: &report,
        outside: &outside,
        caller,
        now: jiff::Timestamp::UNIX_EPOCH,
        parent: None,
    };
    of::<Networks>().list(&scene, &query(text)?)
}

fn list(world: &World, text: &str) -> Result<Page, Fault> {
    list_by(&Caller::admin("p"), world, text)
}

/// The numbers of the listed networks.
fn numbers(page: &Page) -> Vec<u128> {
    let number = |shown: RenderedObject| {
        let object = shown.into_value();
        Uuid::try_parse(object["id"].as_str().unwrap()).unwrap().as_u128() - id(0).as_u128()
    };
    page.items.iter().map(number).collect()
}

#[test]
fn filters_are_alternatives_within_a_key_and_conditions_across() {
    let world = world();
    let (one, three) = (id(1), id(3));
    for (text, expected) in [
        ("", vec![1, 2, 3, 4, 5]),
        ("name=b", vec![1]),
        ("name=b&name=a", vec![1, 3]),
        ("name=b&name=a&mtu=1100", vec![3]),
        ("name=", vec![5]),
        ("name=nobody", vec![]),
        ("tenant_id=q", vec![2, 4]),
        ("project_id=q&tenant_id=q", vec![2, 4]),
        ("project_id=", vec![]),
        ("router:external=True", vec![4]),
        ("router%3Aexternal=0", vec![1, 2, 3, 5]),
        ("admin_state_up=false", vec![5]),
        (&format!("id={one}&id={three}&id=junk"), vec![1, 3]),
        (&format!("id={}", one.to_string().to_uppercase()), vec![1]),
        ("provider:physical_network=", vec![1, 2, 3, 4, 5]),
        ("provider:physical_network=phy1", vec![]),
        ("tags=red", vec![3, 4]),
        ("tags=red,blue", vec![3]),
        ("tags-any=blue,green", vec![3]),
        ("not-tags=red,blue", vec![1, 2, 4, 5]),
        ("not-tags-any=red,blue", vec![1, 2, 5]),
        ("changed_since=1970-01-01T00:00:04Z", vec![4, 5]),
        ("changed_since=1970-01-01T00:00:05", vec![5]),
        ("wait=ovn", vec![1, 2, 3, 4, 5]),
    ] {
        assert_eq!(numbers(&list(&world, text).unwrap()), expected, "{text}");
    }
}

#[test]
fn nonsense_in_queries_is_refused() {
    let world = world();
    for (text, expected) in [
        ("colour=red", "['colour'] is invalid attribute for filtering"),
        ("colour=red&size=2", "['colour', 'size'] is invalid attribute for filtering"),
        (
            "admin_state_up=maybe",
            "Invalid input for admin_state_up. Reason: 'maybe' cannot be converted to boolean.",
        ),
        ("mtu=big", "Invalid input for mtu. Reason: 'big' is not an integer."),
        ("project_id=p&tenant_id=q", "'project_id' and 'tenant_id' do not match"),
        ("limit=-1", "Limit must be an integer 0 or greater and not '-1'"),
        ("limit=x", "Limit must be an integer 0 or greater and not 'x'"),
        (
            "sort_key=name&sort_dir=up",
            "['up'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'",
        ),
        ("sort_key=name&sort_key=id&sort_dir=asc", "The number of sort_keys and sort_dirs must be same"),
        ("sort=name:asc", "['sort'] is invalid attribute for filtering"),
        (
            "admin_state_up=yes",
            "Invalid input for admin_state_up. Reason: 'yes' cannot be converted to boolean.",
        ),
        ("sort_key=name", "The number of sort_keys and sort_dirs must be same"),
        ("sort_dir=asc", "The number of sort_keys and sort_dirs must be same"),
        ("sort_key=colour&sort_dir=asc", "['colour'] is invalid attribute for sort_keys"),
        ("sort_key=subnets&sort_dir=asc", "['subnets'] is invalid attribute for sort_keys"),
        (
            "changed_since=yesterday",
            "Invalid input for changed_since. Reason: 'yesterday' is not a time such as 2026-01-31T12:00:00Z.",
        ),
        ("page_reverse=x", "Invalid input for page_reverse. Reason: 'x' cannot be converted to boolean."),
    ] {
        let fault = list(&world, text).unwrap_err();
        assert_eq!((fault.status, fault.message.as_str()), (400, expected), "{text}");
    }
    let fault = list(&world, "limit=1&marker=nobody").unwrap_err();
    assert_eq!((fault.status, fault.kind), (404, "NetworkNotFound"));
}

#[test]
fn order_ignores_case_and_ends_with_the_id() {
    let world = world();
    for (text, expected) in [
        ("sort_key=name&sort_dir=asc", [5, 3, 1, 2, 4]),
        ("sort_key=name&sort_dir=desc", [4, 1, 2, 3, 5]),
        ("sort_key=mtu&sort_dir=asc", [2, 1, 4, 5, 3]),
        ("sort_key=mtu&sort_dir=asc&sort_key=name&sort_dir=desc", [2, 4, 1, 5, 3]),
        ("sort_key=id&sort_dir=desc", [5, 4, 3, 2, 1]),
        ("sort_key=admin_state_up&sort_dir=asc", [5, 1, 2, 3, 4]),
        ("sort_key=provider:physical_network&sort_dir=asc", [1, 2, 3, 4, 5]),
    ] {
        assert_eq!(numbers(&list(&world, text).unwrap()), expected, "{text}");
    }
}

#[test]
fn fields_trim_and_unknown_ones_select_nothing() {
    let page = list(&world(), "fields=name&fields=mtu&fields=colour&name=a").unwrap();
    assert_eq!(page.items.as_bytes(), br#"{"name":"a","mtu":1100}"#);
}

#[test]
fn a_hidden_attribute_is_like_nothing() {
    let world = world();
    let member = Caller::member("p");
    let page = list_by(&member, &world, "provider:network_type=geneve").unwrap();
    assert!(page.items.is_empty(), "a filter must not tell what the caller may not see");
    assert_eq!(
        numbers(&list_by(&member, &world, "sort_key=provider:segmentation_id&sort_dir=desc").unwrap()),
        [1, 3, 4, 5]
    );
    let first = list_by(&member, &world, "").unwrap().items.iter().next().unwrap().into_value();
    assert!(first.get("provider:network_type").is_none());
}

#[test]
fn scenario_06_pages_forth_and_back_visit_each_once_in_order() {
    let world = world();
    for order in
        ["", "&sort_key=name&sort_dir=desc", "&sort_key=id&sort_dir=desc", "&sort_key=mtu&sort_dir=asc"]
    {
        let all = numbers(&list(&world, &order.replacen('&', "", 1)).unwrap());
        let mut page = list(&world, &format!("limit=2{order}")).unwrap();
        let mut seen = numbers(&page);
        let link =
            |page: &Page, rel| page.links.iter().find(|(it, _)| *it == rel).map(|(_, query)| query.clone());
        while let Some(next) = link(&page, "next") {
            page = list(&world, &next).unwrap();
            seen.extend(numbers(&page));
        }
        assert_eq!(seen, all, "{order}");
        assert_eq!(page.items.len(), 1, "the last page is short and has no next");
        let mut back = numbers(&page);
        while let Some(previous) = link(&page, "previous") {
            assert!(previous.ends_with("page_reverse=True"), "{previous}");
            page = list(&world, &previous).unwrap();
            back = [numbers(&page), back].concat();
        }
        assert_eq!(back, all, "{order}");
    }
}

#[test]
fn an_operator_can_cap_pages_and_zero_means_no_pages() {
    let world = world();
    assert_eq!(list(&world, "limit=0").unwrap().links, []);
    let mut outside = Outside::default();
    outside.settings.pagination_max_limit = Some(2);
    let caller = Caller::admin("p");
    let report = Report::default();
    let scene = Scene {
        world: &world,
        report: &report,
        outside: &outside,
        caller: &caller,
        now: jiff::Timestamp::UNIX_EPOCH,
        parent: None,
    };
    for text in ["", "limit=0", "limit=4"] {
        let page = of::<Networks>().list(&scene, &query(text).unwrap()).unwrap();
        assert_eq!(page.items.len(), 2, "{text}");
    }
    let empty = list(&world, "limit=2&name=nobody").unwrap();
    assert_eq!(empty.links, [("previous", "limit=2&name=nobody&page_reverse=True".to_owned())]);
}

proptest! {
    /// Links only save work: with any filters, the result equals that of a scan of all objects.
    #[test]
    fn links_find_what_a_scan_finds(
        names in proptest::collection::vec("[ab]", 0..3),
        projects in proptest::collection::vec("[pq]", 0..2),
        ids in proptest::collection::vec(1..7u128, 0..3),
    ) {
        let world = world();
        let mut text = form_urlencoded::Serializer::new(String::new());
        for name in &names { text.append_pair("name", name); }
        for project in &projects { text.append_pair("project_id", project); }
        for n in &ids { text.append_pair("id", &id(*n).to_string()); }
        let found = numbers(&list(&world, &text.finish()).unwrap());
        let scan: Vec<u128> = (1..6u128)
            .filter(|n| {
                let network = world.get::<Network>(&id(*n)).unwrap();
                (names.is_empty() || names.contains(&network.name))
                    && (projects.is_empty() || projects.contains(&network.project))
                    && (ids.is_empty() || ids.contains(n))
            })
            .collect();
        prop_assert_eq!(found, scan);
    }

    /// No query makes a list panic.
    #[test]
    fn any_query_is_answered_or_refused(text in "[a-z_=&:%0-9,-]{0,60}") {
        let caller = Caller::member("p");
        let world = world();
        if let Ok(query) = query(&text) {
            let (report, outside) = (Report::default(), Outside::default());
            let scene = Scene { world: &world, report: &report, outside: &outside, caller: &caller, now: jiff::Timestamp::UNIX_EPOCH, parent: None };
            if let Err(fault) = of::<Networks>().list(&scene, &query) {
                prop_assert!(fault.status == 400 || fault.status == 404);
            }
        }
    }
}
