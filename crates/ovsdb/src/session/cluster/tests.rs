#![allow(clippy::disallowed_methods)]

use super::*;

const A: Uuid = Uuid::from_u128(0xa);
const B: Uuid = Uuid::from_u128(0xb);

fn wishes() -> Wishes<'static> {
    Wishes { database: "d", leader_only: false, cluster_id: None, min_index: 0, only_one: false }
}

fn member() -> ServerRow {
    ServerRow {
        name: "d".into(),
        model: StorageModel::Clustered,
        schema: Some("{}".into()),
        connected: true,
        leader: false,
        cluster_id: Some(A),
        server_id: Some(B),
        index: Some(7),
    }
}

fn standalone() -> ServerRow {
    ServerRow {
        name: "d".into(),
        schema: Some("{}".into()),
        connected: true,
        leader: true,
        ..ServerRow::default()
    }
}

fn relay(connected: bool) -> ServerRow {
    ServerRow { model: StorageModel::Relay, connected, leader: false, ..standalone() }
}

#[test]
fn each_verdict_has_its_cause() {
    let leader = Wishes { leader_only: true, ..wishes() };
    let cases: Vec<(Option<ServerRow>, Wishes<'_>, Result<(), Refusal>)> = vec![
        (None, wishes(), Err(Refusal::NoDatabase { database: "d".into() })),
        (Some(standalone()), leader, Ok(())),
        (Some(ServerRow { schema: None, ..standalone() }), wishes(), Err(Refusal::NotReady)),
        (Some(member()), wishes(), Ok(())),
        (Some(member()), leader, Err(Refusal::NotLeader)),
        (Some(ServerRow { leader: true, ..member() }), leader, Ok(())),
        (Some(ServerRow { schema: None, ..member() }), wishes(), Err(Refusal::NotReady)),
        (Some(ServerRow { connected: false, ..member() }), wishes(), Err(Refusal::CutOff)),
        (
            Some(ServerRow { connected: false, ..member() }),
            Wishes { only_one: true, ..wishes() },
            Err(Refusal::CutOff),
        ),
        (Some(member()), Wishes { min_index: 7, ..wishes() }, Ok(())),
        (Some(member()), Wishes { min_index: 8, ..wishes() }, Err(Refusal::Stale { index: 7, seen: 8 })),
        (
            Some(ServerRow { index: None, ..member() }),
            Wishes { min_index: 1, ..wishes() },
            Err(Refusal::Stale { index: 0, seen: 1 }),
        ),
        (Some(member()), Wishes { cluster_id: Some(A), ..wishes() }, Ok(())),
        (
            Some(member()),
            Wishes { cluster_id: Some(B), ..wishes() },
            Err(Refusal::WrongCluster { expected: B, found: Some(A) }),
        ),
        (
            Some(standalone()),
            Wishes { cluster_id: Some(B), ..wishes() },
            Err(Refusal::WrongCluster { expected: B, found: None }),
        ),
        (Some(relay(true)), Wishes { cluster_id: Some(B), leader_only: true, ..wishes() }, Ok(())),
        (Some(relay(false)), wishes(), Err(Refusal::CutOff)),
        (Some(relay(false)), Wishes { only_one: true, ..wishes() }, Ok(())),
        (Some(ServerRow { model: StorageModel::Other("mesh".into()), ..standalone() }), leader, Ok(())),
    ];
    for (row, wishes, expected) in cases {
        assert_eq!(judge(row.as_ref(), wishes), expected, "{row:?} {wishes:?}");
    }
}

#[test]
fn rows_follow_the_updates_of_a_server() {
    let mut rows = ServerRows::default();
    let mut feed = |text: &str| {
        rows.apply(text).unwrap();
        rows.find("d", None).cloned()
    };
    let row = feed(&format!(
        r#"{{"Database":{{"{B}":{{"initial":{{"name":"d","model":"clustered","_version":["uuid","{A}"],
           "schema":"{{\"name\":\"d\"}}","connected":true,"leader":true,"cid":["uuid","{A}"],"index":4,"later":["set",[]]}}}}}}}}"#
    ))
    .unwrap();
    assert_eq!((row.model.clone(), row.leader, row.index), (StorageModel::Clustered, true, Some(4)));
    assert_eq!(row.schema.as_deref(), Some(r#"{"name":"d"}"#));
    let row =
        feed(&format!(r#"{{"Database":{{"{B}":{{"modify":{{"leader":false,"index":9}}}}}}}}"#)).unwrap();
    assert_eq!((row.leader, row.index, row.cluster_id), (false, Some(9), Some(A)));
    let row = feed(&format!(r#"{{"Database":{{"{B}":{{"modify":{{"schema":["set",[]]}}}}}}}}"#)).unwrap();
    assert_eq!(row.schema, None);
    assert_eq!(feed(&format!(r#"{{"Database":{{"{B}":{{"delete":null}}}}}}"#)), None);
}

#[test]
fn malformed_updates_are_errors() {
    let mut rows = ServerRows::default();
    for bad in ["[]", "1", r#"{"Database":{"x":{"insert":[[]]}}}"#, r#"{"Database":{"0":{"upsert":{}}}}"#] {
        assert!(rows.apply(bad).is_err(), "{bad}");
    }
}

#[test]
fn of_two_rows_with_one_name_the_wanted_cluster_is_found() {
    let mut rows = ServerRows::default();
    rows.0.insert("a".into(), member());
    rows.0.insert("b".into(), ServerRow { cluster_id: Some(B), ..member() });
    assert_eq!(rows.find("d", Some(B)).unwrap().cluster_id, Some(B));
    assert_eq!(rows.find("d", Some(A)).unwrap().cluster_id, Some(A));
    assert!(rows.find("e", Some(A)).is_none());
}

#[test]
fn the_watermark_rises_and_falls_only_for_a_reason() {
    let now = Instant::now();
    let limit = Some(Duration::from_secs(60));
    let mut mark = Watermark::default();
    mark.accept(&member());
    let low = ServerRow { index: Some(3), ..member() };
    assert_eq!(mark.floor(&low, limit, now), (7, false));
    mark.stale(now);
    mark.stale(now + Duration::from_secs(59));
    assert_eq!(mark.floor(&low, limit, now + Duration::from_secs(59)), (7, false));
    // A good server in between starts the wait anew.
    mark.accept(&member());
    mark.stale(now + Duration::from_secs(59));
    assert_eq!(mark.floor(&low, limit, now + Duration::from_secs(61)), (7, false));
    assert_eq!(mark.floor(&low, None, now + Duration::from_secs(999)), (7, false));
    assert_eq!(mark.floor(&low, limit, now + Duration::from_secs(119)), (0, true));
    // Another cluster, or none: another history.
    mark.accept(&member());
    assert_eq!(mark.floor(&relay(true), limit, now), (7, false));
    assert_eq!(mark.floor(&ServerRow { cluster_id: Some(B), ..low.clone() }, limit, now), (0, true));
    mark.accept(&member());
    assert_eq!(mark.floor(&standalone(), limit, now), (0, true));
}

#[test]
fn staleness_is_waited_for_from_round_to_round() {
    let (now, s) = (Instant::now(), Duration::from_secs(1));
    let low = ServerRow { index: Some(3), ..member() };
    let mut mark = Watermark::default();
    mark.accept(&member());
    mark.stale(now);
    mark.end_round();
    mark.stale(now + 30 * s);
    mark.end_round();
    assert_eq!(mark.floor(&low, Some(60 * s), now + 60 * s), (0, true));
    mark.accept(&member());
    mark.stale(now);
    mark.end_round();
    // A round in which no server reported its data.
    mark.end_round();
    assert_eq!(mark.floor(&low, Some(60 * s), now + 60 * s), (7, false));
}
