//! One test for each trap of the protocol.

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
    let delta = replica.apply(V2, &text).unwrap();
    let row = cage(&replica, 1).unwrap();
    assert_eq!(
        (row.name.as_str(), row.kind.as_deref(), row.pairs),
        ("tigers", Some("big"), [Even(4)].into())
    );
    assert_eq!(row.labels, [("b".into(), "3".into()), ("c".into(), "4".into())].into());
    assert_eq!(cage(&replica, 2), Some(Cage::default()));
    let changes: Vec<_> = delta.table::<Cage>().collect();
    assert_eq!(changes[0].before.as_deref(), before.get::<Cage>(uuid(1)));
    assert_eq!(changes[0].columns(), Cage::NAME | Cage::KIND | Cage::LABELS | Cage::PAIRS);
    assert!(changes[1].before.is_none() && changes[1].columns().positions().len() == Cage::COLUMNS.len());
    let delta = replica.apply(V2, &cages(&[(1, r#"{"delete":null}"#)])).unwrap();
    assert!(cage(&replica, 1).is_none() && delta.table::<Cage>().all(|change| change.after.is_none()));
    assert_eq!((delta.seq(), replica.snapshot().seq()), (Seq(3), Seq(3)));
    assert_eq!(before.get::<Cage>(uuid(1)).unwrap().name, "lions");
}

#[test]
fn version_1_sends_whole_rows() {
    let mut replica = Replica::new(model());
    replica.fit(&schema()).unwrap();
    let row = r#"{"new":{"name":"a","type":["set",[]],"number":1,"pairs":["set",[2,4]],"near":["set",[]],"labels":["map",[]]}}"#;
    replica.reload(V1, &cages(&[(1, row)])).unwrap();
    let row = r#"{"old":{"pairs":["set",[2,4]]},"new":{"name":"a","type":["set",[]],"number":1,"pairs":["set",[2,6]],"near":["set",[]],"labels":["map",[]]}}"#;
    let delta = replica.apply(V1, &cages(&[(1, row)])).unwrap();
    assert_eq!(delta.table::<Cage>().next().unwrap().columns(), Cage::PAIRS.into());
    assert_eq!(cage(&replica, 1).unwrap().pairs, [Even(2), Even(6)].into());
    replica.apply(V1, &cages(&[(1, r#"{"old":{"name":"a"},"new":null}"#)])).unwrap();
    assert!(replica.snapshot().table::<Cage>().is_empty());
}

fn refused(replica: &mut Replica, text: &str) -> String {
    let before = replica.snapshot();
    let error = replica.apply(V2, text).unwrap_err();
    let after = replica.snapshot();
    assert!(before.diff(&after).is_empty() && before.seq() == after.seq());
    error.to_string()
}

#[test]
fn sets_of_one_come_bare_and_empty_sets_wrapped() {
    let replica = loaded(&cages(&[
        (1, r#"{"initial":{"pairs":2,"type":"x","near":["uuid","00000000-0000-0000-0000-000000000002"]}}"#),
        (
            2,
            r#"{"initial":{"pairs":["set",[2]],"type":["set",["x"]],"labels":["set",[]],"name":["set",["n"]]}}"#,
        ),
        (3, r#"{"initial":{"pairs":["set",[]],"type":["set",[]],"near":["set",[]],"labels":["map",[]]}}"#),
    ]));
    let (one, two, three) = (cage(&replica, 1), cage(&replica, 2), cage(&replica, 3));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((&one.pairs, &one.kind, one.near.len()), (&two.pairs, &two.kind, 1));
    assert_eq!((two.name.as_str(), three), ("n", Some(Cage::default())));
}

#[test]
fn integers_keep_all_64_bits() {
    let replica = loaded(&cages(&[
        (1, r#"{"initial":{"number":9223372036854775807}}"#),
        (2, r#"{"initial":{"number":-9223372036854775808}}"#),
    ]));
    assert_eq!(cage(&replica, 1).unwrap().number, i64::MAX);
    assert_eq!(cage(&replica, 2).unwrap().number, i64::MIN);
}

#[test]
fn leaving_and_entering_a_condition_looks_like_delete_and_insert() {
    let mut replica = loaded(&cages(&[(1, r#"{"initial":{"name":"a"}}"#)]));
    let delta = replica.apply(V2, &cages(&[(1, r#"{"delete":null}"#)])).unwrap();
    assert!(delta.table::<Cage>().next().unwrap().after.is_none());
    let delta = replica.apply(V2, &cages(&[(1, r#"{"insert":{"name":"a"}}"#)])).unwrap();
    assert!(delta.table::<Cage>().next().unwrap().before.is_none());
}

#[test]
fn what_cannot_be_is_refused_and_nothing_of_it_is_taken_in() {
    let mut replica =
        loaded(&cages(&[(1, r#"{"initial":{"name":"a"}}"#), (2, r#"{"initial":{"pairs":1}}"#)]));
    let with = |row: (u128, &str)| cages(&[(9, r#"{"insert":{"name":"new"}}"#), row]);
    let held = "the server inserts a row that the replica already has";
    assert!(refused(&mut replica, &with((1, r#"{"insert":{}}"#))).ends_with(held));
    assert!(refused(&mut replica, &with((2, r#"{"insert":{}}"#))).ends_with(held));
    assert!(
        refused(&mut replica, &with((3, r#"{"modify":{}}"#)))
            .contains("changes a row that the replica does not have")
    );
    assert!(
        refused(&mut replica, &with((3, r#"{"delete":null}"#)))
            .contains("deletes a row that the replica does not have")
    );
    for malformed in [
        r#"{}"#,
        r#"{"upsert":{}}"#,
        r#"{"modify":null}"#,
        r#"{"modify":{"name":null}}"#,
        r#"{"modify":{"labels":["map",[["a"]]]}}"#,
        r#"{"modify":{},"delete":null}"#,
        r#"[]"#,
        r#"7"#,
    ] {
        assert!(
            refused(&mut replica, &with((1, malformed))).contains("cannot parse the update of"),
            "{malformed}"
        );
    }
    assert!(refused(&mut replica, "[]").contains("cannot parse the update of"));
    assert!(refused(&mut replica, r#"{"Cage":[]}"#).contains("cannot parse the update of"));
    assert!(
        refused(&mut replica, r#"{"Cage":{"no uuid":{"delete":null}}}"#)
            .contains("cannot parse the update of")
    );
    let listed = replica.reload(V2, &cages(&[(1, r#"{"modify":{"name":"b"}}"#)])).unwrap_err();
    assert!(matches!(listed, ApplyError::Inconsistent { what: Inconsistency::NotInitial, .. }));
    assert_eq!(replica.snapshot().table::<Cage>().len(), 1);
}

#[test]
fn what_nobody_asked_for_is_passed_over() {
    let mut replica = loaded(&cages(&[(1, r#"{"initial":{"name":"a","weather":["map",[[1,2]]]}}"#)]));
    let delta = replica
        .apply(V2, r#"{"Tank":{"00000000-0000-0000-0000-000000000001":{"insert":{}}},"Cage":{}}"#)
        .unwrap();
    assert!(delta.is_empty() && delta.seq() == Seq(1));
}

#[test]
fn of_members_that_are_there_twice_the_last_counts() {
    let row = |name: &str| format!(r#""{}":{{"insert":{{"name":"{name}"}}}}"#, uuid(1));
    let mut replica = loaded("{}");
    // In an update they must not occur twice. A reload then shows the right value.
    for body in [
        format!(r#"{{"Cage":{{{},{}}}}}"#, row("a"), row("b")),
        format!(r#"{{"Cage":{{{}}},"Cage":{{}}}}"#, row("a")),
    ] {
        replica.apply(V2, &body).unwrap_err();
        assert_eq!(replica.snapshot().table::<Cage>().len(), 0);
    }
    let body = format!(r#"{{"Cage":{{{}}},"Note":{{}},"Cage":{{{}}}}}"#, row("c"), row("d"));
    replica.reload(V2, &body).unwrap();
    assert_eq!(cage(&replica, 1).unwrap().name, "d");
    let body = format!(
        r#"{{"Cage":{{{}}},"Note":{{"{}":{{"initial":{{}}}}}},"Cage":{{{}}}}}"#,
        row("d"),
        uuid(2),
        row("c")
    );
    let all = 0..body.len();
    replica.reload_owned(V2, body, all).unwrap();
    assert_eq!(
        (cage(&replica, 1).unwrap().name.as_str(), replica.snapshot().dynamic("Note").unwrap().len()),
        ("c", 1)
    );
    let body = cages(&[(1, r#"{"modify":{"labels":["map",[["k","1"],["k","2"]]],"name":"e","name":"f"}}"#)]);
    replica.apply(V2, &body).unwrap();
    let row = cage(&replica, 1).unwrap();
    assert_eq!((row.name.as_str(), row.labels), ("f", [("k".into(), "2".into())].into()));
}

#[test]
fn a_row_that_is_refused_is_set_aside_and_comes_back() {
    let mut replica = loaded(&cages(&[(1, r#"{"initial":{"name":"a","pairs":["set",[2,3]]}}"#)]));
    let snapshot = replica.snapshot();
    let row = snapshot.unreadable().next().unwrap();
    assert_eq!((row.table, row.column, row.uuid), ("Cage", "pairs", uuid(1)));
    assert_eq!(row.problem.to_string(), "expected an even integer, found integer 3");
    assert!(snapshot.table::<Cage>().is_empty());

    // Still refused, but its other columns follow.
    let delta =
        replica.apply(V2, &cages(&[(1, r#"{"modify":{"name":"b","pairs":["set",[2,5]]}}"#)])).unwrap();
    assert!(delta.is_empty());
    let snapshot = replica.snapshot();
    let row = snapshot.unreadable().next().unwrap();
    let named = row.columns.iter().position(|column| column == "name").unwrap();
    assert_eq!(row.values[named].to_string(), "b");

    let delta = replica.apply(V2, &cages(&[(1, r#"{"modify":{"pairs":["set",[3,5]]}}"#)])).unwrap();
    assert_eq!(delta.table::<Cage>().next().unwrap().after.as_deref().unwrap().name, "b");
    assert_eq!(replica.snapshot().unreadable().count(), 0);

    // The row disappears again, which readers see as a deletion.
    let delta = replica.apply(V2, &cages(&[(1, r#"{"modify":{"pairs":7}}"#)])).unwrap();
    assert!(delta.table::<Cage>().next().unwrap().after.is_none());
    assert!(replica.snapshot().lookup::<ByName>(&"b".into()).next().is_none());
    replica.apply(V2, &cages(&[(1, r#"{"delete":null}"#)])).unwrap();
    assert_eq!(replica.snapshot().unreadable().count(), 0);
}

#[test]
fn an_equal_reload_changes_nothing() {
    let body = cages(&[(1, r#"{"initial":{"name":"a"}}"#), (2, r#"{"initial":{"pairs":1}}"#)]);
    let mut replica = loaded(&body);
    let before = replica.snapshot();
    let delta = replica.reload(V2, &body).unwrap();
    let after = replica.snapshot();
    assert!(delta.is_empty() && before.seq() == after.seq() && after.unreadable().count() == 1);
    let row = |snapshot: &Snapshot| Arc::clone(snapshot.table::<Cage>().get(uuid(1)).unwrap());
    assert!(Arc::ptr_eq(&row(&before), &row(&after)));
    let delta = replica.reload(V2, "{}").unwrap();
    assert_eq!((delta.len(), replica.snapshot().unreadable().count()), (1, 0));
}

#[test]
fn a_converted_schema_is_fitted_and_loaded_anew() {
    let mut replica = loaded(&cages(&[(1, r#"{"initial":{"name":"a"}}"#)]));
    assert!(!replica.monitored()[0].columns.contains(&"area".into()));
    let mut converted = schema();
    let area = r#"{"name":"x","tables":{"T":{"columns":{"area":{"type":{"key":"integer","min":0}}}}}}"#;
    let area = DatabaseSchema::parse(area).unwrap().tables["T"].columns["area"].clone();
    converted.tables.get_mut("Cage").unwrap().columns.insert("area".into(), area);
    let fit = replica.fit(&converted).unwrap();
    assert!(fit.is_exact() && fit.table::<Cage>().is_some_and(|fit| fit.absent.is_empty()));
    assert!(replica.monitored()[0].columns.contains(&"area".into()));
    assert_eq!(cage(&replica, 1).unwrap().name, "a");
    assert!(refused(&mut replica, "{}").contains("before the rows were loaded"));
    let body = cages(&[(1, r#"{"initial":{"name":"a","area":7}}"#)]);
    let delta = replica.reload(V2, &body).unwrap();
    assert_eq!(delta.table::<Cage>().next().unwrap().columns(), Cage::AREA.into());
    // The same schema again needs no reload.
    replica.fit(&converted).unwrap();
    assert!(replica.apply(V2, &cages(&[(1, r#"{"delete":null}"#)])).is_ok());
}

#[test]
fn a_misfit_changes_nothing() {
    let mut replica = loaded(&cages(&[(1, r#"{"initial":{"name":"a"}}"#)]));
    let mut poor = schema();
    poor.tables.get_mut("Cage").unwrap().columns.remove("name");
    poor.tables.remove("Note");
    let misfits: Vec<_> = replica.fit(&poor).unwrap_err().iter().map(Misfit::to_string).collect();
    assert_eq!(misfits, ["table Cage has no column name", "table Note does not exist"]);
    assert!(replica.apply(V2, &cages(&[(1, r#"{"modify":{"name":"b"}}"#)])).is_ok());
}

/// Starts with a default of its own, and refuses the schema's for another column.
#[derive(Clone, Debug, PartialEq, crate::Table)]
#[ovsdb(database = "Zoo", table = "Tank")]
struct Tank {
    depth: i64,
    limits: Set<i64>,
    code: Code,
    #[ovsdb(write_only)]
    note: Option<Str>,
}

impl Default for Tank {
    fn default() -> Self {
        Self { depth: 5, limits: Set::default(), code: Code::default(), note: None }
    }
}

/// A string that is never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Code(Str);

impl FromAtom for Code {
    fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
        match atom {
            AtomRef::String(text) if !text.is_empty() => Ok(Self(text.into())),
            other => Err(ValueError::new("a text", other)),
        }
    }
}

impl crate::model::AtomType for Code {
    const KIND: AtomKind = AtomKind::String;
    fn to_atom(&self) -> Atom {
        Atom::String(self.0.clone())
    }
}

#[test]
fn what_an_insert_leaves_unsaid_is_the_schemas_default() {
    let schema = DatabaseSchema::parse(
        r#"{"name":"Zoo","tables":{"Tank":{"columns":{
            "depth":{"type":"integer"},
            "limits":{"type":{"key":"integer","min":1,"max":2}},
            "code":{"type":"string"},
            "note":{"type":{"key":"string","min":0}}}}}}"#,
    )
    .unwrap();
    let mut replica = Replica::new(Model::new("Zoo").table::<Tank>());
    replica.fit(&schema).unwrap();
    assert_eq!(replica.monitored()[0].columns, ["depth", "limits", "code"]);
    let rows = [(1, r#"{"initial":{"code":"c"}}"#), (2, r#"{"initial":{"depth":1}}"#)];
    replica.reload(V2, &body("Tank", &rows)).unwrap();
    let snapshot = replica.snapshot();
    let tank = snapshot.get::<Tank>(uuid(1)).unwrap();
    assert_eq!((tank.depth, &*tank.limits), (0, &[0][..]));
    let unread: Vec<_> = snapshot.unreadable().map(|row| (row.uuid, row.column)).collect();
    assert_eq!(unread, [(uuid(2), "code")]);
    replica.apply(V2, &body("Tank", &[(2, r#"{"modify":{"code":"d"}}"#)])).unwrap();
    assert_eq!(replica.snapshot().get::<Tank>(uuid(2)).unwrap().depth, 1);
}

#[test]
fn a_table_that_some_servers_lack_is_empty_there() {
    let mut replica = Replica::new(Model::new("Zoo").optional_table::<Tank>().table::<Cage>());
    let fit = replica.fit(&schema()).unwrap();
    assert_eq!(fit.table::<Tank>().unwrap().absent.len(), Tank::COLUMNS.len());
    let asked: Vec<_> = replica.monitored().into_iter().map(|monitored| monitored.table).collect();
    assert_eq!(asked, ["Cage"]);
    replica.reload(V2, "{}").unwrap();
    assert!(replica.snapshot().table::<Tank>().is_empty());
}

#[test]
fn tables_without_a_struct_go_by_the_schema() {
    let mut replica = loaded(&body("Note", &[(1, r#"{"initial":{"weight":["set",[1,2.5]]}}"#)]));
    replica.apply(V2, &body("Note", &[(1, r#"{"modify":{"weight":["set",[1,3]]}}"#)])).unwrap();
    let snapshot = replica.snapshot();
    let row = snapshot.dynamic("Note").unwrap().get(uuid(1)).unwrap();
    assert_eq!(row.get("weight").unwrap().to_string(), "[2.5, 3]");
    assert_eq!(row.get("text").unwrap().to_string(), "");
    assert!(snapshot.dynamic("Cage").is_none() && row.get("nothing").is_none());

    let named = |names: &[&str]| Columns::Named(names.iter().map(|name| Str::from(*name)).collect());
    let mut replica = Replica::new(Model::new("Zoo").dynamic("Note", named(&["_uuid", "text"])));
    replica.fit(&schema()).unwrap();
    assert_eq!(replica.monitored()[0].columns, ["text"]);
    let mut replica = Replica::new(Model::new("Zoo").dynamic("Note", named(&["txet"])));
    assert_eq!(replica.fit(&schema()).unwrap_err()[0].to_string(), "table Note has no column txet");
}

#[test]
#[should_panic(expected = "the model of Zoo has no table Tank")]
fn asking_for_a_table_that_is_not_in_the_model_is_a_bug() {
    let _ = loaded("{}").snapshot().table::<Tank>().len();
}

#[test]
#[should_panic(expected = "has table Cage twice")]
fn a_table_is_held_once() {
    let _ = model().dynamic("Cage", Columns::All);
}

#[test]
fn columns_that_nobody_asks_for_are_not_monitored() {
    let model = Model::new("Zoo").columns(Cage::NAME | Cage::LABELS).index::<ByName>();
    let mut replica = Replica::new(model);
    let fit = replica.fit(&schema()).unwrap();
    assert_eq!(replica.monitored()[0].columns, ["name", "labels"]);
    assert!(fit.table::<Cage>().unwrap().absent.contains(Cage::NUMBER.position()));
    replica.reload(V2, &cages(&[(1, r#"{"initial":{"name":"a","number":7}}"#)])).unwrap();
    let snapshot = replica.snapshot();
    let (_, cage) = snapshot.unique::<ByName>(&"a".into()).unwrap();
    assert_eq!((cage.number, cage.name.as_str()), (0, "a"));
    // A schema that is converted does not bring them back.
    replica.fit(&schema()).unwrap();
    assert_eq!(replica.monitored()[0].columns, ["name", "labels"]);
}

#[test]
fn rows_put_in_by_hand_are_indexed_and_told_like_others() {
    let mut replica = Replica::new(model());
    let cage = |name: &str| Some(Cage { name: name.into(), ..Default::default() });
    let delta = replica.edit([(uuid(1), cage("a")), (uuid(2), cage("b"))].into());
    assert_eq!(delta.len(), 2);
    let before = replica.snapshot();
    let delta = replica.edit([(uuid(1), cage("a")), (uuid(2), None), (uuid(3), None)].into());
    let changed: Vec<_> = delta.table::<Cage>().map(|change| (change.uuid, change.after.is_some())).collect();
    assert_eq!(changed, [(uuid(2), false)], "what is as it was, or was never there, is no change");
    assert!(before.unique::<ByName>(&"b".into()).is_some(), "a snapshot does not change");
    let after = replica.snapshot();
    assert!(after.unique::<ByName>(&"b".into()).is_none() && after.unique::<ByName>(&"a".into()).is_some());
    assert_eq!(before.diff(&after).len(), 1);
}
