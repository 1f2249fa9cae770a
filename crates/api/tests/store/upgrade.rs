//! Stores of other versions: older ones are upgraded and keep everything, later ones are refused.

use std::collections::BTreeMap;

use api::World;
use api::model::{
    AddressScope, Adopted, AgentSetting, FloatingIp, Network, Placement, Port, QuotaSet, RbacPolicy, Router,
    SecurityGroup, SecurityGroupRule, Subnet, SubnetPool,
};
use api::store::StoreError;
use api::world::Entity;
use serde::Serialize;
use serde_json::Value;

use super::{COUNTER, Place, count, counted, open, router};

/// Rows of every noun, as servers of the first version wrote them.
const ROWS: &str = include_str!("version_1_rows.sql");

/// The tables of nouns in the first version.
const TABLES: [&str; 14] = [
    "address_scopes",
    "subnetpools",
    "networks",
    "subnets",
    "security_groups",
    "security_group_rules",
    "ports",
    "routers",
    "floatingips",
    "rbac_policies",
    "placements",
    "quotas",
    "agent_settings",
    "adopted_rows",
];

/// Creates a store of the first version, with rows of every noun.
fn first_version(place: &Place) {
    place.run(&format!(
        "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (1);
         {}
         {ROWS}
         INSERT INTO routers (id, project_id, body) VALUES ('{COUNTER}', 'p', '{}');
         INSERT INTO changes VALUES (1, '{COUNTER}', 'routers', '{COUNTER}');
         UPDATE state SET seq = 1;",
        include_str!("version_1.sql"),
        serde_json::to_string(&router(COUNTER)).unwrap()
    ));
}

/// The objects of the first version by table and key, read without the store.
fn written() -> BTreeMap<(&'static str, String), Value> {
    let database = rusqlite::Connection::open_in_memory().unwrap();
    database.execute_batch(include_str!("version_1.sql")).unwrap();
    database.execute_batch(ROWS).unwrap();
    let mut all = BTreeMap::new();
    for table in TABLES {
        let mut query = database.prepare(&format!("SELECT id, body FROM {table}")).unwrap();
        let pair = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        for row in query.query_map([], pair).unwrap() {
            let (key, body) = row.unwrap();
            all.insert((table, key), serde_json::from_str(&body).unwrap());
        }
    }
    all
}

/// The objects of a world by table and key.
fn loaded(world: &World) -> BTreeMap<(&'static str, String), Value> {
    let mut all = BTreeMap::new();
    fn add<T: Entity + Serialize>(
        world: &World,
        table: &'static str,
        all: &mut BTreeMap<(&'static str, String), Value>,
    ) where
        T::Key: ToString,
    {
        for entity in world.table::<T>().iter() {
            all.insert((table, entity.key().to_string()), serde_json::to_value(&**entity).unwrap());
        }
    }
    add::<AddressScope>(world, "address_scopes", &mut all);
    add::<SubnetPool>(world, "subnetpools", &mut all);
    add::<Network>(world, "networks", &mut all);
    add::<Subnet>(world, "subnets", &mut all);
    add::<SecurityGroup>(world, "security_groups", &mut all);
    add::<SecurityGroupRule>(world, "security_group_rules", &mut all);
    add::<Port>(world, "ports", &mut all);
    add::<Router>(world, "routers", &mut all);
    add::<FloatingIp>(world, "floatingips", &mut all);
    add::<RbacPolicy>(world, "rbac_policies", &mut all);
    add::<Placement>(world, "placements", &mut all);
    add::<QuotaSet>(world, "quotas", &mut all);
    add::<AgentSetting>(world, "agent_settings", &mut all);
    add::<Adopted>(world, "adopted_rows", &mut all);
    all.remove(&("routers", COUNTER.to_string()));
    all
}

/// Whether a value has everything of an older one. Keys that the older version did not have may be new.
fn keeps(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            old.iter().all(|(key, old)| new.get(key).is_some_and(|new| keeps(new, old)))
        }
        (Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| keeps(new, old))
        }
        _ => new == old,
    }
}

#[tokio::test]
async fn tables_of_the_first_version_are_upgraded_and_keep_everything() {
    let written = written();
    for table in TABLES {
        assert!(written.keys().any(|(of, _)| *of == table), "{table} is empty");
    }
    for place in Place::both() {
        first_version(&place);
        let store = place.open().await;
        let before = store.world().revision();
        assert_eq!((before.seq, before.batch), (1, COUNTER));
        assert!(!before.store.is_nil(), "it has a name");
        assert_eq!(counted(&count(&store).await.unwrap()), 1);
        drop(store);
        let store = place.open().await;
        assert_eq!(store.world().revision().store, before.store, "and keeps it");
        assert!(store.contains(before).await.unwrap());
        let loaded = loaded(&store.world());
        assert!(loaded.keys().eq(written.keys()), "{:?} {:?}", loaded.keys(), written.keys());
        for (key, old) in &written {
            assert!(keeps(&loaded[key], old), "{key:?}: {} was {old}", loaded[key]);
        }
    }
}

#[tokio::test]
async fn tables_of_a_later_version_are_left_alone() {
    for place in Place::both() {
        drop(place.open().await);
        place.run("UPDATE schema_version SET version = 99");
        let refused = open(&place.url()).await.unwrap_err();
        assert!(matches!(refused, StoreError::Newer { found: 99, .. }), "{refused}");
        assert!(refused.to_string().contains("version 99"));
    }
}
