//! Tokens of a real Keystone, and of one that fails on purpose.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use api::auth::keystone::{Account, Keystone, KeystoneSettings, Memory};
use api::auth::{Auth, Denied};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use listener::Client;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::server::{Got, Server};

const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// Disables the cache. The time-out is long, so that a busy machine fails no test.
const NEVER: Memory = Memory {
    fresh: Duration::ZERO,
    stale: Duration::ZERO,
    refused: Duration::ZERO,
    patience: Duration::from_secs(120),
};

fn keystone(url: &str, account: Option<Account>, memory: Memory) -> Auth {
    let settings = KeystoneSettings { account, memory, ..KeystoneSettings::at(url) };
    Auth::keystone(Keystone::new(&settings).unwrap())
}

async fn with_token(server: &Server, method: &str, path: &str, token: &str, body: Option<Value>) -> Got {
    let mut request = server.request(method, path).header("X-Auth-Token", token);
    if let Some(body) = body {
        request = request.json(&body);
    }
    server.send(request).await
}

fn assert_unauthorized(got: &Got) {
    let message = "The request you have made requires authentication.";
    assert_eq!(got.status, 401);
    assert_eq!(got.body, json!({"error": {"code": 401, "title": "Unauthorized", "message": message}}));
    assert!(got.headers["www-authenticate"].to_str().unwrap().starts_with("Keystone uri=\"http"));
}

/// A scoped token, as a client gets one.
async fn log_in(server: &Server, url: &str, user: &str, password: &str, project: Option<&str>) -> String {
    let domain = json!({"name": "Default"});
    let mut auth = json!({"identity": {"methods": ["password"], "password": {
        "user": {"name": user, "password": password, "domain": domain}}}});
    if let Some(project) = project {
        auth["scope"] = json!({"project": {"name": project, "domain": domain}});
    }
    let request = server.client.post(format!("{url}/auth/tokens")).json(&json!({"auth": auth}));
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), 201, "{user}");
    response.headers()["x-subject-token"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_keystone_says_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    let started = tokio::task::spawn_blocking(move || {
        let keystone = lab::keystone::Keystone::start(dir.path()).unwrap();
        let projects = ["blue", "red"].map(|name| (name, keystone.project(name).unwrap()));
        for (user, role, (_, project)) in [
            ("alice", "member", &projects[0]),
            ("rita", "reader", &projects[0]),
            ("bob", "member", &projects[1]),
            ("nova", "service", &projects[1]),
        ] {
            let id = keystone.user(user, "pw").unwrap();
            keystone.grant(role, &id, project).unwrap();
        }
        (keystone, dir, projects)
    });
    let (keystone_process, _dir, projects) = started.await.unwrap();
    let url = keystone_process.url().trim_end_matches('/').to_owned();
    let account = Account {
        username: "admin".into(),
        password: keystone_process.admin_password().into(),
        user_domain: "Default".into(),
        project: "admin".into(),
        project_domain: "Default".into(),
    };
    // With an account of ours, and with each token validating itself.
    for account in [Some(account), None] {
        let server = Server::with(keystone(&url, account, NEVER)).await;
        let alice = log_in(&server, &url, "alice", "pw", Some("blue")).await;
        let rita = log_in(&server, &url, "rita", "pw", Some("blue")).await;
        let bob = log_in(&server, &url, "bob", "pw", Some("red")).await;
        let nova = log_in(&server, &url, "nova", "pw", Some("red")).await;
        let admin = log_in(&server, &url, "admin", keystone_process.admin_password(), Some("admin")).await;
        let nowhere = log_in(&server, &url, "alice", "pw", None).await;

        let made =
            with_token(&server, "POST", "/v2.0/networks", &alice, Some(json!({"network": {"name": "n"}})))
                .await;
        assert_eq!(
            (made.status, made.body["network"]["project_id"].as_str()),
            (201, Some(projects[0].1.as_str()))
        );
        assert!(made.body["network"].get("provider:network_type").is_none());
        let path = format!("/v2.0/networks/{}", made.body["network"]["id"].as_str().unwrap());
        let rename = || Some(json!({"network": {"name": "m"}}));
        for (who, token, show, update) in [
            ("alice", &alice, 200, 200),
            ("rita", &rita, 200, 403),
            ("bob", &bob, 404, 404),
            ("nova", &nova, 200, 403),
            ("admin", &admin, 200, 200),
            ("alice without a project", &nowhere, 404, 404),
        ] {
            assert_eq!(with_token(&server, "GET", &path, token, None).await.status, show, "{who}");
            assert_eq!(with_token(&server, "PUT", &path, token, rename()).await.status, update, "{who}");
        }
        let foreign = json!({"network": {"project_id": projects[1].1}});
        assert_eq!(
            with_token(&server, "POST", "/v2.0/networks", &alice, Some(foreign.clone())).await.status,
            400
        );
        assert_eq!(with_token(&server, "POST", "/v2.0/networks", &admin, Some(foreign)).await.status, 201);
        let flat = json!({"network": {"provider:network_type": "flat", "provider:physical_network": "phy1"}});
        let refused = with_token(&server, "POST", "/v2.0/networks", &alice, Some(flat)).await;
        assert_eq!((refused.refusal().0, refused.refusal().1), (403, "PolicyNotAuthorized"));
        assert_eq!(
            with_token(&server, "POST", "/v2.0/networks", &rita, Some(json!({"network": {}}))).await.status,
            403
        );
        let listed = with_token(&server, "GET", "/v2.0/networks", &bob, None).await;
        assert_eq!(listed.body["networks"].as_array().unwrap().len(), 1, "only the one made for him");
        let full = with_token(&server, "GET", &format!("/v2.0/quotas/{}", projects[0].1), &bob, None).await;
        assert_eq!(full.status, 403);

        assert_unauthorized(&server.get("/v2.0/networks").await);
        for bad in ["", "nonsense", "gAAAAABexpired", &alice[..alice.len() - 4]] {
            assert_unauthorized(&with_token(&server, "GET", "/v2.0/networks", bad, None).await);
        }
        // A revoked token is refused at once, because the cache is off.
        let revoke = server.client.delete(format!("{url}/auth/tokens"));
        let revoked =
            revoke.header("X-Auth-Token", &alice).header("X-Subject-Token", &alice).send().await.unwrap();
        assert_eq!(revoked.status().as_u16(), 204);
        assert_unauthorized(&with_token(&server, "GET", &path, &alice, None).await);
    }
}

/// A token without a project reaches no object, whatever its roles elsewhere are.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_keystone_gives_tokens_for_domains_and_the_system_which_count_for_nothing_here() {
    let dir = tempfile::tempdir().unwrap();
    let started = tokio::task::spawn_blocking(move || {
        let keystone = lab::keystone::Keystone::start(dir.path()).unwrap();
        let project = keystone.project("blue").unwrap();
        let mut tokens = Vec::new();
        for (user, role) in [("dora", "admin"), ("dan", "member"), ("dirk", "service")] {
            let id = keystone.user(user, "pw").unwrap();
            keystone.grant_on_domain(role, &id).unwrap();
            tokens.push((
                format!("{role} of the domain"),
                "a domain",
                keystone.domain_token(user, "pw").unwrap(),
            ));
        }
        for (user, role) in [("sam", "admin"), ("sue", "member"), ("sid", "reader")] {
            let id = keystone.user(user, "pw").unwrap();
            keystone.grant_on_system(role, &id).unwrap();
            tokens.push((
                format!("{role} of the system"),
                "the system",
                keystone.system_token(user, "pw").unwrap(),
            ));
        }
        let admin = keystone.admin_token().unwrap();
        (keystone, dir, project, tokens, admin)
    });
    let (keystone_process, _dir, project, tokens, admin) = started.await.unwrap();
    let url = keystone_process.url().trim_end_matches('/').to_owned();
    let server = Server::with(keystone(&url, None, NEVER)).await;
    let named = json!({"network": {"name": "n", "project_id": project}});
    let made = with_token(&server, "POST", "/v2.0/networks", &admin, Some(named.clone())).await;
    assert_eq!(made.status, 201);
    let path = format!("/v2.0/networks/{}", made.body["network"]["id"].as_str().unwrap());
    for (who, scope, token) in &tokens {
        for (method, path, body) in [
            ("GET", "/v2.0/networks", None),
            ("GET", path.as_str(), None),
            ("POST", "/v2.0/networks", Some(json!({"network": {}}))),
            ("POST", "/v2.0/networks", Some(named.clone())),
            (
                "POST",
                "/v2.0/security-groups",
                Some(json!({"security_group": {"name": "g", "project_id": ""}})),
            ),
            ("PUT", path.as_str(), Some(json!({"network": {"name": "m"}}))),
            ("DELETE", path.as_str(), None),
            ("GET", "/v2.0/agents", None),
            ("GET", "/v2.0/quotas", None),
            ("POST", "/v2.0/meridian/rebalance", Some(json!({}))),
        ] {
            let got = with_token(&server, method, path, token, body).await;
            let (status, kind, text) = got.refusal();
            assert_eq!((status, kind), (403, "InvalidScope"), "{who}: {method} {path}");
            assert!(text.contains(scope), "{who}: {text}");
        }
    }
    // An administrator of a project cannot create an object without a project.
    for body in [json!({"network": {"project_id": ""}}), json!({"network": {"tenant_id": ""}})] {
        let got = with_token(&server, "POST", "/v2.0/networks", &admin, Some(body)).await;
        assert_eq!((got.refusal().0, got.refusal().1), (400, "HTTPBadRequest"));
    }
    let all = with_token(&server, "GET", "/v2.0/networks", &admin, None).await;
    assert_eq!(all.body["networks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_role_counts_only_with_the_project_that_it_is_for() {
    let (_fake, url) = fake().await;
    let server = Server::with(keystone(&url, None, NEVER)).await;
    let create = |token: &'static str| {
        with_token(&server, "POST", "/v2.0/networks", token, Some(json!({"network": {"project_id": "p"}})))
    };
    assert_eq!(create("admin of p").await.status, 201);
    assert_eq!(create("admin of a domain").await.refusal().0, 403);
    assert_eq!(create("admin of the system").await.refusal().0, 403);
    // Keystone issues no such token. Even if it did, the token would have no project.
    let unscoped = create("admin of nothing").await;
    assert!((400..404).contains(&unscoped.refusal().0), "{:?}", unscoped.refusal());
    let listed = with_token(&server, "GET", "/v2.0/networks", "admin of nothing", None).await;
    assert_eq!((listed.status, &listed.body["networks"]), (200, &json!([])));
}

/// A fake Keystone with configurable answers, which counts its requests.
struct Fake {
    status: AtomicU16,
    asked: AtomicUsize,
    /// The permits for answers about tokens that begin with `held`.
    held: Semaphore,
}

async fn fake() -> (Arc<Fake>, String) {
    async fn answer(State(fake): State<Arc<Fake>>, headers: HeaderMap) -> (StatusCode, String) {
        fake.asked.fetch_add(1, Ordering::SeqCst);
        let status = StatusCode::from_u16(fake.status.load(Ordering::SeqCst)).unwrap();
        let good = headers.get("x-subject-token").is_some_and(|token| token != "bad");
        let mut token = json!({"token": {
            "expires_at": if headers["x-subject-token"] == "short" { "2020-01-01T00:00:00.000000Z" } else { "2999-01-01T00:00:00.000000Z" },
            "user": {"id": "u", "name": "u"}, "project": {"id": "p", "name": "p"},
            "roles": [{"id": "1", "name": "member"}],
        }});
        let subject = headers["x-subject-token"].to_str().unwrap();
        if subject.starts_with("held") {
            fake.held.acquire().await.unwrap().forget();
        }
        if let Some(scope) = subject.strip_prefix("admin of ") {
            let answer = token["token"].as_object_mut().unwrap();
            answer["roles"] = json!([{"id": "2", "name": "admin"}]);
            if scope != "p" {
                answer.remove("project");
            }
            match scope {
                "a domain" => answer.extend([("domain".into(), json!({"id": "default", "name": "Default"}))]),
                "the system" => answer.extend([("system".into(), json!({"all": true}))]),
                _ => {}
            }
        }
        match (status, good) {
            (StatusCode::OK, true) => (status, token.to_string()),
            (StatusCode::OK, false) => (StatusCode::NOT_FOUND, "{}".into()),
            (status, _) => (status, "<html>".into()),
        }
    }
    let (status, asked) = (AtomicU16::new(200), AtomicUsize::new(0));
    let fake = Arc::new(Fake { status, asked, held: Semaphore::new(0) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(Arc::clone(&fake));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (fake, url)
}

async fn status(server: &Server, token: &str) -> u16 {
    with_token(server, "GET", "/v2.0/networks", token, None).await.status
}

#[tokio::test]
async fn answers_are_remembered_good_and_bad() {
    let (fake, url) = fake().await;
    let hour = Duration::from_secs(3600);
    let server =
        Server::with(keystone(&url, None, Memory { fresh: hour, stale: hour, refused: hour, ..NEVER })).await;
    for (token, expected, asked) in
        [("a", 200, 1), ("a", 200, 1), ("b", 200, 2), ("bad", 401, 3), ("bad", 401, 3), ("a", 200, 3)]
    {
        assert_eq!(status(&server, token).await, expected, "{token}");
        assert_eq!(fake.asked.load(Ordering::SeqCst), asked, "{token}");
    }
    // An expired token is validated again, whatever is cached.
    status(&server, "short").await;
    status(&server, "short").await;
    assert_eq!(fake.asked.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn what_is_old_is_asked_again_and_counts_only_while_keystone_is_silent() {
    let (fake, url) = fake().await;
    let hour = Duration::from_secs(3600);
    let server =
        Server::with(keystone(&url, None, Memory { fresh: Duration::ZERO, stale: hour, ..NEVER })).await;
    assert_eq!(status(&server, "a").await, 200);
    fake.status.store(500, Ordering::SeqCst);
    assert_eq!(status(&server, "a").await, 200, "its last word counts");
    let unknown = with_token(&server, "GET", "/v2.0/networks", "new", None).await;
    assert_eq!((unknown.refusal().0, unknown.refusal().1), (503, "ServiceUnavailable"));
    fake.status.store(404, Ordering::SeqCst);
    assert_eq!(status(&server, "a").await, 401, "revoked");
    fake.status.store(500, Ordering::SeqCst);
    assert_eq!(status(&server, "a").await, 503, "and its last word was no");
    let nobody = Server::with(keystone("http://127.0.0.1:1/v3", None, NEVER)).await;
    assert_eq!(status(&nobody, "a").await, 503);
}

#[tokio::test]
async fn unknown_tokens_of_one_client_keep_no_other_client_out() {
    const FLOOD: usize = 300;
    let (fake, url) = fake().await;
    let memory = Memory { stale: Duration::from_secs(3600), ..NEVER };
    let auth = Arc::new(keystone(&url, None, memory));
    let [flood, user] = [1, 2].map(|n| Client::of(Ipv4Addr::new(192, 0, 2, n).into()));
    let asks = |client, token: &str| {
        let (auth, token) = (Arc::clone(&auth), token.parse().unwrap());
        tokio::spawn(async move { auth.caller(client, &HeaderMap::from_iter([(TOKEN, token)])).await })
    };
    assert!(asks(flood, "a").await.unwrap().is_ok());
    let mut waiting: FuturesUnordered<_> = (0..FLOOD).map(|n| asks(flood, &format!("held {n}"))).collect();
    // Most requests are refused at once. The others wait, and not all of them have reached Keystone.
    let mut refused = 0;
    while refused + 192 < FLOOD {
        let outcome =
            tokio::time::timeout(NEVER.patience, waiting.next()).await.expect("none is turned away");
        assert!(matches!(outcome, Some(Ok(Err(Denied::Unavailable(_))))), "{outcome:?}");
        refused += 1;
    }
    let asked = || fake.asked.load(Ordering::SeqCst);
    while asked() < 129 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A cached token counts although no further validation may start.
    assert!(asks(flood, "a").await.unwrap().is_ok());
    assert_eq!(asked(), 129);
    // Another client gets the second turn.
    let other = asks(user, "b");
    tokio::task::yield_now().await;
    fake.held.add_permits(2);
    assert!(other.await.unwrap().is_ok());
    assert_eq!(asked(), 131);
    fake.held.add_permits(FLOOD);
    while let Some(outcome) = waiting.next().await {
        assert!(matches!(outcome, Ok(Ok(_))), "{outcome:?}");
    }
}

#[test]
fn urls_of_keystone_are_checked() {
    for (url, good) in [
        ("http://k:5000", true),
        ("http://k:5000/v3/", true),
        ("https://k/identity/v3", true),
        ("k:5000", false),
        ("ftp://k/v3", false),
        ("", false),
    ] {
        assert_eq!(Keystone::new(&KeystoneSettings::at(url)).is_ok(), good, "{url}");
    }
}
