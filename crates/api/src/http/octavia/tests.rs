//! The load balancer API over real HTTP.

use std::sync::Arc;

use reqwest::{Client, Method as Verb};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::BalancerRoleSet;
use crate::auth::Auth;
use crate::dialect::Octavia;
use crate::http::{Api, Limits, Lists, serve};
use crate::report::Report;
use crate::resource::fixture::{id, network, subnet};
use crate::store::{Store, Url};
use crate::world::Outside;

#[tokio::test]
async fn load_balancers_are_served_under_all_their_paths() {
    let dir = tempfile::tempdir().unwrap();
    let (_outside, outside) = watch::channel(Arc::new(Outside::default()));
    let (_report, report) = watch::channel(Report::default());
    let (_applied, applied) = watch::channel(0);
    let store = Store::open(&Url::Sqlite(dir.path().join("api.db")), outside.clone()).await.unwrap();
    let put = |txn: &mut crate::Txn| {
        txn.put(network(1, "p"));
        txn.put(subnet(2, 1, "10.0.0.0/24"));
        Ok(())
    };
    store.execute(put).await.unwrap();
    let balancer_roles = BalancerRoleSet::General;
    let api = Api {
        store,
        report,
        outside,
        auth: Auth::open("p"),
        applied,
        lists: Lists::default(),
        balancer_roles,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, Arc::new(api), Octavia, Limits::default(), std::future::pending()));
    let ask = async |verb: Verb, path: &str, body: Value| {
        let request = Client::new().request(verb, format!("http://{to}{path}"));
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap_or(Value::Null))
    };
    let (_, versions) = ask(Verb::GET, "/load-balancer/", Value::Null).await;
    assert_eq!(versions["versions"][30]["status"], "CURRENT");
    let body = json!({"loadbalancer": {"vip_subnet_id": id(2), "pools": [
        {"name": "a", "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}]}});
    let (status, made) = ask(Verb::POST, "/v2.0/lbaas/loadbalancers", body).await;
    assert_eq!((status, &made["loadbalancer"]["pools"][0]["name"]), (201, &json!("a")), "{made}");
    for base in ["/v2", "/v2.0/lbaas", "/load-balancer/v2/lbaas"] {
        let (_, list) = ask(Verb::GET, &format!("{base}/loadbalancers"), Value::Null).await;
        assert_eq!(
            (list["loadbalancers"].as_array().unwrap().len(), &list["loadbalancers_links"]),
            (1, &json!([]))
        );
    }
    let gone = json!({"faultcode": "Client", "faultstring": "Pool x not found.", "debuginfo": null});
    assert_eq!(ask(Verb::GET, "/v2/lbaas/pools/x", Value::Null).await, (404, gone));
    let accept = async |path: &str, accept: &str| {
        let request = Client::new().get(format!("http://{to}{path}")).header("Accept", accept);
        let answer = request.send().await.unwrap();
        let id = answer.headers()["x-openstack-request-id"].to_str().unwrap().to_owned();
        (answer.status().as_u16(), id, answer.text().await.unwrap())
    };
    let (status, request_id, body) = accept("/v2/lbaas/loadbalancers", "text/html").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["errors"][0]["status"]), (406, &json!(406)));
    assert_eq!(body["errors"][0]["request_id"], request_id);
    assert_eq!(accept("/v2/lbaas/loadbalancers", "").await.0, 200);
    assert_eq!(accept("/healthcheck", "text/plain").await.0, 200, "web servers ask for anything");
    let (status, refused) = ask(Verb::POST, "/v2/lbaas/l7policies", json!({"l7policy": {}})).await;
    assert_eq!((status, &refused["faultcode"]), (501, &json!("Server")));
    // Rules are inside of a policy, and there is no policy.
    for path in ["rules", "rules/y"] {
        let (status, refused) = ask(Verb::GET, &format!("/v2/lbaas/l7policies/x/{path}"), Value::Null).await;
        assert_eq!((status, &refused["faultstring"]), (404, &json!("L7 Policy x not found.")));
    }
    assert_eq!(ask(Verb::PUT, "/v2/lbaas/quotas/p", json!({"quota": {"pool": 1}})).await.0, 202);
}
