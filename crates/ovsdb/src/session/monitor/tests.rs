use serde_json::json;

use super::*;
use crate::wire::clause::{Clause, Function};

fn only(n: i64) -> AnyCondition {
    AnyCondition::Any(vec![Clause::new("n", Function::Equal, crate::wire::atom::Atom::Integer(n))])
}

fn conditions() -> Conditions {
    Conditions::new([("A".into(), AnyCondition::All), ("B".into(), only(1))])
}

fn asked(conditions: &Conditions, table: &str) -> serde_json::Value {
    serde_json::to_value(conditions.asked(table)).unwrap()
}

#[test]
fn what_is_set_is_requested_once_and_then_in_force() {
    let mut c = conditions();
    assert_eq!(c.set("C", AnyCondition::All), None);
    assert_eq!(c.set("A", AnyCondition::All), Some(CondSeq(0)), "in force already");
    assert_eq!(c.take_change(), None);
    assert_eq!(c.set("A", only(1)), Some(CondSeq(1)));
    assert_eq!(c.set("A", only(1)), Some(CondSeq(1)));
    assert_eq!(c.set("B", AnyCondition::None), Some(CondSeq(2)));
    let change = c.take_change().unwrap();
    assert_eq!(change, [("A".into(), only(1)), ("B".into(), AnyCondition::None)].into());
    // There is one request at a time; later changes wait.
    assert_eq!(c.set("A", only(2)), Some(CondSeq(3)));
    assert_eq!(c.take_change(), None);
    assert_eq!(c.ack(), Some(CondSeq(2)));
    assert_eq!(c.acked(), CondSeq(2));
    assert_eq!(c.take_change(), Some([("A".into(), only(2))].into()));
    assert_eq!(c.ack(), Some(CondSeq(3)));
    assert_eq!(c.ack(), None);
    assert_eq!(c.take_change(), None);
}

#[test]
fn a_connection_lost_with_a_change_in_flight_leaves_nothing_certain() {
    let mut c = conditions();
    c.set("A", only(1));
    assert!(!c.lost(), "not sent: the replica is what it was");
    assert_eq!(asked(&c, "A"), json!([true]), "a resumption is under what is in force");
    c.take_change();
    c.set("B", only(7));
    assert!(c.lost());
    c.take_all();
    assert_eq!(asked(&c, "A"), json!([["n", "==", 1]]));
    assert_eq!(asked(&c, "B"), json!([["n", "==", 7]]));
    assert_eq!(c.ack(), Some(CondSeq(2)));
}

#[test]
fn what_was_set_after_a_lost_request_wins_over_it() {
    let mut c = conditions();
    c.set("A", only(1));
    c.take_change();
    c.set("A", only(2));
    assert!(c.lost());
    c.take_all();
    assert_eq!(asked(&c, "A"), json!([["n", "==", 2]]));
}

#[test]
fn a_refused_change_is_dropped_and_holds_nothing_up() {
    let mut c = conditions();
    c.set("A", only(1));
    c.take_change();
    assert_eq!(c.refuse(), Some(CondSeq(1)));
    assert_eq!(asked(&c, "A"), json!([true]));
    assert_eq!(c.take_change(), None);
    assert_eq!(c.set("A", only(1)), Some(CondSeq(2)), "may be tried again");
    assert!(c.take_change().is_some());
}

#[test]
fn requests_look_like_the_protocol_has_them() {
    let monitored = [
        MonitoredTable { table: "A".into(), columns: vec!["x".into()], condition: AnyCondition::All },
        MonitoredTable { table: "B".into(), columns: vec![], condition: AnyCondition::All },
    ];
    let show =
        |method, id| serde_json::to_value(request("d", "m", method, &monitored, &conditions(), id)).unwrap();
    let tables = json!({"A": [{"columns": ["x"]}], "B": [{"columns": [], "where": [["n", "==", 1]]}]});
    let nil = "00000000-0000-0000-0000-000000000000";
    assert_eq!(show(Method::CondSince, None), json!(["d", "m", tables, nil]));
    let one = Uuid::from_u128(1);
    assert_eq!(show(Method::CondSince, Some(one)), json!(["d", "m", tables, one.to_string()]));
    assert_eq!(show(Method::Cond, None), json!(["d", "m", tables]));
    let plain = json!({"A": [{"columns": ["x"]}], "B": [{"columns": []}]});
    assert_eq!(show(Method::Monitor, None), json!(["d", "m", plain]));
    let shown = serde_json::to_value(change("m", &[("A".into(), AnyCondition::Any(vec![]))].into())).unwrap();
    assert_eq!(shown, json!(["m", "m", {"A": [{"where": [false]}]}]), "no clause is no row, not every row");
}
