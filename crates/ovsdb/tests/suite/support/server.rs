//! Real ovsdb-servers: standalone, clustered, relaying. Each ends when its value is dropped.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ovsdb::client::{Dialer, Rpc};
use ovsdb::session::Remotes;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::PATIENCE;

/// One ovsdb-server.
pub struct Server {
    child: Option<Child>,
    dir: PathBuf,
    /// Databases to serve: files, or `relay:...`.
    databases: Vec<String>,
    options: Vec<String>,
    /// Ports by method, once they are known.
    ports: Vec<(Method, u16)>,
}

/// The listener beside the unix socket: method and address. The addresses differ, because the server's log does not name methods.
type Method = (&'static str, &'static str);
const TCP: Method = ("ptcp", "127.0.0.1");
const SSL: Method = ("pssl", "127.0.0.2");

/// A standalone server with a database of this schema, in a directory of its own.
pub struct Standalone {
    pub server: Server,
    pub dir: TempDir,
}

impl std::ops::Deref for Standalone {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.server
    }
}

impl std::ops::DerefMut for Standalone {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}

impl Standalone {
    /// Starts a server that listens at a unix socket and TCP.
    pub fn start(schema: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::start_in(dir, schema, &[])
    }

    /// Starts a server with further options.
    pub fn start_in(dir: TempDir, schema: &str, options: &[String]) -> Self {
        let database = create_database(dir.path(), "db", schema);
        let mut server = Server::new(&dir.path().join("server"), vec![database.display().to_string()]);
        server.options = options.to_vec();
        server.run();
        Self { server, dir }
    }

    /// The database's file.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("db")
    }
}

/// Creates a database file with this schema.
pub fn create_database(dir: &Path, name: &str, schema: &str) -> PathBuf {
    let (file, text) = (dir.join(name), dir.join(format!("{name}.ovsschema")));
    std::fs::write(&text, schema).unwrap();
    tool(&["create", path(&file), path(&text)]);
    file
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs ovsdb-tool.
pub fn tool(arguments: &[&str]) {
    run("ovsdb-tool", arguments);
}

/// Runs a program that must succeed; returns its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} does not run: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}{err}");
    out.into_owned()
}

impl Server {
    /// A server that is not running yet.
    pub fn new(dir: &Path, databases: Vec<String>) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        Self { child: None, dir: dir.into(), databases, options: Vec::new(), ports: Vec::new() }
    }

    /// Starts the server on its previous ports and waits until it answers. If another program uses a port meanwhile, it waits for the port.
    pub fn run(&mut self) {
        let begin = Instant::now();
        loop {
            self.spawn();
            let open = |(method, port): &(Method, u16)| TcpStream::connect((method.1, *port)).is_ok();
            if self.ports.iter().all(open) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "ovsdb-server does not get its ports {:?}", self.ports);
            self.kill();
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = self.dir.join("log");
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new("ovsdb-server");
        command.env("OVS_RUNDIR", &self.dir).current_dir(&self.dir);
        command.arg(format!("--unixctl={}", self.control().display()));
        command.args(["-vconsole:off", "-vfile:info", "--no-chdir"]);
        command.arg(format!("--log-file={}", log.display()));
        command.arg(format!("--remote=punix:{}", self.socket().display()));
        let mut methods = vec![TCP];
        if self.options.iter().any(|option| option.starts_with("--private-key")) {
            methods.push(SSL);
        }
        for method in &methods {
            let known = self.ports.iter().find(|(known, _)| known == method).map_or(0, |(_, port)| *port);
            command.arg(format!("--remote={}:{known}:{}", method.0, method.1));
        }
        command.args(&self.options).args(&self.databases);
        let output = File::create(self.dir.join("output")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).spawn();
        self.child = Some(child.expect("ovsdb-server is installed"));
        self.wait_until("it answers", |server| UnixStream::connect(server.socket()).is_ok());
        for method in methods {
            if !self.ports.iter().any(|(known, _)| *known == method) {
                let mut port = None;
                self.wait_until("it names its port", |server| {
                    port = server.logged_port(method);
                    port.is_some()
                });
                self.ports.extend(port.map(|port| (method, port)));
            }
        }
    }

    fn logged_port(&self, (_, address): Method) -> Option<u16> {
        let log = std::fs::read_to_string(self.dir.join("log")).ok()?;
        let words = format!("|0:{address}: listening on port ");
        log.lines().find_map(|line| line.split_once(&words)?.1.trim().parse().ok())
    }

    fn wait_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !done(self) {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            let output = || std::fs::read_to_string(self.dir.join("output")).unwrap_or_default();
            assert!(ended.is_none(), "ovsdb-server ended before {what}: {}", output());
            assert!(
                begin.elapsed() < PATIENCE,
                "ovsdb-server: not within {PATIENCE:?}: {what}: {}",
                output()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    /// Its control socket.
    pub fn control(&self) -> PathBuf {
        self.dir.join("ctl")
    }

    /// `unix:...`
    pub fn unix(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// `tcp:...`
    pub fn tcp(&self) -> String {
        format!("tcp:{}:{}", TCP.1, self.port(TCP))
    }

    /// `ssl:...`
    pub fn ssl(&self) -> String {
        format!("ssl:{}:{}", SSL.1, self.port(SSL))
    }

    fn port(&self, method: Method) -> u16 {
        self.ports.iter().find(|(known, _)| *known == method).expect("the server listens there").1
    }

    /// A plain connection.
    pub async fn rpc(&self) -> Rpc {
        let remotes: Remotes = self.unix().parse().unwrap();
        Rpc::connect(&remotes, &Dialer::default(), PATIENCE).await.unwrap()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, and waits for it.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Stops the server with SIGSTOP: its connections stay, and it does not answer.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A RAFT cluster of one.
pub struct Member {
    pub server: Server,
    pub dir: TempDir,
    database: String,
}

impl Member {
    /// Starts it and waits until it leads.
    pub async fn start(schema: &str, database: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (file, text) = (dir.path().join("db"), dir.path().join("schema"));
        std::fs::write(&text, schema).unwrap();
        tool(&["create-cluster", path(&file), path(&text), "unix:raft"]);
        let mut server = Server::new(&dir.path().join("server"), vec![file.display().to_string()]);
        server.run();
        let member = Self { server, dir, database: database.into() };
        member.leads(&member.server).await;
        member
    }

    async fn leads(&self, server: &Server) {
        super::eventually("the member leads", async || {
            server.status(&self.database).await.filter(|status| status.leader && status.connected)
        })
        .await;
    }

    /// The same member at another address, which no client dials. The member must be stopped at its own.
    pub async fn elsewhere(&self) -> Server {
        let file = self.dir.path().join("db");
        let mut server = Server::new(&self.dir.path().join("elsewhere"), vec![file.display().to_string()]);
        server.run();
        self.leads(&server).await;
        server
    }
}

/// A relay and the server that it relays.
pub struct Relay {
    pub server: Server,
    pub source: Standalone,
}

impl Relay {
    /// Starts both and waits until they have found each other.
    pub async fn start(schema: &str, database: &str) -> Self {
        let source = Standalone::start(schema);
        let relayed = format!("relay:{database}:{}", source.unix());
        let mut server = Server::new(&source.dir.path().join("relay"), vec![relayed]);
        server.run();
        super::eventually("the relay has its source", async || {
            server.status(database).await.filter(|status| status.connected && status.schema)
        })
        .await;
        Self { server, source }
    }
}

/// Three servers that share one database by RAFT.
pub struct Cluster {
    pub members: Vec<Server>,
    database: String,
    _dir: TempDir,
}

impl Cluster {
    /// Starts three and waits until they have found each other.
    pub async fn start(schema: &str, database: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("schema");
        std::fs::write(&text, schema).unwrap();
        // Sockets, as a member's own address must be known, and kept, before it runs.
        let addresses: Vec<String> =
            (0..3).map(|at| format!("unix:{}", dir.path().join(format!("raft{at}")).display())).collect();
        let mut cluster = Self { members: Vec::new(), database: database.into(), _dir: dir };
        for (at, address) in addresses.iter().enumerate() {
            let home = cluster._dir.path().join(format!("member{at}"));
            std::fs::create_dir(&home).unwrap();
            let file = home.join("db");
            if at == 0 {
                tool(&["--election-timer=1000", "create-cluster", path(&file), path(&text), address]);
            } else {
                tool(&["join-cluster", path(&file), database, address, &addresses[0]]);
            }
            let mut server = Server::new(&home, vec![file.display().to_string()]);
            server.run();
            cluster.members.push(server);
            let member = &cluster.members[at];
            super::eventually("the member joins", async || {
                member.status(database).await.filter(|status| status.connected && status.schema)
            })
            .await;
        }
        cluster
    }

    /// All remotes in the order of the members.
    pub fn remotes(&self) -> String {
        self.members.iter().map(Server::tcp).collect::<Vec<_>>().join(",")
    }

    /// Makes the leader transfer its leadership to another member.
    pub fn transfer_leadership(&self, leader: usize) {
        let control = self.members[leader].control();
        run("ovs-appctl", &["-t", path(&control), "cluster/failure-test", "transfer-leadership"]);
    }

    /// Waits for a leader among those that run; its position.
    pub async fn leader(&self) -> usize {
        super::eventually("there is a leader", async || {
            for (at, member) in self.members.iter().enumerate().filter(|(_, member)| member.is_running()) {
                if member.status(&self.database).await.is_some_and(|status| status.leader && status.connected)
                {
                    return Some(at);
                }
            }
            None
        })
        .await
    }
}

/// The server's description of a database.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub connected: bool,
    pub leader: bool,
    pub schema: bool,
}

impl Server {
    /// The server's description of a database; `None` if it does not answer soon.
    pub async fn status(&self, database: &str) -> Option<Status> {
        let remotes: Remotes = self.unix().parse().unwrap();
        let mut rpc = Rpc::connect(&remotes, &Dialer::default(), Duration::from_secs(1)).await.ok()?;
        let select =
            serde_json::json!({"op": "select", "table": "Database", "where": [["name", "==", database]]});
        let answer = rpc.call("transact", &("_Server", select)).await.ok()?;
        let row = answer.get(0)?.get("rows")?.get(0)?;
        Some(Status {
            connected: row.get("connected")?.as_bool()?,
            leader: row.get("leader")?.as_bool()?,
            schema: row.get("schema")?.is_string(),
        })
    }
}
