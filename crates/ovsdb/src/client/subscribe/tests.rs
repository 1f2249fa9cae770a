//! For readers of any speed, the reported changes add up to the current content.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::replica::{Model, Replica, UpdateVersion};
use crate::wire::schema::DatabaseSchema;

#[derive(Clone, Debug, Default, PartialEq, crate::Table)]
#[ovsdb(database = "Zoo", table = "Cage")]
struct Cage {
    size: i64,
}

/// A replica with its publisher, and the server's rows.
struct Rig {
    replica: Replica,
    publisher: Publisher,
    rows: BTreeMap<Uuid, i64>,
}

impl Rig {
    fn new(limit: usize) -> Self {
        let schema =
            r#"{"name":"Zoo","version":"1","tables":{"Cage":{"columns":{"size":{"type":"integer"}}}}}"#;
        let mut replica = Replica::new(Model::new("Zoo").table::<Cage>());
        let publisher = Publisher::new(replica.snapshot(), limit, Arc::default());
        replica.fit(&DatabaseSchema::parse(schema).unwrap()).unwrap();
        replica.reload(UpdateVersion::V2, "{}").unwrap();
        Self { replica, publisher, rows: BTreeMap::new() }
    }

    /// Sets or removes the size of a row, and publishes the change.
    fn change(&mut self, row: u128, size: Option<i64>) {
        let uuid = Uuid::from_u128(row);
        let update = match (self.rows.get(&uuid), size) {
            (None, None) => return,
            (Some(old), Some(new)) if *old == new => return,
            (None, Some(new)) => json!({"insert": {"size": new}}),
            (Some(_), Some(new)) => json!({"modify": {"size": new}}),
            (Some(_), None) => json!({"delete": null}),
        };
        match size {
            Some(size) => self.rows.insert(uuid, size),
            None => self.rows.remove(&uuid),
        };
        let body = json!({"Cage": {uuid.to_string(): update}}).to_string();
        let mut delta = None;
        self.publisher.publish_in_place(|| {
            delta = Some(self.replica.apply(UpdateVersion::V2, &body).unwrap());
            self.replica.snapshot()
        });
        self.publisher.changed(delta.unwrap());
    }
}

/// A reader that knows only the reported changes.
struct Reader {
    feed: Feed,
    believes: BTreeMap<Uuid, i64>,
    standing: Option<bool>,
    /// The connection was lost while this reader knew it as synced, and the reader has not received that event yet.
    lost: bool,
}

impl Reader {
    fn read(&mut self) -> bool {
        let Some(event) = self.feed.try_next() else { return false };
        match event {
            FeedEvent::Changed { delta, .. } => {
                for change in delta.table::<Cage>() {
                    let before = change.before.as_ref().map(|row| row.size);
                    assert_eq!(
                        self.believes.get(&change.uuid).copied(),
                        before,
                        "old values are what was told"
                    );
                    match &change.after {
                        Some(row) => self.believes.insert(change.uuid, row.size),
                        None => self.believes.remove(&change.uuid),
                    };
                }
                assert!(self.feed.snapshot().seq() >= delta.seq(), "what was told is in the newest snapshot");
            }
            FeedEvent::Synced { .. } => {
                assert_ne!(self.standing, Some(false), "who knew it away is told that it is back");
                self.standing = Some(true);
            }
            FeedEvent::Reconnected { .. } => {
                assert_eq!(self.standing, Some(false), "back after it was away");
                self.standing = Some(true);
            }
            FeedEvent::Disconnected { .. } => {
                assert_ne!(self.standing, Some(false), "a loss is told once");
                (self.standing, self.lost) = (Some(false), false);
            }
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Step {
    Change(u128, Option<i64>),
    Read(usize),
    Subscribe,
    Synced(SyncKind),
    Down(CloseReason),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u128..6, proptest::option::of(0i64..4)).prop_map(|(row, size)| Step::Change(row, size)),
        4 => (0usize..4).prop_map(Step::Read),
        1 => Just(Step::Subscribe),
        1 => prop_oneof![Just(SyncKind::Fresh), Just(SyncKind::Resumed), Just(SyncKind::Reloaded)]
            .prop_map(Step::Synced),
        1 => prop_oneof![Just(CloseReason::Eof), Just(CloseReason::Asked)].prop_map(Step::Down),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn what_is_told_adds_up_to_what_there_is(steps in steps(), limit in 0usize..8) {
        let mut rig = Rig::new(limit);
        let mut readers: Vec<Reader> = Vec::new();
        let mut synced = None;
        for step in steps {
            match step {
                Step::Change(row, size) => rig.change(row, size),
                Step::Read(reader) => drop(readers.get_mut(reader).map(Reader::read)),
                Step::Subscribe => readers.push(Reader {
                    feed: rig.publisher.subscribe(true),
                    believes: BTreeMap::new(),
                    standing: None,
                    lost: false,
                }),
                Step::Synced(how) => {
                    synced = Some(true);
                    rig.publisher.synced(how);
                }
                Step::Down(reason) => {
                    synced = synced.map(|_| false);
                    readers.iter_mut().for_each(|reader| reader.lost |= reader.standing == Some(true));
                    rig.publisher.down(&reason);
                }
            }
        }
        rig.publisher.close();
        for reader in &mut readers {
            while reader.read() {}
            let newest = reader.feed.snapshot();
            let there = newest.table::<Cage>().iter().map(|(row, cage)| (row.uuid(), cage.size));
            prop_assert_eq!(&reader.believes, &there.collect::<BTreeMap<_, _>>());
            prop_assert_eq!(&reader.believes, &rig.rows);
            prop_assert_eq!(reader.standing, synced);
            prop_assert!(!reader.lost, "a loss is told also to who was late, before it is said to be back");
        }
    }
}

/// The events that a feed with room for two gives to a reader that saw it in sync, and reads again only after all these steps.
fn told_late(steps: &[Step]) -> Vec<String> {
    let mut rig = Rig::new(2);
    let mut feed = rig.publisher.subscribe(true);
    rig.publisher.synced(SyncKind::Fresh);
    assert!(matches!(feed.try_next(), Some(FeedEvent::Synced { .. })));
    for size in 0..4 {
        rig.change(1, Some(size));
    }
    for step in steps {
        match step {
            Step::Synced(how) => rig.publisher.synced(*how),
            Step::Down(reason) => rig.publisher.down(reason),
            _ => unreachable!("only the standing changes"),
        }
    }
    let events = std::iter::from_fn(|| feed.try_next());
    let told = events.map(|event| match event {
        FeedEvent::Changed { delta, lagged } => format!("{} changed, lagged {lagged}", delta.len()),
        FeedEvent::Synced { how } => format!("synced {how:?}"),
        FeedEvent::Reconnected { how } => format!("reconnected {how:?}"),
        FeedEvent::Disconnected { reason } => format!("disconnected {reason:?}"),
    });
    told.collect()
}

#[test]
fn who_is_late_is_told_that_it_was_away_and_is_back() {
    use {CloseReason::*, Step::*, SyncKind::*};
    let sum = "1 changed, lagged true";
    for how in [Fresh, Reloaded] {
        let told = told_late(&[Down(Eof), Synced(Resumed), Down(Asked), Synced(how)]);
        assert_eq!(told, [sum, "disconnected Asked", &format!("reconnected {how:?}")]);
        assert_eq!(told_late(&[Synced(how)]), [sum], "it never was away");
    }
    assert_eq!(told_late(&[Down(Eof), Synced(Resumed), Down(Asked)]), [sum, "disconnected Asked"]);
}

#[test]
fn a_feed_begins_now_or_with_everything() {
    let mut rig = Rig::new(100);
    rig.change(1, Some(1));
    let (mut late, mut all) = (rig.publisher.subscribe(false), rig.publisher.subscribe(true));
    assert!(late.try_next().is_none());
    assert!(matches!(all.try_next(), Some(FeedEvent::Changed { delta, .. }) if delta.len() == 1));
    rig.change(1, Some(2));
    for feed in [&mut late, &mut all] {
        let Some(FeedEvent::Changed { delta, lagged: false, .. }) = feed.try_next() else { panic!() };
        assert_eq!(delta.table::<Cage>().next().unwrap().before.as_ref().unwrap().size, 1);
    }
}

#[tokio::test]
async fn a_waiting_reader_is_woken_and_ends_with_the_client() {
    let mut rig = Rig::new(100);
    let mut feed = rig.publisher.subscribe(false);
    let reader = tokio::spawn(async move {
        let mut told = 0;
        while feed.next().await.is_some() {
            told += 1;
        }
        told
    });
    for size in 0..5 {
        tokio::task::yield_now().await;
        rig.change(1, Some(size));
    }
    rig.publisher.close();
    assert_eq!(reader.await.unwrap(), 5);
}
