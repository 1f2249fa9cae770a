//! Tests the store on both real engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::model::{Network, NetworkType, Router, Segment, Standard, Subnet};
use api::store::{Store, StoreError, Url};
use api::world::{Link, Outside, Revision, Txn};
use api::{Fault, World};
use jiff::Timestamp;
use lab::postgres::Postgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use uuid::Uuid;

#[path = "store/upgrade.rs"]
mod upgrade;

/// A store that can be opened again.
enum Place {
    Sqlite(tempfile::TempDir),
    Postgres(Postgres, #[expect(dead_code, reason = "kept until the server is gone")] tempfile::TempDir),
}

impl Place {
    fn both() -> [Place; 2] {
        [Place::Sqlite(tempfile::tempdir().unwrap()), Place::postgres()]
    }

    fn postgres() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let postgres = Postgres::start(&dir.path().join("pg")).unwrap();
        postgres.create_database("meridian").unwrap();
        Place::Postgres(postgres, dir)
    }

    fn url(&self) -> Url {
        match self {
            Place::Sqlite(dir) => Url::Sqlite(dir.path().join("api.db")),
            Place::Postgres(postgres, _) => postgres.url("meridian").parse().unwrap(),
        }
    }

    async fn open(&self) -> Store {
        open(&self.url()).await.unwrap()
    }

    /// Runs SQL statements, beside the store's own connection.
    fn run(&self, statements: &str) {
        match self {
            Place::Sqlite(dir) => sqlite(&dir.path().join("api.db"), statements),
            Place::Postgres(postgres, _) => drop(postgres.sql("meridian", statements).unwrap()),
        }
    }

    fn server(&self) -> &Postgres {
        match self {
            Place::Postgres(postgres, _) => postgres,
            Place::Sqlite(_) => panic!("no server here"),
        }
    }
}

async fn open(url: &Url) -> Result<Store, StoreError> {
    let (_, outside) = watch::channel(Arc::new(Outside::default()));
    Store::open(url, outside).await
}

fn network(txn: &mut Txn) -> Network {
    let id = txn.new_id();
    Network {
        id,
        project: "p".into(),
        name: "it's \"here\" \\ ☃".into(),
        admin_state_up: true,
        external: false,
        segment: Segment {
            id: txn.new_id(),
            network_type: NetworkType::Geneve,
            physical_network: None,
            segmentation_id: Some(7),
        },
        mtu: 1442,
        port_security_enabled: true,
        availability_zone_hints: Vec::new(),
        dns_domain: String::new(),
        is_default: false,
        standard: Standard::new(txn.now(), "a network"),
    }
}

fn router(id: Uuid) -> Router {
    Router {
        id,
        project: "p".into(),
        name: String::new(),
        admin_state_up: true,
        gw_port_id: None,
        enable_snat: true,
        enable_default_route_ecmp: true,
        enable_default_route_bfd: false,
        routes: Vec::new(),
        availability_zone_hints: Vec::new(),
        standard: Standard::new(Timestamp::UNIX_EPOCH, ""),
    }
}

/// A subnet on an unknown network: no request of ours creates one, and the database must refuse it.
fn stray_subnet(id: Uuid) -> Subnet {
    Subnet {
        id,
        project: "p".into(),
        name: String::new(),
        network_id: Uuid::from_u128(0xbad),
        cidr: "10.0.0.0/24".parse().unwrap(),
        gateway_ip: None,
        allocation_pools: Vec::new(),
        enable_dhcp: false,
        dns_nameservers: Vec::new(),
        host_routes: Vec::new(),
        ipv6_ra_mode: None,
        ipv6_address_mode: None,
        service_types: Vec::new(),
        subnetpool_id: None,
        dhcp_server_mac: "fa:16:3e:00:00:01".parse().unwrap(),
        standard: Standard::new(Timestamp::UNIX_EPOCH, ""),
    }
}

const COUNTER: Uuid = Uuid::from_u128(0xc0);

fn begin_counting(txn: &mut Txn) -> Result<(), Fault> {
    txn.put(router(COUNTER));
    Ok(())
}

async fn count(store: &Store) -> Result<World, Fault> {
    let bump = |txn: &mut Txn| {
        let now = txn.now();
        txn.edit::<Router>(&COUNTER, |router| router.standard.bump(now));
        Ok(())
    };
    store.execute(bump).await.map(|done| done.world)
}

fn counted(world: &World) -> u64 {
    world.get::<Router>(&COUNTER).unwrap().standard.revision
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    for place in Place::both() {
        let store = place.open().await;
        let made = store
            .execute(|txn| {
                let network = network(txn);
                txn.put(network.clone());
                txn.put(router(COUNTER));
                Ok(network)
            })
            .await
            .unwrap();
        assert_eq!(made.world.seq(), 1);
        let refused = store.execute(|txn| {
            txn.remove::<Router>(&COUNTER);
            Err::<(), _>(Fault::bad("no"))
        });
        assert_eq!(refused.await.unwrap_err().status, 400);
        drop(store);
        let store = place.open().await;
        let world = store.fresh().await.unwrap();
        assert_eq!(**world.get::<Network>(&made.value.id).unwrap(), made.value);
        assert!(world.get::<Router>(&COUNTER).is_some());
        assert!(world.has_linked(Link::OwnedBy(api::world::Kind::Router, "p".into())));
        assert_eq!(world.seq(), 1);
    }
}

#[tokio::test]
async fn a_request_the_database_refuses_fails_alone() {
    for place in Place::both() {
        let store = place.open().await;
        store.execute(begin_counting).await.unwrap();
        let mut running = tokio::task::JoinSet::new();
        for n in 0..20u64 {
            let store = store.clone();
            running.spawn(async move {
                if n == 7 {
                    let stray = store.execute(|txn| Ok(txn.put(stray_subnet(Uuid::from_u128(1))))).await;
                    assert_eq!(stray.unwrap_err().status, 500);
                } else if n == 11 {
                    let panicked =
                        store.execute(|_| -> Result<(), Fault> { panic!("a bug in a request") }).await;
                    assert_eq!(panicked.unwrap_err().status, 500);
                } else {
                    count(&store).await.unwrap();
                }
            });
        }
        while let Some(done) = running.join_next().await {
            done.unwrap();
        }
        assert_eq!(counted(&store.world()), 18);
        drop(store);
        assert_eq!(counted(&place.open().await.world()), 18);
    }
}

#[tokio::test]
async fn two_servers_on_one_database_see_each_other_and_lose_nothing() {
    let place = Place::postgres();
    let (one, other) = (place.open().await, place.open().await);
    one.execute(begin_counting).await.unwrap();
    assert_eq!(counted(&other.fresh().await.unwrap()), 0);
    let mut running = tokio::task::JoinSet::new();
    for n in 0..200 {
        let (mine, theirs) =
            if n % 2 == 0 { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) };
        running.spawn(async move {
            let after = count(&mine).await.unwrap();
            assert!(
                counted(&theirs.fresh().await.unwrap()) >= counted(&after),
                "an answered write is seen elsewhere"
            );
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    assert_eq!(counted(&one.fresh().await.unwrap()), 200);
    // The other server also learns of a change without a request.
    count(&one).await.unwrap();
    let mut seen = other.subscribe();
    tokio::time::timeout(Duration::from_secs(30), seen.wait_for(|world| counted(world) == 201))
        .await
        .unwrap()
        .unwrap();
    let flags = place.server().sql("meridian", "SELECT * FROM router_extra_attributes").unwrap();
    assert_eq!(flags.trim(), format!("{COUNTER}|t|f"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_dies_and_comes_back_has_each_answered_request_once() {
    let place = Place::postgres();
    let store = place.open().await;
    store.execute(begin_counting).await.unwrap();
    let writing = store.clone();
    let writer = tokio::spawn(async move {
        let mut answered = 0;
        for _ in 0..300 {
            match count(&writing).await {
                Ok(_) => answered += 1,
                Err(fault) => assert_eq!(fault.status, 503, "{fault}"),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        answered
    });
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        tokio::task::block_in_place(|| {
            place.server().daemon().kill().unwrap();
            place.server().start_again().unwrap();
        });
    }
    let answered = writer.await.unwrap();
    assert!(answered > 0);
    assert_eq!(counted(&store.fresh().await.unwrap()), answered);
}

/// A proxy between a store and its server. It can cut the connection at the worst moment: after the commit, before the reply.
struct Wire {
    url: Url,
    /// Whether to drop the next reply to a COMMIT.
    cut: Arc<AtomicBool>,
    /// Whether to drop everything after that, too.
    dead: Arc<AtomicBool>,
}

impl Wire {
    async fn to(server: &Postgres) -> Wire {
        let direct = server.url("meridian");
        let socket = server.socket();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (user, at) = (direct.split('@').next().unwrap(), listener.local_addr().unwrap());
        let url = format!("{user}@{at}/meridian").parse().unwrap();
        let (cut, dead) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let wire = Wire { url, cut: Arc::clone(&cut), dead: Arc::clone(&dead) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !dead.load(Ordering::SeqCst) {
                    tokio::spawn(pass(client, socket.clone(), Arc::clone(&cut)));
                }
            }
        });
        wire
    }
}

async fn pass(client: TcpStream, socket: PathBuf, cut: Arc<AtomicBool>) {
    let server = UnixStream::connect(socket).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = from_server.read(&mut buffer).await {
        let told = &buffer[..length];
        let committed = told.windows(7).any(|word| word == b"COMMIT\0");
        if length == 0 || (committed && cut.swap(false, Ordering::SeqCst)) {
            break;
        }
        if to_client.write_all(told).await.is_err() {
            break;
        }
    }
    there.abort();
}

#[tokio::test]
async fn a_change_whose_end_was_not_answered_is_not_made_twice() {
    let place = Place::postgres();
    let wire = Wire::to(place.server()).await;
    let store = open(&wire.url).await.unwrap();
    store.execute(begin_counting).await.unwrap();
    for _ in 0..3 {
        wire.cut.store(true, Ordering::SeqCst);
        count(&store).await.unwrap();
        assert!(!wire.cut.load(Ordering::SeqCst), "the answer was lost");
    }
    assert_eq!(counted(&store.fresh().await.unwrap()), 3);
    assert_eq!(counted(&place.open().await.world()), 3);
}

#[tokio::test]
async fn a_change_that_nobody_can_tell_of_is_answered_so_and_not_made_twice() {
    let place = Place::postgres();
    let wire = Wire::to(place.server()).await;
    let store = open(&wire.url).await.unwrap();
    store.execute(begin_counting).await.unwrap();
    wire.dead.store(true, Ordering::SeqCst);
    wire.cut.store(true, Ordering::SeqCst);
    let fault = count(&store).await.unwrap_err();
    assert_eq!(fault.status, 503, "{fault}");
    assert!(fault.to_string().contains("Check whether it was made"), "{fault}");
    wire.dead.store(false, Ordering::SeqCst);
    assert_eq!(counted(&store.fresh().await.unwrap()), 1, "it was made, once");
    assert_eq!(counted(&count(&store).await.unwrap()), 2, "and the store goes on");
}

#[tokio::test]
async fn a_file_is_for_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.db");
    let store = open(&Url::Sqlite(path.clone())).await.unwrap();
    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    // Another directory and another file name: only the inode is the same.
    let elsewhere = tempfile::tempdir_in(dir.path()).unwrap();
    let hard_link = elsewhere.path().join("other.db");
    std::fs::hard_link(&path, &hard_link).unwrap();
    for path in [&path, &link, &hard_link] {
        let refused = open(&Url::Sqlite(path.clone())).await.unwrap_err();
        assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
        let words = refused.to_string();
        assert!(words.contains(&format!("process {}", std::process::id())), "{words}");
    }
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(["api.db", "api.db-wal", "api.db.lock"].map(mode), [0o600; 3]);
    store.execute(begin_counting).await.unwrap();
    drop(store);
    assert_eq!(counted(&open(&Url::Sqlite(path)).await.unwrap().world()), 0, "the lock goes with its holder");
}

#[tokio::test]
async fn a_store_knows_its_own_past_and_no_other() {
    for place in Place::both() {
        let store = place.open().await;
        let mut past = vec![store.world().revision()];
        store.execute(begin_counting).await.unwrap();
        for _ in 0..3 {
            past.push(count(&store).await.unwrap().revision());
        }
        let last = *past.last().unwrap();
        for revision in past {
            assert!(store.contains(revision).await.unwrap(), "{revision}");
        }
        let another = Uuid::from_u128(1);
        for stranger in [
            Revision { store: another, ..last },
            Revision { seq: last.seq + 1, ..last },
            Revision { seq: last.seq - 1, batch: another, ..last },
            Revision { batch: another, ..last },
        ] {
            assert!(!store.contains(stranger).await.unwrap(), "{stranger}");
        }
    }
}

#[tokio::test]
async fn a_database_restored_from_a_backup_is_read_anew() {
    let place = Place::postgres();
    let store = place.open().await;
    store.execute(begin_counting).await.unwrap();
    count(&store).await.unwrap();
    let before = store.world().revision();
    // The backup is one change behind, and gets other changes before this server reads it.
    let batch = Uuid::from_u128(0xbac);
    let restore = format!(
        "UPDATE changes SET batch = '{batch}' WHERE seq = 2;
         UPDATE routers SET body = replace(body, '\"revision\":1', '\"revision\":7');"
    );
    place.server().sql("meridian", &restore).unwrap();
    let world = store.fresh().await.unwrap();
    assert_eq!((world.seq(), world.revision().batch), (before.seq, batch));
    assert_eq!(counted(&world), 7, "it shows what the database has");
    assert_eq!(world.restores(), 1);
    assert!(!store.contains(before).await.unwrap());
    assert_eq!(counted(&count(&store).await.unwrap()), 8, "and goes on from there");
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_says_why() {
    let nowhere = open(&Url::Sqlite("/nowhere/at/all/api.db".into())).await.unwrap_err();
    assert!(nowhere.to_string().contains("/nowhere/at/all/api.db"), "{nowhere}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.db");
    std::fs::write(&path, "this is not a database, but long enough to be looked at as one".repeat(100))
        .unwrap();
    let garbage = open(&Url::Sqlite(path)).await.unwrap_err();
    assert!(!garbage.is_transient(), "{garbage}");
    let silent = open(&"postgres://nobody@127.0.0.1:1/none".parse().unwrap()).await.unwrap_err();
    assert!(silent.is_transient(), "{silent}");
}

fn sqlite(path: &Path, statement: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(statement).unwrap();
}
