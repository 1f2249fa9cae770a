//! Queries and bodies of API requests, on every noun.

use std::sync::{Arc, LazyLock};

use api::report::Report;
use api::resource::{ChangeRequest, NOUNS, Scene};
use api::world::Outside;
use api::{Caller, Txn, World};
use jiff::Timestamp;
use serde_json::{Value, json};

static NETWORKS: LazyLock<World> = LazyLock::new(|| {
    let mut txn = begin(World::default());
    let (caller, report) = (Caller::admin("p"), Report::default());
    for name in ["a", "B", ""] {
        let body = json!({"network": {"name": name, "tags": ["red"], "router:external": name == "a"}});
        let noun = NOUNS.iter().find(|noun| noun.name() == "network").expect("networks are a noun");
        noun.create(&mut txn, &ChangeRequest::by(&caller, &report), &body)
            .expect("a plain network is in order");
    }
    txn.finish().0
});

fn begin(world: World) -> Txn {
    Txn::new(world, Timestamp::UNIX_EPOCH, 1, Arc::default())
}

/// Any query string gives a list or an error of the client, and the links of a page are valid requests.
pub fn api_query(data: &[u8]) {
    let pairs = |bytes: &[u8]| form_urlencoded::parse(bytes).into_owned().collect();
    let (report, outside, caller) = (Report::default(), Outside::default(), Caller::member("p"));
    let scene = Scene {
        world: &NETWORKS,
        report: &report,
        outside: &outside,
        caller: &caller,
        now: Timestamp::UNIX_EPOCH,
        parent: None,
    };
    for noun in NOUNS {
        match noun.query(pairs(data)).and_then(|query| noun.list(&scene, &query)) {
            Ok(page) => {
                for (_, link) in page.links {
                    let beside = noun.query(pairs(link.as_bytes())).expect("a link is a good query");
                    noun.list(&scene, &beside).expect("a link leads to a page");
                }
            }
            Err(fault) => assert!((400..500).contains(&fault.status), "{fault}"),
        }
    }
}

/// Any JSON creates an object or is rejected as an error of the client, never of the server.
pub fn api_body(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let report = Report::default();
    for caller in [Caller::admin("p"), Caller::member("p")] {
        for noun in NOUNS {
            for body in [value.clone(), json!({noun.name(): value})] {
                let mut txn = begin(NETWORKS.clone());
                if let Err(fault) = noun.create(&mut txn, &ChangeRequest::by(&caller, &report), &body) {
                    assert!((400..500).contains(&fault.status), "{fault}");
                }
            }
        }
    }
}
