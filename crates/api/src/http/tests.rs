//! Serves one [`Api`] in two dialects: Neutron's, and one for tests with nested paths, PUT on a collection and error bodies of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::{Client, Method as Verb};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::request::{ApiRequest, ObjectPath};
use super::{Answer, Api, Base, HttpDialect, Limits, Lists, Target, serve};
use crate::auth::Auth;
use crate::dialect::Neutron;
use crate::report::Report;
use crate::resource::fixture::shelf::{Boxes, Shelves, Warehouse};
use crate::resource::{CreateAnswer, Method, Noun, of};
use crate::store::{Store, Url};
use crate::world::Outside;
use crate::{BalancerRoleSet, Fault};

impl HttpDialect for Warehouse {
    fn fault(&self, fault: &Fault) -> Answer {
        Answer::json(fault.status, &json!({"faultstring": fault.message, "debuginfo": null}))
    }

    fn open(&self, _: &Api, target: &Target, _: Option<Method>, _: &Base) -> Option<Answer> {
        target.parts().is_empty().then(|| Answer::text(200, "a warehouse"))
    }

    async fn answer<'a>(&'a self, request: ApiRequest<'a>) -> Result<Answer, Fault> {
        let parts = request.target.parts();
        match *parts.as_slice() {
            ["shelves"] => collection(request, of::<Shelves>(), None).await,
            ["shelves", id] => object(request, of::<Shelves>(), ObjectPath::top(id)).await,
            ["shelves", shelf, "boxes"] => collection(request, of::<Boxes>(), Some(shelf)).await,
            ["shelves", shelf, "boxes", id] => {
                object(request, of::<Boxes>(), ObjectPath { parent: Some(shelf), id }).await
            }
            _ => Err(Fault::no_such_path()),
        }
    }
}

async fn collection(
    request: ApiRequest<'_>,
    noun: &'static dyn Noun,
    parent: Option<&str>,
) -> Result<Answer, Fault> {
    match request.method {
        Method::Post => match request.create(noun, parent).await?.0 {
            CreateAnswer::One(object) => Ok(Answer::object(201, noun.name(), &object)),
            CreateAnswer::Many(objects) => Ok(Answer::objects(201, noun.collection(), &objects)),
        },
        Method::Put => Ok(request.replace_all(noun, parent).await?.mark(Answer::empty(202))),
        _ => {
            // The key for links is always present.
            let render = |page: &crate::resource::Page, _: &Base| {
                Answer::page(noun.collection(), page.items.as_bytes(), Some(&[]))
            };
            request.list(noun, parent, render).await
        }
    }
}

async fn object(
    request: ApiRequest<'_>,
    noun: &'static dyn Noun,
    path: ObjectPath<'_>,
) -> Result<Answer, Fault> {
    match request.method {
        Method::Put => Ok(Answer::object(202, noun.name(), &request.update(noun, path).await?.0)),
        Method::Delete => Ok(request.delete(noun, path).await?.mark(Answer::empty(204))),
        _ => Ok(Answer::object(200, noun.name(), &request.show(noun, path).await?)),
    }
}

async fn listen(api: &Arc<Api>, dialect: impl HttpDialect) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, Arc::clone(api), dialect, Limits::default(), std::future::pending()));
    address
}

async fn ask(to: SocketAddr, verb: Verb, path: &str, body: Value) -> (u16, Value) {
    let request = Client::new().request(verb, format!("http://{to}{path}"));
    let request = if body.is_null() { request } else { request.json(&body) };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or(Value::Null))
}

#[tokio::test]
async fn two_listeners_serve_one_api_in_two_dialects() {
    let dir = tempfile::tempdir().unwrap();
    let (_outside, outside) = watch::channel(Arc::new(Outside::default()));
    let (_report, report) = watch::channel(Report::default());
    let (_applied, applied) = watch::channel(0);
    let store = Store::open(&Url::Sqlite(dir.path().join("api.db")), outside.clone()).await.unwrap();
    let lists = Lists::default();
    let api = Arc::new(Api {
        store,
        report,
        outside,
        auth: Auth::open("p"),
        applied,
        lists,
        balancer_roles: BalancerRoleSet::General,
    });
    let (neutron, warehouse) = (listen(&api, Neutron).await, listen(&api, Warehouse).await);

    let (status, made) = ask(warehouse, Verb::POST, "/shelves", json!({"shelf": {"name": "s"}})).await;
    assert_eq!(status, 201, "{made}");
    let shelf = format!("/shelves/{}", made["shelf"]["id"].as_str().unwrap());
    let boxes = format!("{shelf}/boxes");
    let (status, made) = ask(warehouse, Verb::POST, &boxes, json!({"box": {"name": "a"}})).await;
    assert_eq!((status, &made["box"]["name"]), (201, &json!("a")));
    let first = format!("{boxes}/{}", made["box"]["id"].as_str().unwrap());
    let (status, _) = ask(warehouse, Verb::PUT, &boxes, json!({"boxes": [{"name": "b"}]})).await;
    assert_eq!(status, 202);
    let (_, list) = ask(warehouse, Verb::GET, &boxes, Value::Null).await;
    assert_eq!((&list["boxes"][0]["name"], &list["boxes_links"]), (&json!("b"), &json!([])));
    let id = first.rsplit('/').next().unwrap();
    assert_eq!(
        ask(warehouse, Verb::GET, &first, Value::Null).await,
        (404, json!({"faultstring": format!("Box {id} not found."), "debuginfo": null}))
    );
    let second = format!("{boxes}/{}", list["boxes"][0]["id"].as_str().unwrap());
    let (status, changed) = ask(warehouse, Verb::PUT, &second, json!({"box": {"weight": 3}})).await;
    assert_eq!((status, &changed["box"]["weight"]), (202, &json!(3)));

    // The same object in Neutron's dialect.
    let scope = shelf.replace("/shelves", "/v2.0/address-scopes");
    let (status, shown) = ask(neutron, Verb::GET, &scope, Value::Null).await;
    assert_eq!((status, &shown["address_scope"]["name"]), (200, &json!("s")));
    let (status, refused) = ask(neutron, Verb::PUT, &scope, json!({"address_scope": {"colour": 1}})).await;
    assert_eq!((status, &refused["NeutronError"]["type"]), (400, &json!("HTTPBadRequest")));
    assert_eq!(refused["NeutronError"]["message"], "Unrecognized attribute(s) 'colour'");
    assert_eq!(ask(neutron, Verb::GET, &shelf, Value::Null).await.0, 404);

    assert_eq!(ask(warehouse, Verb::DELETE, &shelf, Value::Null).await.0, 409);
    assert_eq!(ask(warehouse, Verb::DELETE, &format!("{shelf}?cascade=true"), Value::Null).await.0, 204);
    assert_eq!(ask(neutron, Verb::GET, &scope, Value::Null).await.0, 404);
}
