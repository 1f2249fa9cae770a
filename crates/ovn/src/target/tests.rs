//! The target against a model of the server, with property tests.

mod model;
mod properties;
mod saving;
mod world;

use std::collections::BTreeSet;

use ovsdb::model::ColumnSet;
use ovsdb::{Ref, Set, Table, Uuid, Weak};
use reconcile::{ObjectId, Problem};

use self::model::Model;
use super::*;
use crate::{ident, nb};

fn object(kind: &str, id: &str) -> ObjectId {
    ObjectId::new(kind, id)
}

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn ownership() -> Ownership {
    Ownership::new("cloud")
}

fn lines(want: &Desired, have: &Model) -> Vec<String> {
    let plan = plan(want, &BTreeSet::new(), have, &ownership(), &Rules::northbound());
    plan.steps.iter().map(|step| format!("{}: {}", step.object, step.op)).collect()
}

fn problems(want: &Desired, have: &Model) -> Vec<Problem> {
    plan(want, &BTreeSet::new(), have, &ownership(), &Rules::northbound()).problems
}

fn switch(name: &str) -> nb::LogicalSwitch {
    nb::LogicalSwitch { name: name.into(), ..Default::default() }
}

#[test]
fn a_port_is_listed_by_its_own_step() {
    let mut want = Desired::new();
    let ports = Set::from([Ref::new(uuid(2))]);
    want.own(object("network", "n"), uuid(1), nb::LogicalSwitch { ports, ..switch("net") });
    let addresses = Set::from([crate::text::Text::new("fa:16:3e:00:00:01 10.0.0.4")]);
    let port = nb::LogicalSwitchPort { name: "p".into(), addresses, ..Default::default() };
    want.own(object("port", "p"), uuid(2), port);
    let mut have = Model::new("26.03");
    assert_eq!(
        lines(&want, &have),
        [
            "port/p: + Logical_Switch_Port 00000000-0000-0000-0000-000000000002 name=p \
             addresses=fa:16:3e:00:00:01 10.0.0.4 external_ids={meridian:object=port/p, meridian:owner=cloud}",
            "network/n: + Logical_Switch 00000000-0000-0000-0000-000000000001 name=net \
             external_ids={meridian:object=network/n, meridian:owner=cloud}",
            "port/p: ~ Logical_Switch 00000000-0000-0000-0000-000000000001 ports + \
             00000000-0000-0000-0000-000000000002",
        ]
    );
    have.run(&want, &ownership());
    assert_eq!(lines(&want, &have), [""; 0]);
}

#[test]
fn keys_and_members_of_others_live_on() {
    let mut have = Model::new("26.03");
    let theirs = nb::LogicalSwitchPort { name: "theirs".into(), ..Default::default() };
    have.put(uuid(9), theirs);
    let mut row = switch("net");
    row.ports = Set::from([Ref::new(uuid(9))]);
    row.other_config = [("theirs".into(), "1".into()), ("mcast_snoop".into(), "true".into())].into();
    row.external_ids = [
        ("meridian:owner".into(), "cloud".into()),
        ("meridian:object".into(), "network/n".into()),
        ("junk".into(), "x".into()),
    ]
    .into();
    have.put(uuid(1), row);
    let mut want = Desired::new();
    let mut row = switch("net");
    row.other_config = [("vlan-passthru".into(), "false".into())].into();
    want.own(object("network", "n"), uuid(1), row);
    assert_eq!(
        lines(&want, &have),
        [
            "network/n: ~ Logical_Switch 00000000-0000-0000-0000-000000000001 other_config + {vlan-passthru=false}",
            "network/n: ~ Logical_Switch 00000000-0000-0000-0000-000000000001 other_config - mcast_snoop",
        ]
    );
}

#[test]
fn keys_of_ours_that_are_wanted_no_more_go_though_all_else_is_as_wanted() {
    let mut want = Desired::new();
    want.own(object("network", "n"), uuid(1), switch("net"));
    let mut have = Model::new("26.03");
    have.run(&want, &ownership());
    have.edit::<nb::LogicalSwitch>(uuid(1), |row| drop(row.external_ids.insert("junk".into(), "x".into())));
    assert_eq!(lines(&want, &have), [""; 0]);
    have.edit::<nb::LogicalSwitch>(uuid(1), |row| {
        row.external_ids.insert("neutron:mtu".into(), "1400".into());
    });
    let row = "network/n: ~ Logical_Switch 00000000-0000-0000-0000-000000000001";
    assert_eq!(lines(&want, &have), [format!("{row} external_ids - neutron:mtu")]);
}

#[test]
fn names_of_a_network_come_and_go_one_by_one() {
    let names = |names: [(&str, &str); 2]| {
        let records = names.map(|(name, address)| (name.into(), address.into())).into();
        let mut want = Desired::new();
        want.own(object("network", "n"), uuid(1), nb::Dns { records, ..Default::default() });
        want
    };
    let mut have = Model::new("26.03");
    have.run(&names([("a", "10.0.0.1"), ("b", "10.0.0.2")]), &ownership());
    let row = "network/n: ~ DNS 00000000-0000-0000-0000-000000000001";
    let want = names([("a", "10.0.0.1"), ("c", "10.0.0.3")]);
    assert_eq!(
        lines(&want, &have),
        [format!("{row} records + {{c=10.0.0.3}}"), format!("{row} records - b")]
    );
    have.run(&want, &ownership());
    assert_eq!(lines(&want, &have), [""; 0]);
}

#[test]
fn an_empty_wish_leaves_somebody_elses_reference() {
    let mut have = Model::new("26.03");
    have.put(uuid(5), nb::Copp { name: "theirs".into(), ..Default::default() });
    let mut want = Desired::new();
    want.own(object("network", "n"), uuid(1), switch("net"));
    have.run(&want, &ownership());
    have.edit::<nb::LogicalSwitch>(uuid(1), |row| row.copp = Some(Weak::new(uuid(5))));
    assert_eq!(lines(&want, &have), [""; 0]);
}

#[test]
fn a_row_goes_only_with_proof() {
    let mut have = Model::new("26.03");
    have.put(uuid(1), switch("unmarked"));
    let mut marked = switch("theirs");
    marked.external_ids = [("meridian:owner".into(), "elsewhere".into())].into();
    have.put(uuid(2), marked);
    let bare = nb::LoadBalancerGroup { name: "bare".into(), ..Default::default() };
    have.put(uuid(3), bare.clone());
    have.put(ident::marked_uuid("elsewhere", "group", "g", ""), bare.clone());
    let mine = ident::marked_uuid("cloud", "group", "g", "");
    have.put(mine, bare);
    assert_eq!(
        lines(&Desired::new(), &have),
        [format!("Load_Balancer_Group/{mine}: - Load_Balancer_Group {mine}")]
    );

    let mut ownership = ownership();
    ownership.record(RowId::of::<nb::LogicalSwitch>(uuid(1)), object("network", "adopted"));
    let plan = plan(&Desired::new(), &BTreeSet::new(), &have, &ownership, &Rules::new());
    assert_eq!(plan.steps.iter().filter(|step| step.object == object("network", "adopted")).count(), 1);
}

#[test]
fn another_deployments_row_is_left_alone_and_reported() {
    let mut have = Model::new("26.03");
    let mut marked = switch("theirs");
    marked.external_ids = [("meridian:owner".into(), "elsewhere".into())].into();
    have.put(uuid(1), marked);
    let mut want = Desired::new();
    want.own(object("network", "n"), uuid(1), switch("ours"));
    assert_eq!(lines(&want, &have), [""; 0]);
    let found = problems(&want, &have);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code, "foreign-row");
}

#[test]
fn a_row_that_cannot_be_read_is_left_alone_and_reported_and_the_rest_is_done() {
    let mut have = Model::new("26.03");
    have.hidden.insert(RowId::of::<nb::LogicalSwitch>(uuid(1)));
    let mut want = Desired::new();
    want.own(object("network", "hidden"), uuid(1), switch("hidden"));
    want.own(object("network", "plain"), uuid(2), switch("plain"));
    let found = problems(&want, &have);
    let told: Vec<_> = found.iter().map(|problem| format!("{} {}", problem.code, problem.object)).collect();
    assert_eq!(told, ["unreadable-row network/hidden"]);
    assert_eq!(
        lines(&want, &have),
        ["network/plain: + Logical_Switch 00000000-0000-0000-0000-000000000002 name=plain \
          external_ids={meridian:object=network/plain, meridian:owner=cloud}"]
    );
    have.run(&want, &ownership());
    assert_eq!(lines(&want, &have), [""; 0], "nothing is tried again");
    // The row is not wanted any more, but a row that cannot be decoded cannot be recognised as ours.
    want = Desired::new();
    want.own(object("network", "plain"), uuid(2), switch("plain"));
    assert_eq!((lines(&want, &have).len(), problems(&want, &have).len()), (0, 0));
}

#[test]
fn what_a_server_cannot_hold_is_left_out_and_reported() {
    let have = Model::new("23.03");
    let mut want = Desired::new();
    let acl = |action: &str, tier| nb::Acl {
        action: action.into(),
        tier,
        matches: "ip".into(),
        ..Default::default()
    };
    let acls = Set::from([Ref::new(uuid(2)), Ref::new(uuid(3))]);
    let group = nb::PortGroup { name: "pg".into(), acls, ..Default::default() };
    want.own(object("sg", "s"), uuid(1), group);
    want.own(object("rule", "tiered"), uuid(2), acl("drop", 2));
    want.own(object("rule", "passing"), uuid(3), acl("pass", 0));
    want.own(
        object("port", "bare"),
        uuid(4),
        nb::LogicalRouterPort { name: "lrp".into(), ..Default::default() },
    );
    let advertised: Vec<_> = problems(&want, &have).iter().map(ToString::to_string).collect();
    assert_eq!(
        advertised,
        [
            "port/bare: networks accepts 1 to any elements, not 0 (unsupported, refused)",
            "rule/passing: action does not accept pass in this OVN (unsupported, refused)",
            "rule/tiered: this OVN has no column tier in ACL (unsupported, refused)",
        ]
    );
    let lines = lines(&want, &have);
    let inserts: Vec<_> = lines.iter().filter(|line| line.contains(": + ")).collect();
    assert_eq!(inserts.len(), 2, "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains("tier") || line.starts_with("rule/tiered")));
    assert!(!lines.iter().any(|line| line.contains("tier=")));
    let refused = uuid(3).to_string();
    assert!(
        !lines.iter().any(|line| line.contains(&refused)),
        "nothing leads to what is not there: {lines:#?}"
    );
}

#[test]
fn rows_that_would_be_lost_or_claimed_twice_are_reported() {
    let have = Model::new("26.03");
    let mut want = Desired::new();
    want.own(object("a", "1"), uuid(1), nb::LoadBalancerGroup { name: "g".into(), ..Default::default() });
    want.own(object("a", "2"), uuid(1), nb::LoadBalancerGroup { name: "h".into(), ..Default::default() });
    let codes: Vec<_> = problems(&want, &have).into_iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["unmarked-row", "row-wanted-twice"]);
    assert_eq!(lines(&want, &have), [""; 0]);
    assert_eq!(want.len(), 1);
}

#[test]
fn undecided_objects_stay_as_they_are() {
    let mut have = Model::new("26.03");
    let mut before = Desired::new();
    let ports = Set::from([Ref::new(uuid(2)), Ref::new(uuid(3))]);
    before.own(object("network", "n"), uuid(1), nb::LogicalSwitch { ports, ..switch("net") });
    for n in [2, 3] {
        let port = nb::LogicalSwitchPort { name: format!("p{n}").into(), ..Default::default() };
        before.own(object("port", &n.to_string()), uuid(n), port);
    }
    let neighbour = ident::marked_uuid("cloud", "port", "2", "neighbour");
    before.own(
        object("port", "2"),
        neighbour,
        nb::StaticMacBinding { logical_port: "p2".into(), ..Default::default() },
    );
    have.run(&before, &ownership());
    let mut want = Desired::new();
    want.own(object("network", "n"), uuid(1), switch("net"));
    let keep = BTreeSet::from([object("port", "2")]);
    let plan = plan(&want, &keep, &have, &ownership(), &Rules::northbound());
    let lines: Vec<_> = plan.steps.iter().map(|step| step.op.to_string()).collect();
    assert_eq!(
        lines,
        [
            "~ Logical_Switch 00000000-0000-0000-0000-000000000001 ports - 00000000-0000-0000-0000-000000000003",
            "- Logical_Switch_Port 00000000-0000-0000-0000-000000000003",
        ],
        "port 2, its place in the switch, and the row that does not tell its object stay"
    );
}

#[test]
fn json_says_what_text_says() {
    let mut want = Desired::new();
    want.own_columns(object("network", "n"), uuid(1), switch("net"), ColumnSet::all::<nb::LogicalSwitch>());
    let have = Model::new("26.03");
    let plan = plan(&want, &BTreeSet::new(), &have, &ownership(), &Rules::new());
    assert_eq!(
        serde_json::to_value(&plan.steps[0].op).unwrap(),
        serde_json::json!({
            "op": "insert", "table": nb::LogicalSwitch::TABLE, "uuid": uuid(1).to_string(),
            "values": {
                "name": "net",
                "external_ids": ["map", [["meridian:object", "network/n"], ["meridian:owner", "cloud"]]],
            },
        })
    );
    assert_eq!((plan.want, plan.have), (1, 0));
}
