//! A world of the test's own, a real Northbound, and the loop between them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use central::{Central, Database, Server};
use futures_util::future::BoxFuture;
use ovsdb::ClientConfig;
use tokio::sync::watch;

use crate::desired::tests::scene::Scene;
use crate::northbound::{Backing, Northbound, Options, OvnView};
use crate::settings::Settings;
use crate::world::{Revision, World};

/// The time limit of every step on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

enum Servers {
    Whole { _central: Central },
    Databases { nb: Option<Server>, _sb: Server },
}

pub(super) struct Cloud {
    pub(super) scene: Scene,
    pub(super) ovn: OvnView,
    northbound: Option<Northbound>,
    worlds: watch::Sender<World>,
    /// The behaviour of the store behind the world.
    pub(super) backing: Arc<Behaviour>,
    servers: Servers,
    dir: tempfile::TempDir,
}

/// The switches of the fake store behind the world.
#[derive(Default)]
pub(super) struct Behaviour {
    /// The store lacks earlier revisions.
    pub(super) is_behind: AtomicBool,
    /// The store does not answer.
    pub(super) is_silent: AtomicBool,
}

impl Backing for Behaviour {
    fn contains(&self, _: Revision) -> BoxFuture<'_, Result<bool, String>> {
        Box::pin(std::future::ready(Ok(!self.is_behind.load(Ordering::Relaxed))))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn silence(&self) -> Option<Duration> {
        self.is_silent.load(Ordering::Relaxed).then_some(Duration::from_secs(2))
    }
}

impl Cloud {
    /// A cloud with ovn-northd.
    pub(super) async fn with_northd() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let _central = Central::start(dir.path()).unwrap();
        Self::on(Servers::Whole { _central }, dir).await
    }

    /// A cloud with both databases only.
    pub(super) async fn bare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let nb = Some(Server::start(dir.path(), Database::Northbound).unwrap());
        let _sb = Server::start(dir.path(), Database::Southbound).unwrap();
        Self::on(Servers::Databases { nb, _sb }, dir).await
    }

    async fn on(servers: Servers, dir: tempfile::TempDir) -> Self {
        let scene = Scene::new();
        let worlds = watch::Sender::new(scene.world().clone());
        let ovn = ovn(&dir);
        let backing = Arc::default();
        let mut cloud = Cloud { scene, ovn, northbound: None, worlds, backing, servers, dir };
        cloud.start().await;
        cloud
    }

    /// Starts a server's loop, with connections of its own.
    pub(super) async fn start(&mut self) {
        self.ovn = ovn(&self.dir);
        self.northbound = Some(start(&self.ovn, &self.worlds, &self.backing).await);
    }

    /// Another server on the same databases.
    pub(super) async fn another(&self) -> Northbound {
        self.another_with(&self.backing).await
    }

    /// Another server on the same databases, with a store of its own behaviour.
    pub(super) async fn another_with(&self, backing: &Arc<Behaviour>) -> Northbound {
        start(&ovn(&self.dir), &self.worlds, backing).await
    }

    pub(super) async fn stop(&mut self) {
        let northbound = self.northbound.take().unwrap();
        northbound.handle().stop();
        let mut status = northbound.handle().status();
        status.wait_for(|status| status.state == reconcile::State::Stopped).await.unwrap();
    }

    pub(super) fn writer(&self) -> &Northbound {
        self.northbound.as_ref().unwrap()
    }

    /// Publishes the world to the loop. Returns its sequence number.
    pub(super) fn publish(&self) -> u64 {
        let world = self.scene.world().clone();
        let seq = world.seq();
        self.worlds.send_replace(world);
        seq
    }

    /// Waits until the world is written.
    pub(super) async fn settle(&mut self) {
        let seq = self.publish();
        let writer = self.writer();
        let mut status = writer.handle().status();
        let done = tokio::time::timeout(LIMIT, writer.wait_applied(seq)).await;
        assert_eq!(done, Ok(true), "{:#?}", *status.borrow());
        // The writer reports the applied state before its loop publishes the status of that run. Until then the status still
        // has the problems of the run before.
        let clean =
            tokio::time::timeout(LIMIT, status.wait_for(|status| status.problems.is_empty())).await.is_ok();
        assert!(clean, "{:#?}", *status.borrow());
    }

    pub(super) fn nbctl(&self, args: &[&str]) -> String {
        self.ctl("ovn-nbctl", Database::Northbound, args)
    }

    pub(super) fn sbctl(&self, args: &[&str]) -> String {
        self.ctl("ovn-sbctl", Database::Southbound, args)
    }

    /// The output of ovn-trace for a packet.
    pub(super) fn trace(&self, args: &[&str]) -> String {
        self.ctl("ovn-trace", Database::Southbound, args)
    }

    fn ctl(&self, program: &str, database: Database, args: &[&str]) -> String {
        let remote = remote(&self.dir, database);
        let mut command = Command::new(program);
        command.arg(format!("--db={remote}"));
        // ovn-trace has no time-out option.
        if program != "ovn-trace" {
            command.arg("--timeout=30");
        }
        let output = command.args(args).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// One column of a table, sorted.
    pub(super) fn column(&self, table: &str, column: &str) -> Vec<String> {
        let text = self.nbctl(&[
            "--bare",
            "--format=csv",
            "--no-headings",
            &format!("--columns={column}"),
            "list",
            table,
        ]);
        let mut values: Vec<String> =
            text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        values.sort();
        values
    }

    /// Tables as strings, without northd's columns.
    pub(super) fn dump(&self, tables: &[&str]) -> Vec<String> {
        let mut all = Vec::new();
        for table in tables {
            let columns = match *table {
                "Logical_Switch_Port" => "_uuid,name,type,addresses,options,port_security,external_ids",
                "BFD" => "_uuid,logical_port,dst_ip,external_ids",
                "Logical_Router" => "_uuid,name,ports,static_routes,nat,options,external_ids",
                "Logical_Switch" => "_uuid,name,ports,other_config,external_ids",
                _ => "",
            };
            let columns = format!("--columns={columns}");
            let mut args = vec!["--format=csv", "--no-headings", "list", table];
            if columns.len() > "--columns=".len() {
                args.insert(0, &columns);
            }
            let text = self.nbctl(&args);
            let mut lines: Vec<String> = text.lines().map(|line| format!("{table}: {line}")).collect();
            lines.sort();
            all.extend(lines);
        }
        all
    }

    /// Every row that we write.
    pub(super) fn everything(&self) -> Vec<String> {
        self.dump(&[
            "Logical_Switch",
            "Logical_Switch_Port",
            "Logical_Router",
            "Logical_Router_Port",
            "Logical_Router_Static_Route",
            "NAT",
            "BFD",
            "HA_Chassis_Group",
            "HA_Chassis",
            "DHCP_Options",
            "Port_Group",
            "ACL",
        ])
    }

    /// Adds three chassis without a controller.
    pub(super) fn set_up_chassis(&self) {
        for (name, n) in ["ch1", "ch2", "ch3"].into_iter().zip(1..) {
            self.sbctl(&["chassis-add", name, "geneve", &format!("127.0.0.{n}")]);
            let host = format!("hostname=host-{name}");
            self.sbctl(&[
                "set",
                "Chassis",
                name,
                &host,
                "other_config:ovn-cms-options=enable-chassis-as-gw",
                "other_config:ovn-bridge-mappings=phy1:br-ex",
            ]);
        }
    }

    pub(super) fn stop_northbound(&mut self) {
        let Servers::Databases { nb, .. } = &mut self.servers else { panic!("northd would miss it") };
        drop(nb.take());
    }

    pub(super) fn start_northbound(&mut self) {
        let Servers::Databases { nb, .. } = &mut self.servers else { panic!("northd would miss it") };
        *nb = Some(Server::start(self.dir.path(), Database::Northbound).unwrap());
    }

    /// Deletes the file; the next server begins with an empty database.
    pub(super) fn lose_northbound(&self) {
        std::fs::remove_file(self.dir.path().join("nb.db")).unwrap();
    }
}

fn remote(dir: &tempfile::TempDir, database: Database) -> String {
    format!("unix:{}", dir.path().join(format!("{}.sock", database.short())).display())
}

fn ovn(dir: &tempfile::TempDir) -> OvnView {
    let config = |database| ClientConfig::new(remote(dir, database).parse().unwrap());
    OvnView::open(config(Database::Northbound), config(Database::Southbound), 75, &World::default())
}

async fn start(ovn: &OvnView, worlds: &watch::Sender<World>, backing: &Arc<Behaviour>) -> Northbound {
    let settings = Arc::new(Settings { unhosted_grace: 1, ..Settings::default() });
    let options = Options { verify: true, ..Options::default() };
    let backing = Arc::clone(backing);
    Northbound::start(ovn, settings, worlds.subscribe(), backing, options).await.unwrap()
}

/// Waits for an asynchronous condition.
pub(super) async fn eventually(what: &str, is: impl AsyncFn() -> bool) {
    let limit = tokio::time::Instant::now() + LIMIT;
    while !is().await {
        assert!(tokio::time::Instant::now() < limit, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
