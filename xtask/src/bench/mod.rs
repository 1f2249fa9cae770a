//! `cargo xtask bench ovsdb`: runs our client, C's and Python's on the same real servers, one after the other in the same run.
//! `api`, `lb`, `bgp` and `lab` measure the two APIs of the server, the BGP agent and the lab.
//!
//! `rows` creates the content of the servers, `peer` starts and measures the clients, `report` prints.

mod api;
mod bgp;
mod journal;
mod lab;
pub(crate) mod lb;
mod peer;
mod python;
mod report;
mod rows;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::peer::{Change, Load, Peer, Program, TOGETHER, Tool};
use self::report::{Goal, Report, Who};
use self::rows::{Kind, uuid};
use crate::command::{cargo, heading, output, run, target_dir};
use crate::packages::{self, Need};
use ::lab::rpc::Rpc;
use central::{Database, Server, end_leftover, find_program};

/// The number of rows per transaction, and the total number of inserted rows for us and for the slower clients.
const INSERTS: [(usize, usize, usize); 3] = [(1, 1_000, 300), (100, 10_000, 2_000), (1_000, 20_000, 4_000)];

/// The smallest number of rows for which the goals of the initial load hold.
const GOAL_ROWS: usize = 100_000;

/// The line for single changes.
const CALLBACK: &str = "change to callback";

/// The line that compares with a C client that checks each change and calls nobody back.
const LOOKED: &str = "change, C looks and tells nobody";

/// The line that compares with a C client that does not check changes.
const UNTOLD: &str = "change, C without a callback";

/// The line with the cost of a wake-up.
const FLOOR: &str = "change, epoll_wait and read alone";

/// The line without the cost of a wake-up.
const BEYOND: &str = "change to callback, beyond being woken";

/// The options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The part to measure
    #[arg(value_enum, default_value_t = Subject::Ovsdb)]
    subject: Subject,
    /// Number of ports in the databases; several sizes separated by commas
    #[arg(long, value_delimiter = ',', default_value = "2000,20000,100000", value_parser = size)]
    rows: Vec<usize>,
    /// Number of changes at each size: one half one by one, the other half a hundred per transaction
    #[arg(long, default_value_t = 2400, value_parser = changes)]
    changes: usize,
    /// Number of ports in the API server [default: 1000,10000,50000], or exposed by the BGP agent [default: 10,100,1000];
    /// several sizes separated by commas
    #[arg(long, value_delimiter = ',', value_parser = size)]
    ports: Vec<usize>,
    /// Also run slow parts: 100,000 ports and 1,000 kills of the API server, ovn-bgp-agent at every size, 1,000 members of
    /// Octavia
    #[arg(long)]
    full: bool,
    /// Leave out the peers: Neutron and Octavia, which take minutes to install and start, and ovn-bgp-agent
    #[arg(long)]
    alone: bool,
    /// Leave out slow parts: for the lab, the build of the root file system and the whole suite; for the BGP agent, 10,000
    /// ports. For the APIs, use tiny sizes whose figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Number of rounds; the best counts. Python, which is slow, gets one
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// The OVSDB client: initial load, change to callback, inserts
    Ovsdb,
    /// The network API server: cost of requests, growth, recovery
    Api,
    /// The lab: speed and size
    Lab,
    /// The BGP agent: start-up, changes, resync, memory
    Bgp,
    /// The load-balancer API: time to ACTIVE, cost of members, cascade, memory
    Lb,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

fn size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rows) if (1..=1_000_000).contains(&rows) => Ok(rows),
        _ => Err("a number from 1 to 1000000".to_owned()),
    }
}

/// The changes for each kind of measurement.
fn changes(text: &str) -> Result<usize, String> {
    size(text).ok().filter(|changes| *changes >= 12).ok_or_else(|| "a number from 12 to 1000000".to_owned())
}

pub(crate) fn bench(args: &Args) -> Result<ExitCode> {
    let ports = |usual: &[usize]| if args.ports.is_empty() { usual.to_vec() } else { args.ports.clone() };
    match args.subject {
        Subject::Lab => return lab::bench(args.output, args.quick),
        Subject::Bgp => {
            let Args { output, quick, full, alone, rounds, .. } = *args;
            let ports = &ports(&[10, 100, 1000]);
            return bgp::bench(&bgp::Order { output, quick, full, alone, rounds, ports });
        }
        Subject::Api => {
            let sizes = match args.quick {
                true => api::Sizes::tiny(),
                false => api::Sizes::new(&ports(&[1000, 10_000, 50_000]), args.full),
            };
            return api::bench(args.output, sizes, usize::from(args.rounds), args.alone);
        }
        Subject::Lb => {
            let Args { output, quick, full, alone, rounds, .. } = *args;
            return lb::bench(&lb::Order { output, quick, full, alone, rounds });
        }
        Subject::Ovsdb => {}
    }
    packages::ensure(Need::Bench)?;
    let python = python::environment()?;
    let meridian = optimised()?.join("ovsdb-bench");
    let dir = ScratchDir::new()?;
    let (rounds, changes) = (usize::from(args.rounds), args.changes);
    let mut bench = Run { dir: &dir.0, meridian, python, changes, rounds, report: Report::default() };
    for &rows in &args.rows {
        bench.size(rows)?;
    }
    bench.plans(&args.rows)?;
    bench.notes()?;
    let mut report = bench.report;
    report.add_growth();
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Table => {
            println!("{}", report.table());
            let (met, judged) = report.goals();
            println!("{met} of {judged} goals met");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One run: the directory of its servers and the measurements so far.
struct Run<'a> {
    dir: &'a Path,
    meridian: PathBuf,
    python: PathBuf,
    changes: usize,
    rounds: usize,
    report: Report,
}

impl Run<'_> {
    /// Everything at one size.
    fn size(&mut self, rows: usize) -> Result<()> {
        for database in [Database::Southbound, Database::Northbound] {
            heading(&format!("{}: {rows} ports", database.name()));
            let dir = self.dir.join(format!("{}-{rows}", database.short()));
            std::fs::create_dir_all(&dir)?;
            let server = Server::start(&dir, database)?;
            let mut writer = Rpc::connect(server.socket())?;
            fill(&mut writer, database, rows)?;
            let mut sequence = 0;
            // By turns, so that what else the machine does meanwhile falls on all alike.
            for round in 0..self.rounds {
                for who in [Who::Meridian, Who::C, Who::Python] {
                    if who == Who::Python && round > 0 {
                        continue;
                    }
                    eprintln!("    {who:?}, round {}", round + 1);
                    let (mut peer, load) = self.start(who, &dir, &server, database)?;
                    self.add_load(rows, database, who, &load);
                    match database {
                        Database::Southbound => {
                            let change = peer.changes(&mut writer, rows, self.numbers(&mut sequence))?;
                            self.add_change(rows, who, &change);
                        }
                        Database::Northbound => self.insert(&mut peer, &mut writer, rows, who)?,
                    }
                }
                if database == Database::Southbound {
                    let mut command = Command::new(&self.meridian);
                    command.arg("--floor");
                    let (mut peer, _) = Program::start(command, &server, database)?;
                    let cpu_us = peer.counts(&mut writer, rows, self.numbers(&mut sequence))?;
                    self.report.add(rows, FLOOR, "CPU us", Who::Meridian, cpu_us, None);
                }
            }
        }
        self.report.add_beyond(rows, CALLBACK, FLOOR, BEYOND, Goal::ShareOfC(0.5));
        Ok(())
    }

    /// The cost of the write target's plan, which no other client has. Sizes take turns, so that they can be compared.
    fn plans(&mut self, sizes: &[usize]) -> Result<()> {
        heading("plans");
        for _ in 0..self.rounds {
            for &rows in sizes {
                self.plan(rows)?;
            }
        }
        Ok(())
    }

    fn plan(&mut self, rows: usize) -> Result<()> {
        let mut command = Command::new(&self.meridian);
        command.arg("--plan").arg(Database::Northbound.schema()).arg(rows.to_string());
        let told: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
        for (key, what) in [
            ("new", "plan, every row new"),
            ("same", "plan, nothing to do"),
            ("one", "plan, one row changed"),
            ("gone", "plan, every row gone"),
        ] {
            let seconds = told[key].as_f64().context("no seconds")?;
            self.report.add(rows, what, "CPU s", Who::Meridian, seconds, None);
        }
        Ok(())
    }

    fn start(&self, who: Who, dir: &Path, server: &Server, database: Database) -> Result<(Peer, Load)> {
        match who {
            Who::Meridian => Program::start(Command::new(&self.meridian), server, database),
            Who::C => Tool::start(dir, server, database),
            Who::Python => {
                let mut command = Command::new(&self.python);
                command.args(["-c", include_str!("peer.py")]);
                Program::start(command, server, database)
            }
        }
    }

    fn add_load(&mut self, rows: usize, database: Database, who: Who, load: &Load) {
        let what = format!("initial load, {}", table(database));
        let goal = |share| (rows >= GOAL_ROWS).then_some(Goal::ShareOfC(share));
        self.report.add(rows, &what, "CPU s", who, load.cpu_seconds, goal(0.2));
        self.report.add(rows, &what, "wall s", who, load.seconds, None);
        self.report.add(rows, &what, "peak MiB", who, load.peak_mib, goal(0.15));
        let note = format!("{who:?}: {}", load.note);
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }

    /// Sequence numbers of changes that this server has not seen yet.
    fn numbers(&self, sequence: &mut usize) -> std::ops::Range<usize> {
        let first = *sequence;
        *sequence += self.changes;
        first..*sequence
    }

    fn add_change(&mut self, rows: usize, who: Who, change: &Change) {
        let what = CALLBACK;
        self.report.add(rows, what, "CPU us", who, change.cpu_us, Some(Goal::ShareOfC(0.5)));
        self.report.add(rows, what, "median us", who, change.median_us, None);
        self.report.add(rows, what, "99th % us", who, change.p99_us, None);
        let together = format!("{CALLBACK}, {TOGETHER} rows a transaction");
        self.report.add(rows, &together, "CPU us/row", who, change.together_us, Some(Goal::ShareOfC(0.5)));
        let looked_us = change.looked_us.unwrap_or(change.cpu_us);
        self.report.add(rows, LOOKED, "CPU us", who, looked_us, None);
        let untold_us = change.untold_us.unwrap_or(change.cpu_us);
        self.report.add(rows, UNTOLD, "CPU us", who, untold_us, None);
        if who == Who::C {
            self.report.add(rows, FLOOR, "CPU us", who, untold_us, None);
        }
    }

    fn insert(&mut self, peer: &mut Peer, writer: &mut Rpc, rows: usize, who: Who) -> Result<()> {
        for (per_transaction, ours, others) in INSERTS {
            let total = if who == Who::Meridian { ours } else { others };
            let switch = uuid(Kind::Network, 1_000_000);
            writer.transact(Database::Northbound.name(), vec![rows::switch(switch.clone(), 0..0)])?;
            let inserted = peer.insert(&switch, rows..rows + total, per_transaction)?;
            let condition = json!([["_uuid", "==", ["uuid", switch]]]);
            let delete = json!({ "op": "delete", "table": "Logical_Switch", "where": condition });
            writer.transact(Database::Northbound.name(), vec![delete])?;
            let what = format!("insert, {per_transaction} a transaction");
            let goal = (per_transaction > 1).then_some(Goal::Value(15.0));
            self.report.add(rows, &what, "CPU us/row", who, inserted.cpu_us_per_row, goal);
            self.report.add(rows, &what, "rows/s", who, inserted.rows_per_second, None);
        }
        Ok(())
    }

    fn notes(&mut self) -> Result<()> {
        let version = output(Command::new(find_program("ovsdb-server")?).arg("--version"))?;
        let notes = &mut self.report.notes;
        notes.push(format!("server: {}", version.lines().next().unwrap_or_default()));
        notes.extend(
            [
                "CPU is user and system time of the client's process, all threads; peak MiB its VmHWM after the load. Of \
                 several rounds the best value counts, for every client and every line.",
                "Load: C's tools monitor every column of every table (they cannot do less); Python registers the two \
                 tables with all their columns, as Neutron's agents do; we ask for the columns the agents use.",
                "Load: its goals are for 100,000 rows and more. Below, a process weighs more than its rows.",
                "Change to callback: one change every 2 ms by another process. C tells of a change by `wait-until` only, so \
                 there is such a command for each, and its CPU is that of its daemon from the change on, with the command \
                 waiting already, until it has answered on its control socket. Its latency includes that answer, too.",
                "`C looks and tells nobody` is the daemon with one command that waits for the last change and is looked at with \
                 every one; `C without a callback` is the daemon while no command waits. Both stand beside ours with its \
                 callback. With a hundred rows a transaction, C looks and tells nobody as well.",
                "`epoll_wait and read alone` is a process that is woken by every change, reads it and decodes nothing: \
                 in the first column what that costs, beside what C's client costs in all. No client that is woken by \
                 each change gets below it. `beyond being woken` is what is left of ours, C's and Python's without it.",
                "Insert: the same columns for all, each client's rows in the form its interface takes before the clock \
                 starts. C gets `create ... -- add Logical_Switch ...` through its control \
                 socket, which spares it the checks of `lsp-add`. Each client waits for a transaction before it sends \
                 the next, and applies its own rows to its replica.",
            ]
            .map(str::to_owned),
        );
        Ok(())
    }
}

fn table(database: Database) -> &'static str {
    match database {
        Database::Northbound => "Logical_Switch_Port",
        Database::Southbound => "Port_Binding",
    }
}

fn fill(writer: &mut Rpc, database: Database, rows: usize) -> Result<()> {
    let transactions: Box<dyn Iterator<Item = _>> = match database {
        Database::Northbound => Box::new(rows::northbound(rows)),
        Database::Southbound => Box::new(rows::southbound(rows)),
    };
    for operations in transactions {
        writer.transact(database.name(), operations).context("cannot fill the database")?;
    }
    Ok(())
}

/// A directory for the servers of one run, removed at its end. A signal first ends the processes in it: the servers have
/// process groups of their own, and C's daemons have no parent.
pub(crate) struct ScratchDir(pub(crate) PathBuf);

impl ScratchDir {
    /// Creates the directory.
    pub(crate) fn new() -> Result<ScratchDir> {
        let dir = std::env::temp_dir().join(format!("meridian-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let scratch = dir.clone();
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                clear(&scratch);
                std::process::exit(130);
            }
        });
        Ok(ScratchDir(dir))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        clear(&self.0);
    }
}

fn clear(dir: &Path) {
    end_servers(dir);
    for file in
        files(dir).into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "pid"))
    {
        if let Err(error) = end_leftover(&file) {
            eprintln!("{error:#}");
        }
    }
    let _ = std::fs::remove_dir_all(dir);
}

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let (dirs, mut files): (Vec<_>, Vec<_>) =
        entries.map(|entry| entry.path()).partition(|path| path.is_dir() && !path.is_symlink());
    files.extend(dirs.iter().flat_map(|dir| self::files(dir)));
    files
}

/// Ends API servers that keep their data below a directory. They have no pid file. Their own child processes end after them.
fn end_servers(dir: &Path) {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        let data = words.windows(2).find(|pair| pair[0] == b"--data-dir").map(|pair| pair[1]);
        if data.is_some_and(|data| data.starts_with(dir.as_os_str().as_encoded_bytes())) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// Builds all measured programs and returns their folder. It builds all at once, because a single package would be built with
/// other features of the shared crates, and everything would be rebuilt.
fn optimised() -> Result<PathBuf> {
    heading("building our side, optimised");
    run(cargo().args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "meridian",
        "--package",
        "ovsdb-bench",
    ]))?;
    Ok(target_dir().join("release"))
}
