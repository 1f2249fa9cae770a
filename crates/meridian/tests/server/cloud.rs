//! A server for tests: started in a directory, queried, killed, restarted.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// The time limit of waits on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server, with its own OVN central or on an existing one.
pub(crate) struct Cloud {
    dir: tempfile::TempDir,
    /// The directory with the sockets of the OVN central.
    ovn: PathBuf,
    args: Vec<String>,
    child: Child,
    urls: Urls,
}

/// The URLs of a server.
struct Urls {
    network: String,
    /// Empty if the load-balancer API is turned off.
    load_balancer: String,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    /// The header `X-Meridian-Wait`: `nb` if the Northbound has the change, `timeout` if not.
    pub(crate) waited: Option<String>,
}

impl Answer {
    /// The status, type and message of an error.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        let error = &self.body["NeutronError"];
        let text = |member: &str| error[member].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned();
        (self.status, text("type"), text("message"))
    }
}

impl Cloud {
    /// Starts a server with defaults.
    pub(crate) fn start() -> Cloud {
        Self::with(&[])
    }

    /// Starts a server with further arguments.
    pub(crate) fn with(args: &[&str]) -> Cloud {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().display().to_string();
        let args = [&["--data-dir", &data], args].concat();
        Self::within(dir, &args)
    }

    /// Starts a server in a directory, which may be a parent of its data directory.
    pub(crate) fn within(dir: tempfile::TempDir, args: &[&str]) -> Cloud {
        let ovn = dir.path().join("ovn");
        let args: Vec<String> = ["--dev"].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
        let (child, urls) = spawn(dir.path(), &args);
        Cloud { dir, ovn, args, child, urls }
    }

    /// Starts a server with a configuration file.
    pub(crate) fn configured(config: &str) -> Cloud {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CONFIG), config).unwrap();
        Self::within(dir, &["--config", CONFIG, "--data-dir", "."])
    }

    /// Writes another configuration for the next start. The server must have been started [`configured`](Self::configured).
    pub(crate) fn configure(&self, toml: &str) {
        fs::write(self.dir().join(CONFIG), toml).unwrap();
    }

    /// Starts the server again, which must fail; returns its standard error.
    pub(crate) fn does_not_start(&self) -> String {
        refused(self.dir.path(), &self.args)
    }

    /// Starts a server on the databases in a directory, which must fail; returns its standard error.
    pub(crate) fn refused(ovn: &Path, args: &[&str]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let args = outside(ovn, args);
        refused(dir.path(), &args)
    }

    /// The URL of metrics and health, as the server logs it.
    pub(crate) fn metrics_url(&self) -> String {
        let log = fs::read_to_string(self.dir().join("server.log")).unwrap();
        let line = log.lines().rfind(|line| line.contains("serving metrics")).unwrap();
        let address = line.rsplit("address=").next().unwrap();
        format!("http://{}", address.split_whitespace().next().unwrap())
    }

    /// Starts a server on databases whose sockets are in a directory. They outlive the server.
    pub(crate) fn on(ovn: &Path, args: &[&str]) -> Cloud {
        let dir = tempfile::tempdir().unwrap();
        let args = outside(ovn, args);
        let (child, urls) = spawn(dir.path(), &args);
        Cloud { dir, ovn: ovn.to_owned(), args, child, urls }
    }

    /// The data directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The directory with the sockets of the OVN central.
    pub(crate) fn ovn(&self) -> &Path {
        &self.ovn
    }

    /// The URL of the network API.
    pub(crate) fn url(&self) -> &str {
        &self.urls.network
    }

    /// The URL of the load-balancer API.
    #[track_caller]
    pub(crate) fn load_balancer_url(&self) -> &str {
        assert_ne!(self.urls.load_balancer, "", "the server has no load-balancer API");
        &self.urls.load_balancer
    }

    /// Kills the server with SIGKILL and restarts it.
    pub(crate) fn crash(&mut self) {
        self.kill();
        self.again();
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the server with SIGSTOP.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Continues the stopped server.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Sends SIGTERM and waits; returns whether the server exited with success.
    pub(crate) fn stop(&mut self) -> bool {
        self.terminate();
        self.ended()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Waits for the end of the server; returns whether it exited with success.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    /// Restarts the server after [`stop`](Self::stop) or [`kill`](Self::kill).
    pub(crate) fn again(&mut self) {
        (self.child, self.urls) = spawn(self.dir.path(), &self.args);
    }

    /// Sends one request as administrator.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.ask_as("admin", method, path, body)
    }

    /// Sends one request with a token.
    pub(crate) fn ask_as(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let text = body.map(|body| body.to_string());
        raw(&self.urls.network, &[("X-Auth-Token", token)], method, path, text.as_deref())
    }

    /// Sends one request as administrator, which the server answers when the Northbound has the change.
    pub(crate) fn settle(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let text = body.map(|body| body.to_string());
        let headers = [("X-Auth-Token", "admin"), ("X-Meridian-Wait", "nb")];
        raw(&self.urls.network, &headers, method, &format!("/v2.0/{path}"), text.as_deref())
    }

    /// Creates an object and returns it.
    #[track_caller]
    pub(crate) fn create(&self, path: &str, noun: &str, attributes: Value) -> Value {
        let answer = self.ask("POST", &format!("/v2.0/{path}"), Some(json!({ noun: attributes })));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body[noun].clone()
    }

    /// Reads an object or a list that must exist.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", &format!("/v2.0/{path}"), None);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Changes an object, which must succeed.
    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: Value) -> Value {
        let answer = self.ask("PUT", &format!("/v2.0/{path}"), Some(body));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Deletes an object, which must succeed.
    #[track_caller]
    pub(crate) fn delete(&self, path: &str) {
        let answer = self.ask("DELETE", &format!("/v2.0/{path}"), None);
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// Runs `openstack` with the arguments of a line; returns its output as JSON, or its standard error.
    pub(crate) fn openstack(&self, line: &str) -> Result<Value, String> {
        self.openstack_as(&self.no_credentials(), line)
    }

    /// The variables that make `openstack` use both APIs without credentials.
    fn no_credentials(&self) -> [(&'static str, &str); 3] {
        [
            ("OS_AUTH_TYPE", "none"),
            ("OS_ENDPOINT", &self.urls.network),
            ("OS_LOAD_BALANCER_ENDPOINT_OVERRIDE", &self.urls.load_balancer),
        ]
    }

    /// Runs `openstack` with variables for the credentials and the endpoint.
    pub(crate) fn openstack_as(
        &self,
        env: &[(impl AsRef<OsStr>, impl AsRef<OsStr>)],
        line: &str,
    ) -> Result<Value, String> {
        let mut command = openstack();
        let words = words(line);
        let out = command
            .envs(env.iter().map(|(name, value)| (name, value)))
            .args(&words)
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        Ok(serde_json::from_slice(&out.stdout).unwrap_or(Value::Null))
    }

    /// Runs several lines in one `openstack`, which is faster than a process for each; returns their outputs in order.
    #[track_caller]
    pub(crate) fn openstack_session(&self, lines: &[&str]) -> Vec<Value> {
        let mut child = openstack()
            .envs(self.no_credentials())
            .current_dir(self.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let typed: String = lines.iter().map(|line| words(line).join(" ") + "\n").collect();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        // The exit code is meaningless if the input ends without `quit`.
        assert_eq!(String::from_utf8_lossy(&out.stderr), "");
        let said = serde_json::Deserializer::from_slice(&out.stdout).into_iter();
        said.collect::<Result<_, _>>().unwrap_or_else(|error| {
            panic!("{error} in:\n{}", String::from_utf8_lossy(&out.stdout));
        })
    }

    /// Runs a command of `meridian` on the admin socket of this server; returns its output.
    #[track_caller]
    pub(crate) fn meridian(&self, words: &[&str]) -> String {
        self.try_meridian(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Like `meridian`, but returns the standard error of a failed command.
    pub(crate) fn try_meridian(&self, words: &[&str]) -> Result<String, String> {
        let out = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(words)
            .arg("--socket")
            .arg(self.dir().join("admin.sock"))
            .env("MERIDIAN_CONFIG", "/dev/null")
            .output()
            .unwrap();
        match out.status.success() {
            true => Ok(String::from_utf8(out.stdout).unwrap()),
            false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
        }
    }

    /// Waits until the plan for the Northbound is empty.
    #[track_caller]
    pub(crate) fn converged(&self) {
        let mut last = String::new();
        eventually("the plan is empty", || {
            last = match self.try_meridian(&["plan", "--output", "json"]) {
                Ok(plan) => plan,
                Err(_) => return None,
            };
            let plans: Value = serde_json::from_str(&last).unwrap();
            plans.as_array()?.iter().all(|plan| plan["steps"] == json!([])).then_some(())
        });
    }

    /// The status of the server.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.meridian(&["status", "--output", "json"])).unwrap()
    }

    /// Runs ovn-nbctl with the arguments of a line.
    #[track_caller]
    pub(crate) fn nbctl(&self, line: &str) -> String {
        ctl(&self.ovn, "nb", line)
    }

    /// Runs ovn-sbctl with the arguments of a line.
    #[track_caller]
    pub(crate) fn sbctl(&self, line: &str) -> String {
        ctl(&self.ovn, "sb", line)
    }

    /// The rows of a Northbound table, with columns as ovn-nbctl prints them. Routes to the metadata service are left out: every router
    /// with an interface has one, and they have tests of their own.
    #[track_caller]
    pub(crate) fn rows(&self, table: &str) -> Vec<Value> {
        let mut rows = rows_in(&self.ovn, "nb", table);
        rows.retain(|row| {
            table != "Logical_Router_Static_Route" || row["external_ids"]["meridian:metadata"].is_null()
        });
        rows
    }

    /// The rows of a Southbound table.
    #[track_caller]
    pub(crate) fn southbound(&self, table: &str) -> Vec<Value> {
        rows_in(&self.ovn, "sb", table)
    }

    /// The warnings of ovn-northd about the Northbound.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir().join("ovn/northd.log")).unwrap();
        // Other modules warn about a busy machine.
        log.lines().filter(|line| line.contains("|northd|")).map(str::to_owned).collect()
    }

    /// Adds a gateway-capable chassis with bridges for physical networks.
    #[track_caller]
    pub(crate) fn chassis(&self, name: &str, physical: &[&str], options: &str) {
        add_chassis(&self.ovn, name, physical, options);
    }
}

/// The `openstack` command, without variables of the environment that contain credentials.
fn openstack() -> Command {
    let mut command = Command::new(lab::python::openstack().unwrap().join("bin/openstack"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OS_") {
            command.env_remove(name);
        }
    }
    command
}

/// The arguments of an `openstack` line, with JSON output for commands that print an object or a list.
fn words(line: &str) -> Vec<&str> {
    let mut words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    // `loadbalancer status show` always prints JSON.
    let tree = words.starts_with(&["loadbalancer", "status"]);
    if !tree && ["list", "show", "create", "gateway"].iter().any(|verb| words.contains(verb)) {
        words.extend(["-f", "json"]);
    }
    words
}

/// Adds a chassis to the Southbound whose socket is in a directory.
#[track_caller]
pub(crate) fn add_chassis(ovn: &Path, name: &str, physical: &[&str], options: &str) {
    let mappings: Vec<_> = physical.iter().map(|name| format!("{name}:br-{name}")).collect();
    // The tunnel addresses of two chassis must differ.
    let taken: Vec<_> = rows_in(ovn, "sb", "Encap").iter().map(|encap| encap["ip"].clone()).collect();
    let address = (1..255).map(|n| format!("127.0.0.{n}")).find(|ip| !taken.contains(&json!(ip))).unwrap();
    ctl(ovn, "sb", &format!("chassis-add {name} geneve {address}"));
    let settings = format!(
        "set Chassis {name} hostname={name}.example other_config:ovn-cms-options=\"{options}\" \
         other_config:ovn-bridge-mappings=\"{}\"",
        mappings.join(",")
    );
    ctl(ovn, "sb", &settings);
}

/// The rows of a table in a database (`nb`, `sb`) whose socket is in a directory.
#[track_caller]
pub(crate) fn rows_in(ovn: &Path, database: &str, table: &str) -> Vec<Value> {
    rows_of(&ctl(ovn, database, &format!("--format=json --data=json list {table}")))
}

/// Runs ovn-nbctl or ovn-sbctl with the arguments of a line.
#[track_caller]
pub(crate) fn ctl(ovn: &Path, database: &str, line: &str) -> String {
    let (program, remote) = (format!("ovn-{database}ctl"), remote(ovn, database));
    let out = Command::new(central::find_program(&program).unwrap())
        .arg(format!("--db={remote}"))
        .arg("--timeout=60")
        // In a cluster, only the leader is sure to have the latest data.
        .args(Some("--no-leader-only").filter(|_| !remote.contains(',')))
        .args(line.split(' ').filter(|word| !word.is_empty()))
        .output()
        .unwrap();
    assert!(out.status.success(), "{program} {line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

impl Drop for Cloud {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A stopped process does not receive SIGTERM until it continues.
            for signal in [Signal::SIGTERM, Signal::SIGCONT] {
                let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
            }
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.dir().join("server.log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("the end of the server's log:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// Sends one request to any server, which must answer.
#[track_caller]
pub(crate) fn raw(
    url: &str,
    headers: &[(&str, &str)],
    method: &str,
    path: &str,
    body: Option<&str>,
) -> Answer {
    try_raw(url, headers, method, path, body).unwrap()
}

/// Sends one request to a server that may end meanwhile.
pub(crate) fn try_raw(
    url: &str,
    headers: &[(&str, &str)],
    method: &str,
    path: &str,
    body: Option<&str>,
) -> Result<Answer, ureq::Error> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .timeout_global(Some(PATIENCE))
        .build()
        .into();
    let mut request = ureq::http::Request::builder().method(method).uri(format!("{url}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut answer = match body {
        Some(body) => {
            agent.run(request.header("Content-Type", "application/json").body(body.to_owned()).unwrap())
        }
        None => agent.run(request.body(()).unwrap()),
    }?;
    let waited = answer.headers().get("x-meridian-wait").and_then(|value| value.to_str().ok());
    let waited = waited.map(str::to_owned);
    let text = answer.body_mut().read_to_string()?;
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(Answer { status: answer.status().as_u16(), body, waited })
}

/// Waits until `look` finds something; returns it.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The name of the configuration file in the data directory.
const CONFIG: &str = "meridian.toml";

/// The arguments of a server on the databases in a directory.
fn outside(ovn: &Path, args: &[&str]) -> Vec<String> {
    let database = |name: &str| [format!("--{name}"), remote(ovn, name)];
    let config = args.iter().position(|arg| *arg == "--config").and_then(|at| args.get(at + 1));
    let chosen = args.contains(&"--auth")
        || config.is_some_and(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("auth = ")));
    let auth: &[&str] = if chosen { &[] } else { &["--auth", "none"] };
    let args = ["--data-dir", "."].iter().chain(auth).chain(args).map(|arg| (*arg).to_owned());
    let named = |name: &&str| args.clone().any(|arg| arg == format!("--{name}"));
    let databases = ["nb", "sb"].into_iter().filter(|name| !named(name)).flat_map(database);
    databases.chain(args.clone()).collect()
}

/// The remote of a database (`nb`, `sb`) whose sockets are in a directory; for a cluster, those of all members.
fn remote(ovn: &Path, database: &str) -> String {
    let members = (0..3).map(|n| ovn.join(format!("{database}-{n}.sock"))).filter(|socket| socket.exists());
    let mut sockets: Vec<_> = members.map(|socket| format!("unix:{}", socket.display())).collect();
    if sockets.is_empty() {
        sockets.push(format!("unix:{}/{database}.sock", ovn.display()));
    }
    sockets.join(",")
}

/// The command that starts a server.
fn command(dir: &Path, args: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.arg("server");
    for flag in ["--listen", "--lb-listen", "--metrics-listen"] {
        if !args.iter().any(|arg| arg == flag) {
            command.args([flag, "127.0.0.1:0"]);
        }
    }
    command
        .args(args)
        .current_dir(dir)
        .env("MERIDIAN_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// The standard error of a server that must not start.
#[track_caller]
fn refused(dir: &Path, args: &[String]) -> String {
    let mut child = command(dir, args).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    if let Some(Ok(line)) = lines.next() {
        child.kill().unwrap();
        panic!("it started: {line}");
    }
    let out = child.wait_with_output().unwrap();
    assert!(!out.status.success());
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn spawn(dir: &Path, args: &[String]) -> (Child, Urls) {
    let log: PathBuf = dir.join("server.log");
    let mut file = File::options().create(true).append(true).open(&log).unwrap();
    writeln!(file, "--- started").unwrap();
    let mut child = command(dir, args).stderr(file).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The server prints its URLs when it is ready.
    let mut load_balancer = String::new();
    let network = lines.find_map(|line| {
        let line = line.ok()?;
        if let Some(url) = line.strip_prefix("load balancers on ") {
            url.clone_into(&mut load_balancer);
        }
        line.strip_prefix("listening on ").map(str::to_owned)
    });
    match network {
        Some(network) => (child, Urls { network, load_balancer }),
        None => {
            let status = child.wait();
            panic!("the server did not start ({status:?}):\n{}", fs::read_to_string(&log).unwrap());
        }
    }
}

/// Parses the output of `--format=json` to one object per row.
pub(crate) fn rows_of(text: &str) -> Vec<Value> {
    let table: Value = serde_json::from_str(text).unwrap();
    let headings: Vec<String> = serde_json::from_value(table["headings"].clone()).unwrap();
    let rows = table["data"].as_array().unwrap();
    rows.iter()
        .map(|row| {
            headings
                .iter()
                .zip(row.as_array().unwrap())
                .map(|(name, cell)| (name.clone(), plain(cell)))
                .collect()
        })
        .collect()
}

/// Converts OVSDB's notation to plain JSON: sets to arrays, maps to objects, UUIDs to strings.
fn plain(cell: &Value) -> Value {
    match cell.as_array().map(Vec::as_slice) {
        Some([Value::String(kind), Value::Array(items)]) if kind == "set" => {
            items.iter().map(plain).collect()
        }
        Some([Value::String(kind), Value::Array(pairs)]) if kind == "map" => {
            pairs.iter().filter_map(|pair| Some((pair[0].as_str()?.to_owned(), plain(&pair[1])))).collect()
        }
        Some([Value::String(kind), Value::String(uuid)]) if kind == "uuid" => json!(uuid),
        _ => cell.clone(),
    }
}
