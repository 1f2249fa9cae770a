//! Applies plans to a database that misbehaves.

use std::collections::VecDeque;

use ovsdb::Committed;

use super::*;
use crate::nb;
use crate::target::{Ownership, Rules};

/// A database that rejects transactions as the test demands, and records them.
#[derive(Default)]
struct Scripted {
    /// Transactions that contain this string are rejected.
    poison: Option<&'static str>,
    /// The first replies; `None` is success.
    script: VecDeque<Option<CommitError>>,
    asked: Vec<String>,
}

impl Database for Scripted {
    async fn observe(&mut self) -> Result<SnapshotView, TargetError> {
        Err(TargetError::new(Class::Transient, "observe nothing"))
    }

    async fn commit(&mut self, txn: Transaction) -> Result<Committed, CommitError> {
        let text = txn.compose(|_, _| false)?.text;
        self.asked.push(text.clone());
        match (self.script.pop_front(), self.poison) {
            (Some(Some(error)), _) => Err(error),
            (None, Some(poison)) if text.contains(poison) => Err(refused()),
            _ => Ok(Committed::default()),
        }
    }
}

fn refused() -> CommitError {
    CommitError::Refused { op: None, error: "constraint violation".into(), details: "two rows alike".into() }
}

fn row(n: u128) -> RowId {
    RowId::of::<nb::LogicalSwitchPort>(Uuid::from_u128(n))
}

fn text(value: &str) -> Datum {
    Datum::from(Atom::from(value))
}

fn uuid_of(row: RowId) -> Datum {
    Datum::from(Atom::Uuid(row.uuid))
}

/// Ports 1 to `n` in a switch that is made as well.
fn ports(n: u128) -> Plan<Op> {
    let switch = RowId::of::<nb::LogicalSwitch>(Uuid::from_u128(0x100));
    let object = |n: u128| ObjectId::new("port", n.to_string());
    let mut plan = Plan::new(n as usize, 0);
    for n in 1..=n {
        plan.push(
            object(n),
            Op::Insert { row: row(n), values: vec![("name", text(&format!("<port {n}>")))] },
        );
    }
    plan.push(ObjectId::new("network", "1"), Op::Insert { row: switch, values: vec![("name", text("net"))] });
    for n in 1..=n {
        plan.push(object(n), Op::Put { row: switch, column: "ports", elements: uuid_of(row(n)) });
    }
    plan
}

fn target(database: Scripted) -> RowTarget<Scripted> {
    RowTarget::new(database, Ownership::new("cloud"), Rules::new())
}

#[tokio::test]
async fn a_plan_is_one_transaction_with_one_operation_per_changed_row() {
    let mut target = target(Scripted::default()).with_lock("writer");
    let applied = target.apply(&ports(3)).await.unwrap();
    assert!(applied.results.iter().all(|result| matches!(result, StepResult::Done)));
    let [asked] = &target.database().asked[..] else { panic!("one transaction") };
    let ops: Vec<serde_json::Value> = serde_json::from_str(&format!("[{asked}]")).unwrap();
    let words: Vec<_> = ops.iter().map(|op| op["op"].as_str().unwrap()).collect();
    assert_eq!(words, ["assert", "insert", "insert", "insert", "insert", "mutate"]);
    let mutations = serde_json::json!([[
        "ports",
        "insert",
        [
            "set",
            [
                ["uuid", row(1).uuid.to_string()],
                ["uuid", row(2).uuid.to_string()],
                ["uuid", row(3).uuid.to_string()],
            ]
        ]
    ]]);
    assert_eq!(ops[5]["mutations"], mutations);
}

#[tokio::test]
async fn the_refused_object_is_found_and_the_others_are_written() {
    let mut target = target(Scripted { poison: Some("<port 5>"), ..Default::default() });
    let plan = ports(8);
    let applied = target.apply(&plan).await.unwrap();
    for (step, result) in plan.steps.iter().zip(&applied.results) {
        let bad = step.object.id == "5" && step.object.kind == "port";
        assert_eq!(matches!(result, StepResult::Failed(error) if error.class() == Class::Refused), bad);
        assert_eq!(matches!(result, StepResult::Done), !bad, "{}", step.op);
    }
    let asked = &target.database().asked;
    assert!(asked.len() < 10, "halving, not one by one: {}", asked.len());
    let net = asked.iter().skip(1).position(|text| text.contains(r#""net""#)).unwrap();
    let first_port = asked.iter().skip(1).position(|text| text.contains("<port 1>")).unwrap();
    assert!(net <= first_port, "the switch is not made after its ports");
}

#[tokio::test]
async fn a_note_is_left_with_a_whole_plan_and_with_no_part_of_one() {
    let note = |txn: &mut Transaction| {
        txn.comment("so far");
    };
    let mut target = target(Scripted::default()).with_note(note);
    target.apply(&ports(3)).await.unwrap();
    let [asked] = &target.database().asked[..] else { panic!("one transaction") };
    assert!(asked.ends_with(r#"{"op":"comment","comment":"so far"}"#), "{asked}");
    let poisoned = Scripted { poison: Some("<port 2>"), ..Default::default() };
    let mut target = super::tests::target(poisoned).with_note(note);
    target.apply(&ports(3)).await.unwrap();
    let asked = &target.database().asked;
    assert_eq!(
        asked.iter().filter(|text| text.contains("so far")).count(),
        1,
        "only with the attempt at all of it"
    );
}

#[tokio::test]
async fn a_database_that_takes_nothing_is_no_objects_fault() {
    let error = "not allowed".to_owned();
    let read_only = CommitError::Refused { op: None, error, details: "read only mode".into() };
    let mut target = target(Scripted { script: VecDeque::from([Some(read_only)]), ..Default::default() });
    let error = target.apply(&ports(3)).await.unwrap_err();
    assert_eq!(error.class(), Class::Refused);
    assert_eq!(target.database().asked.len(), 1);
}

#[tokio::test]
async fn an_unknown_outcome_is_not_tried_again() {
    let lost = CommitError::Unknown { reason: "connection lost".into() };
    let mut target = target(Scripted { script: VecDeque::from([Some(lost)]), ..Default::default() });
    let error = target.apply(&ports(3)).await.unwrap_err();
    assert_eq!(error.class(), Class::Conflict);
    assert_eq!(target.database().asked.len(), 1);
}

#[tokio::test]
async fn a_connection_lost_half_way_fails_the_rest_only() {
    // The database rejects the whole plan, accepts the first half, then loses the connection.
    let script = VecDeque::from([Some(refused()), None, Some(CommitError::NotConnected)]);
    let mut target = target(Scripted { script, ..Default::default() });
    let plan = ports(3);
    let applied = target.apply(&plan).await.unwrap();
    for (step, result) in plan.steps.iter().zip(&applied.results) {
        let first = step.object.kind == "network" || step.object.id == "1";
        assert_eq!(matches!(result, StepResult::Done), first, "{}: {result:?}", step.op);
        assert_eq!(matches!(result, StepResult::Failed(error) if error.class() == Class::Transient), !first);
    }
    assert_eq!(target.database().asked.len(), 3);
}

#[tokio::test]
async fn without_a_connection_the_plan_fails_as_a_whole() {
    let script = VecDeque::from([Some(CommitError::NotConnected)]);
    let mut target = target(Scripted { script, ..Default::default() });
    assert_eq!(target.apply(&ports(3)).await.unwrap_err().class(), Class::Transient);
}

#[test]
fn maps_change_by_key_and_sets_by_member() {
    let map = Datum::map([(Atom::from("a"), Atom::from("2")), (Atom::from("b"), Atom::from("1"))]);
    let keys = Datum::set([Atom::from("c")]);
    let (put, take) = (
        Op::Put { row: row(1), column: "options", elements: map.clone() },
        Op::Take { row: row(1), column: "options", elements: keys },
    );
    let composed = RowWrites::of([&put, &take].into_iter());
    assert_eq!(composed.steps, [vec![0, 1]]);
    let mut txn = Transaction::new();
    composed.ops[0].add_to(&mut txn);
    let text = txn.compose(|_, _| false).unwrap().text;
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["mutations"],
        serde_json::json!([
            ["options", "delete", ["set", ["a", "b", "c"]]],
            ["options", "insert", ["map", [["a", "2"], ["b", "1"]]]],
        ])
    );
}

#[test]
fn objects_come_behind_those_they_need() {
    let plan = ports(2);
    let order: Vec<String> = in_order(&plan.steps).into_iter().map(ToString::to_string).collect();
    assert_eq!(order, ["network/1", "port/1", "port/2"]);
}
