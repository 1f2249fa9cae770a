//! A server under measurement with its OVN and its SQL database: starts, kills, restarts, and CPU and memory figures.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use central::{Database, Server, find_program};
use lab::postgres::Postgres;
use lab::relay::Relay;
use serde_json::Value;

use crate::command::output;
use crate::neutron::add_chassis;
use ::lab::meter::cpu_seconds;
use ::lab::rpc::Rpc;

/// The store of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sql {
    Sqlite,
    Postgres,
}

/// The OVN behind the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ovn {
    /// The server's own, with ovn-northd.
    Dev,
    /// Two databases without ovn-northd, which would occupy the whole machine at these sizes.
    Databases,
}

/// Timeout until the server listens.
const START: Duration = Duration::from_secs(120);
/// Timeout until the server has nothing left to do.
const SETTLE: Duration = Duration::from_secs(120);
/// The name of PostgreSQL's database.
const DATABASE: &str = "meridian";

/// A running server.
pub(super) struct Cloud {
    dir: PathBuf,
    command: Vec<String>,
    child: Child,
    /// Where it listens.
    pub(super) url: String,
    /// From its start until it listened, the last time.
    pub(super) ready: Duration,
    nb: Option<Server>,
    _sb: Option<Server>,
    postgres: Option<Postgres>,
}

impl Cloud {
    /// Starts a server in a directory of its own.
    pub(super) fn start(program: &Path, dir: &Path, sql: Sql, ovn: Ovn) -> Result<Cloud> {
        let central = dir.join("ovn");
        fs::create_dir_all(&central)?;
        let mut command = vec![program.display().to_string(), "server".to_owned()];
        let mut option = |name: &str, value: String| command.extend([name.to_owned(), value]);
        option("--listen", "127.0.0.1:0".to_owned());
        option("--auth", "none".to_owned());
        option("--metrics-listen", "127.0.0.1:0".to_owned());
        option("--lb-listen", "none".to_owned());
        option("--data-dir", dir.display().to_string());
        let postgres = match sql {
            Sql::Sqlite => None,
            Sql::Postgres => {
                let postgres = Postgres::start(&dir.join("pg"))?;
                postgres.create_database(DATABASE)?;
                option("--database", postgres.url(DATABASE));
                Some(postgres)
            }
        };
        let (mut nb, mut sb) = (None, None);
        match ovn {
            Ovn::Dev => command.push("--dev".to_owned()),
            Ovn::Databases => {
                for (database, place, flag, tool) in [
                    (Database::Northbound, &mut nb, "--nb", "ovn-nbctl"),
                    (Database::Southbound, &mut sb, "--sb", "ovn-sbctl"),
                ] {
                    let server = Server::start(&central, database)?;
                    // The one row that ovn-northd would make.
                    output(
                        Command::new(find_program(tool)?)
                            .arg(format!("--db={}", server.remote()))
                            .arg("init"),
                    )?;
                    option(flag, server.remote());
                    *place = Some(server);
                }
            }
        }
        let (child, url, ready) = spawn(dir, &command)?;
        Ok(Cloud { dir: dir.to_owned(), command, child, url, ready, nb, _sb: sb, postgres })
    }

    /// Starts another server on the same databases, which stay this one's.
    pub(super) fn beside(&self, dir: &Path) -> Result<Cloud> {
        fs::create_dir_all(dir)?;
        let (ours, theirs) = (self.dir.display().to_string(), dir.display().to_string());
        self.instead(dir, |word| (word == ours).then(|| theirs.clone()))
    }

    /// The same, which reaches PostgreSQL and the Northbound through relays.
    pub(super) fn behind(&self, dir: &Path, postgres: &Relay, northbound: &Relay) -> Result<Cloud> {
        fs::create_dir_all(dir)?;
        let (ours, theirs) = (self.dir.display().to_string(), dir.display().to_string());
        let direct = self.postgres()?.url(DATABASE);
        let through = format!("postgres://meridian@{}/{DATABASE}", postgres.address());
        let (nb, relayed) = (self.remote(Database::Northbound), format!("tcp:{}", northbound.address()));
        self.instead(dir, |word| match word {
            _ if word == ours => Some(theirs.clone()),
            _ if word == direct => Some(through.clone()),
            _ if word == nb => Some(relayed.clone()),
            _ => None,
        })
    }

    /// Starts another server with other arguments.
    fn instead(&self, dir: &Path, other: impl Fn(&str) -> Option<String>) -> Result<Cloud> {
        let command: Vec<_> =
            self.command.iter().map(|word| other(word).unwrap_or_else(|| word.clone())).collect();
        let (child, url, ready) = spawn(dir, &command)?;
        Ok(Cloud { dir: dir.to_owned(), command, child, url, ready, nb: None, _sb: None, postgres: None })
    }

    /// The PostgreSQL that it was started with.
    pub(super) fn postgres(&self) -> Result<&Postgres> {
        self.postgres.as_ref().context("this server has no PostgreSQL of its own")
    }

    /// Pauses or resumes the process.
    pub(super) fn pause(&self, still: bool) -> Result<()> {
        use nix::sys::signal::{Signal, kill};
        let signal = if still { Signal::SIGSTOP } else { Signal::SIGCONT };
        Ok(kill(nix::unistd::Pid::from_raw(self.pid().cast_signed()), signal)?)
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A file of a database of OVN: its socket (`sock`), its contents (`db`).
    pub(super) fn file(&self, database: Database, suffix: &str) -> PathBuf {
        self.dir.join("ovn").join(format!("{}.{suffix}", database.short()))
    }

    /// How a client names a database of OVN.
    pub(super) fn remote(&self, database: Database) -> String {
        format!("unix:{}", self.file(database, "sock").display())
    }

    /// A connection to a database of OVN.
    pub(super) fn rpc(&self, database: Database) -> Result<Rpc> {
        Rpc::connect(&self.file(database, "sock"))
    }

    /// kill -9.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again after it was killed.
    pub(super) fn again(&mut self) -> Result<()> {
        (self.child, self.url, self.ready) = spawn(&self.dir, &self.command)?;
        Ok(())
    }

    /// Ends the Northbound's server.
    pub(super) fn stop_northbound(&mut self) {
        self.nb = None;
    }

    /// Starts it again, with what it held.
    pub(super) fn start_northbound(&mut self) -> Result<()> {
        self.nb = Some(Server::start(&self.dir.join("ovn"), Database::Northbound)?);
        Ok(())
    }

    /// CPU seconds of the server and, where it uses PostgreSQL, of that.
    pub(super) fn cpu(&self) -> Result<f64> {
        let mut sum = cpu_seconds(self.pid())?;
        if let Some(pid) = self.postgres.as_ref().and_then(|postgres| postgres.daemon().pid()) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            // One that has just ended takes its time along; there are none while requests run.
            sum += children.chain([pid]).filter_map(|pid| cpu_seconds(pid).ok()).sum::<f64>();
        }
        Ok(sum)
    }

    /// Resident memory of the server in MB.
    pub(super) fn megabytes(&self) -> Result<f64> {
        megabytes_of(self.pid())
    }

    /// Waits until the server has nothing to do any more.
    pub(super) fn settle(&mut self) -> Result<()> {
        let begin = Instant::now();
        let mut before = self.cpu()?;
        let mut quiet = 0;
        while quiet < 3 {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server has ended ({status}); see {}", self.dir.join("server.log").display());
            }
            if begin.elapsed() > SETTLE {
                bail!("the server does not come to rest");
            }
            std::thread::sleep(Duration::from_millis(20));
            let now = self.cpu()?;
            quiet = if now - before < 0.001 { quiet + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }

    /// Adds chassis that carry gateways.
    pub(super) fn add_chassis(&self, numbers: std::ops::Range<usize>) -> Result<()> {
        add_chassis(&self.remote(Database::Southbound), numbers)
    }

    /// The output of `meridian plan` as JSON.
    pub(super) fn plan(&self) -> Result<Value> {
        let mut command = Command::new(&self.command[0]);
        command.args(["plan", "--output", "json", "--socket"]).arg(self.dir.join("admin.sock"));
        Ok(serde_json::from_str(&output(command.env("MERIDIAN_CONFIG", "/dev/null"))?)?)
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, kill};
        // With --dev, a server that ends in order ends its OVN too.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill(nix::unistd::Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

fn spawn(dir: &Path, command: &[String]) -> Result<(Child, String, Duration)> {
    let log = dir.join("server.log");
    let file = File::options().create(true).append(true).open(&log)?;
    let (program, args) = command.split_first().context("no program")?;
    let begin = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .env("MERIDIAN_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let out = child.stdout.take().context("the server has no output")?;
    let (send, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(|line| line.ok()).try_for_each(|line| send.send(line).ok())
    });
    let url =
        lines.recv_timeout(START).ok().and_then(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
    match url {
        Some(url) => Ok((child, url, begin.elapsed())),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the server did not start: {}", fs::read_to_string(&log).unwrap_or_default().trim_end())
        }
    }
}

/// Resident memory of a process in MB.
pub(super) fn megabytes_of(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.with_context(|| format!("process {pid} has ended"))?;
    resident(&status).context("no VmRSS in the process status")
}

/// `VmRSS` in MB.
fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_found() {
        assert_eq!(resident("VmHWM:\t 9 kB\nVmRSS:\t  1000 kB\n"), Some(1.024));
        assert_eq!(resident("VmHWM: 9 kB\n"), None);
    }
}
