//! The SQL tables of a router's gateways, on both engines: `routers.gw_port_id` names one, `routerports` has all.

use std::collections::BTreeSet;

use lab::postgres::Postgres;
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::plant::Plant;
use crate::site::{Site, internal};

/// The SQL engine of a server's store.
enum Engine {
    Sqlite,
    Postgres(Postgres, #[expect(dead_code, reason = "kept until the server is gone")] tempfile::TempDir),
}

impl Engine {
    /// The result of a statement, each row as a string with `|` between the columns and nothing for null.
    fn ask(&self, cloud: &Cloud, statement: &str) -> Vec<String> {
        match self {
            Engine::Sqlite => {
                let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
                let connection =
                    rusqlite::Connection::open_with_flags(cloud.dir().join("api.db"), flags).unwrap();
                let mut statement = connection.prepare(statement).unwrap();
                let columns = statement.column_count();
                let text = |row: &rusqlite::Row<'_>| {
                    let cell = |at| match row.get_unwrap(at) {
                        rusqlite::types::Value::Null => String::new(),
                        rusqlite::types::Value::Integer(number) => number.to_string(),
                        rusqlite::types::Value::Text(text) => text,
                        other => panic!("{other:?}"),
                    };
                    Ok((0..columns).map(cell).collect::<Vec<_>>().join("|"))
                };
                statement.query_map([], text).unwrap().map(Result::unwrap).collect()
            }
            Engine::Postgres(postgres, _) => {
                postgres.sql("meridian", statement).unwrap().lines().map(str::to_owned).collect()
            }
        }
    }
}

/// A router in both tables: the one gateway port, all gateway ports, and all interfaces.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    gateway: Option<String>,
    gateways: BTreeSet<String>,
    interfaces: BTreeSet<String>,
}

fn stored(engine: &Engine, cloud: &Cloud, router: &str) -> Stored {
    let one = engine.ask(cloud, &format!("SELECT gw_port_id FROM routers WHERE id = '{router}'"));
    assert_eq!(one.len(), 1, "{one:?}");
    let all = engine
        .ask(cloud, &format!("SELECT port_id, port_type FROM routerports WHERE router_id = '{router}'"));
    let of = |kind: &str| -> BTreeSet<String> {
        all.iter().filter_map(|row| row.strip_suffix(&format!("|{kind}")).map(str::to_owned)).collect()
    };
    let (gateways, interfaces) = (of("network:router_gateway"), of("network:router_interface"));
    assert_eq!(gateways.len() + interfaces.len(), all.len(), "nothing else: {all:?}");
    Stored { gateway: one.into_iter().next().filter(|id| !id.is_empty()), gateways, interfaces }
}

/// Asserts that both tables agree with the API, and that the one gateway is the first of all, or none if there are none. Returns the ids of
/// the gateway ports in order.
#[track_caller]
fn agree(engine: &Engine, site: &Site, router: &str) -> Vec<String> {
    let ports: Vec<String> =
        site.gateway_ports(router).iter().map(|port| port["id"].as_str().unwrap().to_owned()).collect();
    let Stored { gateway, gateways, .. } = stored(engine, &site.cloud, router);
    assert_eq!(gateways, ports.iter().cloned().collect());
    assert_eq!(gateway.as_ref(), ports.first());
    let theirs = "SELECT port_id FROM routerports p WHERE p.router_id = r.id AND p.port_type = 'network:router_gateway'";
    let broken = format!(
        "SELECT id FROM routers r WHERE CASE WHEN gw_port_id IS NULL THEN EXISTS ({theirs}) \
         ELSE gw_port_id NOT IN ({theirs}) END"
    );
    assert_eq!(
        engine.ask(&site.cloud, &broken),
        [] as [String; 0],
        "null if and only if there is no gateway port"
    );
    ports
}

fn gateways_come_and_go(engine: &Engine, site: &Site) {
    let element = |network: &str| json!({"network_id": network});
    let (n1, n2) = (element(&site.n1), element(&site.n2));
    let flags = |router: &str| {
        let flags = "SELECT CASE WHEN enable_default_route_ecmp THEN 1 ELSE 0 END, \
                     CASE WHEN enable_default_route_bfd THEN 1 ELSE 0 END";
        let of = format!("{flags} FROM router_extra_attributes WHERE router_id = '{router}'");
        engine.ask(&site.cloud, &of)
    };
    let router = site.router(json!({"name": "R", "enable_default_route_bfd": true}), &[]);
    site.router(json!({"name": "without"}), &[]);
    assert_eq!(agree(engine, site, &router), [] as [String; 0]);
    assert_eq!(flags(&router), ["0|1"]);
    site.cloud.put(&format!("routers/{router}"), json!({"router": {"enable_default_route_ecmp": true}}));
    assert_eq!(flags(&router), ["1|1"]);
    let (_, subnet) = internal(&site.cloud, "inside", "10.0.0.0/24");
    let interface =
        site.cloud.put(&format!("routers/{router}/add_router_interface"), json!({ "subnet_id": subnet }));
    let interface = interface["port_id"].as_str().unwrap();
    // The first added gateway becomes `gw_port_id`; later ones do not replace it.
    site.gateways("add", &router, json!([n1.clone(), n1.clone()]));
    let two = agree(engine, site, &router);
    assert_eq!(two.len(), 2);
    site.gateways("add", &router, json!([n2.clone()]));
    let three = agree(engine, site, &router);
    assert_eq!((three.len(), &three[..2]), (3, &two[..]));
    // Another gateway becomes the first.
    let of = |port: &str| json!({"network_id": site.n1, "external_fixed_ips": [fixed_ip(site, port)]});
    site.gateways("update", &router, json!([n2.clone(), of(&three[0]), of(&three[1])]));
    assert_eq!(agree(engine, site, &router), [&three[2], &three[0], &three[1]].map(String::clone));
    // The first gateway is removed through the old API, then through the new one. The next one takes its place.
    site.cloud.put(&format!("routers/{router}"), json!({"router": {"external_gateway_info": {}}}));
    assert_eq!(agree(engine, site, &router), two);
    site.gateways("remove", &router, json!([of(&two[0])]));
    assert_eq!(agree(engine, site, &router), two[1..]);
    // A rejected request changes nothing.
    let unknown = json!({"router": {"external_gateways": [n2]}});
    let path = format!("/v2.0/routers/{router}/remove_external_gateways");
    assert_eq!(site.cloud.ask("PUT", &path, Some(unknown)).status, 400);
    assert_eq!(agree(engine, site, &router), two[1..]);
    site.gateways("remove", &router, json!([n1]));
    assert_eq!(agree(engine, site, &router), [] as [String; 0]);
    let all = stored(engine, &site.cloud, &router);
    assert_eq!((all.gateway, all.interfaces), (None, [interface.to_owned()].into()), "interfaces stay");
    // Deleting the router removes all entries.
    site.gateways("add", &router, json!([element(&site.n1), element(&site.n2)]));
    assert_eq!(agree(engine, site, &router).len(), 2);
    site.cloud.put(&format!("routers/{router}/remove_router_interface"), json!({ "subnet_id": subnet }));
    site.cloud.delete(&format!("routers/{router}"));
    for table in ["routerports", "router_extra_attributes"] {
        let left = format!("SELECT router_id FROM {table} WHERE router_id = '{router}'");
        assert_eq!(engine.ask(&site.cloud, &left), [] as [String; 0], "{table}");
    }
}

fn fixed_ip(site: &Site, port: &str) -> Value {
    site.cloud.get(&format!("ports/{port}"))["port"]["fixed_ips"][0].clone()
}

#[test]
fn the_tables_have_one_gateway_port_and_all_of_them_on_sqlite() {
    gateways_come_and_go(&Engine::Sqlite, &Site::with_three(Cloud::start()));
}

#[test]
fn the_tables_have_one_gateway_port_and_all_of_them_on_postgresql() {
    let (plant, (postgres, dir)) = (Plant::start(), crate::two_servers::postgres());
    let url = postgres.url("meridian");
    let site = Site::with_three(Cloud::on(plant.dir(), &["--database", &url]));
    gateways_come_and_go(&Engine::Postgres(postgres, dir), &site);
}
