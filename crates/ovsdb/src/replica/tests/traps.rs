//! One test for each trap.

use super::*;
use UpdateVersion::{V1, V2};

fn cages(rows: &[(u128, &str)]) -> String {
    body("Cage", rows)
}

fn cage(replica: &Replica, n: u128) -> Option<Cage> {
    replica.snapshot().get::<Cage>(uuid(n)).cloned()
}

#[test]
fn version_2_inserts_modifies_and_deletes() {
    let mut replica = loaded(&cages(&[(
        1,
        r#"{"initial":{"name":"lions","labels":["map",[["a","1"],["b","2"]]],"pairs":2}}"#,
    )]));
    let before = replica.snapshot();
    let text = cages(&[
        (
            1,
            r#"{"modify":{"name":"tigers","type":"big","labels":["map",[["a","1"],["b","3"],["c","4"]]],"pairs":["set",[2,4]]}}"#,
        ),
        (2, r#"{"insert":{}}"#),
    ]);
    let delta = replica.apply(V2, &raw(&text)).unwrap();
    let row = cage(&replica, 1).unwrap();
    assert_eq!(
        (row.name.as_str(), row.kind.as_deref(), row.pairs),
        ("tigers", Some("big"), [Even(4)].into())
    );
    assert_eq!(row.labels, [("b".into(), "3".into()), ("c".into(), "4".into())].into());
    assert_eq!(cage(&replica, 2), Some(Cage::default()));
    let changes: Vec<_> = delta.table::<Cage>().collect();
    assert_eq!(changes[0].before.as_deref(), before.get::<Cage>(uuid(1)));
    assert_eq!(
        changes[0].columns(),
        [Cage::NAME, Cage::KIND, Cage::LABELS, Cage::PAIRS].into_iter().collect()
    );
    assert!(changes[1].before.is_none() && changes[1].columns().len() == Cage::COLUMNS.len());
    let delta = replica.apply(V2, &raw(&cages(&[(1, r#"{"delete":null}"#)]))).unwrap();
    assert!(cage(&replica, 1).is_none() && delta.table::<Cage>().all(|change| change.after.is_none()));
    assert_eq!((delta.seq(), replica.snapshot().seq()), (Seq(3), Seq(3)));
    assert_eq!(before.get::<Cage>(uuid(1)).unwrap().name, "lions");
}

#[test]
fn version_1_sends_whole_rows() {
    let mut replica = Replica::new(model());
    replica.fit(&schema()).unwrap();
    let row = r#"{"new":{"name":"a","type":["set",[]],"number":1,"pairs":["set",[2,4]],"near":["set",[]],"labels":["map",[]]}}"#;
    replica.reload(V1, &raw(&cages(&[(1, row)]))).unwrap();
    let row = r#"{"old":{"pairs":["set",[2,4]]},"new":{"name":"a","type":["set",[]],"number":1,"pairs":["set",[2,6]],"near":["set",[]],"labels":["map",[]]}}"#;
    let delta = replica.apply(V1, &raw(&cages(&[(1, row)]))).unwrap();
    assert_eq!(delta.table::<Cage>().next().unwrap().columns(), [Cage::PAIRS].into_iter().collect());
    assert_eq!(cage(&replica, 1).unwrap().pairs, [Even(2), Even(6)].into());
    replica.apply(V1, &raw(&cages(&[(1, r#"{"old":{"name":"a"},"new":null}"#)]))).unwrap();
    assert!(replica.snapshot().table::<Cage>().is_empty());
}
