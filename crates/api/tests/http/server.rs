//! A server for the tests.

use std::sync::Arc;

use api::auth::Auth;
use api::http::{Api, Limits, Lists, serve};
use api::report::Report;
use api::store::{Store, Url};
use api::world::Outside;
use lab::postgres::Postgres;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// A server on a free port. It stops when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) client: Client,
    /// The change that the Northbound has.
    pub(crate) applied: watch::Sender<u64>,
    pub(crate) outside: watch::Sender<Arc<Outside>>,
    pub(crate) store: Store,
    pub(crate) lists: Lists,
    stop: Option<oneshot::Sender<()>>,
    _report: watch::Sender<Report>,
    _postgres: Option<Postgres>,
    _dir: tempfile::TempDir,
}

/// The status, body and headers of a response.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) headers: reqwest::header::HeaderMap,
}

impl Got {
    pub(crate) async fn of(response: Response) -> Got {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        assert!(
            text.is_empty() || !body.is_null() || headers["content-type"] != "application/json",
            "{text}"
        );
        Got { status, body, headers }
    }

    /// The type and message of a refusal. Checks its format.
    pub(crate) fn refusal(&self) -> (u16, &str, &str) {
        let error = &self.body["NeutronError"];
        assert_eq!(error["detail"], "", "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/json");
        (self.status, error["type"].as_str().unwrap(), error["message"].as_str().unwrap())
    }
}

impl Server {
    /// A server where every caller is an administrator of project `p`.
    pub(crate) async fn open() -> Server {
        Self::with(Auth::open("p")).await
    }

    pub(crate) async fn with(auth: Auth) -> Server {
        Self::limited(auth, Limits::default()).await
    }

    /// One server on each engine, without authentication.
    pub(crate) async fn both() -> [Server; 2] {
        [Self::open().await, Self::on_postgres(Auth::open("p")).await]
    }

    pub(crate) async fn limited(auth: Auth, limits: Limits) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let url = Url::Sqlite(dir.path().join("api.db"));
        Self::start(auth, limits, &url, dir, None).await
    }

    pub(crate) async fn on_postgres(auth: Auth) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("pg");
        let postgres = tokio::task::spawn_blocking(move || {
            let postgres = Postgres::start(&place).unwrap();
            postgres.create_database("meridian").unwrap();
            postgres
        });
        let postgres = postgres.await.unwrap();
        let url = postgres.url("meridian").parse().unwrap();
        Self::start(auth, Limits::default(), &url, dir, Some(postgres)).await
    }

    async fn start(
        auth: Auth,
        limits: Limits,
        database: &Url,
        dir: tempfile::TempDir,
        postgres: Option<Postgres>,
    ) -> Server {
        // The server's log is a part of a failed test's report.
        let _ = tracing_subscriber::fmt().with_test_writer().try_init();
        let (outside, seen_outside) = watch::channel(Arc::new(Outside::default()));
        let (report, seen_report) = watch::channel(Report::default());
        let (applied, seen_applied) = watch::channel(0);
        let store = Store::open(database, seen_outside.clone()).await.unwrap();
        let lists = Lists::limited(1 << 20);
        let api = Arc::new(Api {
            store: store.clone(),
            report: seen_report,
            outside: seen_outside,
            auth,
            applied: seen_applied,
            lists: lists.clone(),
            balancer_roles: api::BalancerRoleSet::General,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(serve(listener, api, api::dialect::Neutron, limits, async {
            let _ = stopped.await;
        }));
        Server {
            url,
            client: Client::new(),
            applied,
            outside,
            store,
            lists,
            stop: Some(stop),
            _report: report,
            _postgres: postgres,
            _dir: dir,
        }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Got {
        Got::of(request.send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.send(self.request("GET", path)).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Got {
        self.send(self.request(method, path).json(&body)).await
    }

    /// Creates an object. Returns its id.
    pub(crate) async fn make(&self, noun: &str, path: &str, body: Value) -> String {
        let got = self.ask("POST", &format!("/v2.0/{path}"), json!({noun: body})).await;
        assert_eq!(got.status, 201, "{noun}: {}", got.body);
        got.body[noun]["id"].as_str().unwrap().to_owned()
    }

    /// Creates an object of every noun that can be created. Returns their paths and ids.
    pub(crate) async fn furnish(&self) -> Vec<(&'static str, String)> {
        let external = self.make("network", "networks", json!({"router:external": true})).await;
        let prefix =
            |network: &str, cidr: &str| json!({"network_id": network, "ip_version": 4, "cidr": cidr});
        self.make("subnet", "subnets", prefix(&external, "192.0.2.0/24")).await;
        let network = self.make("network", "networks", json!({"shared": true})).await;
        let subnet = self.make("subnet", "subnets", prefix(&network, "10.0.0.0/24")).await;
        let port = self.make("port", "ports", json!({"network_id": network})).await;
        let gateway = json!({"external_gateway_info": {"network_id": external}});
        let router = self.make("router", "routers", gateway).await;
        let floating = json!({"floating_network_id": external});
        let floating = self.make("floatingip", "floatingips", floating).await;
        let group = self.make("security_group", "security-groups", json!({"name": "g"})).await;
        let scope = self.make("address_scope", "address-scopes", json!({"name": "s", "ip_version": 4})).await;
        let pool = json!({"name": "p", "prefixes": ["10.8.0.0/16"], "address_scope_id": scope});
        let pool = self.make("subnetpool", "subnetpools", pool).await;
        vec![
            ("networks", network),
            ("subnets", subnet),
            ("ports", port),
            ("routers", router),
            ("floatingips", floating),
            ("security-groups", group),
            ("address-scopes", scope),
            ("subnetpools", pool),
        ]
    }

    /// Creates a network and returns it.
    pub(crate) async fn network(&self, body: Value) -> Value {
        let got = self.ask("POST", "/v2.0/networks", json!({"network": body})).await;
        assert_eq!(got.status, 201, "{}", got.body);
        got.body["network"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}
