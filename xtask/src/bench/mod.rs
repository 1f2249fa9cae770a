//! `cargo xtask bench`: our client, C's and Python's on the same real servers, one after the other in the same run.
//!
//! `rows` says what the servers hold, `rpc` fills them, `peer` starts and measures the clients, `report` prints.

mod lab;
mod meter;
mod peer;
mod python;
mod report;
mod rows;
mod rpc;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::peer::{Load, Peer, Program, Tool};
use self::report::{Goal, Report, Who};
use self::rows::{Kind, uuid};
use self::rpc::Rpc;
use crate::command::{cargo, heading, output, run, target_dir};
use crate::packages::{self, Need};
use central::{Database, Server, end_leftover, find_program};

/// How many rows go into one transaction, and how many are inserted in all by us and by the slower others.
const INSERTS: [(usize, usize, usize); 3] = [(1, 1_000, 300), (100, 10_000, 2_000), (1_000, 20_000, 4_000)];

/// What `cargo xtask bench` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_enum, default_value_t = Subject::Ovsdb)]
    subject: Subject,
    /// How many ports the databases hold, several sizes separated by commas
    #[arg(long, value_delimiter = ',', default_value = "2000,20000,100000", value_parser = size)]
    rows: Vec<usize>,
    /// How many changes to follow at each size
    #[arg(long, default_value_t = 1200, value_parser = size)]
    changes: usize,
    /// Of the lab, leave out what takes minutes: the build of the root file system and the whole suite
    #[arg(long)]
    quick: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// The OVSDB client: initial load, change to callback, inserts
    Ovsdb,
    /// The lab: how fast it is there, how little it takes
    Lab,
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

pub(crate) fn bench(args: &Args) -> Result<ExitCode> {
    if matches!(args.subject, Subject::Lab) {
        return lab::bench(args.output, args.quick);
    }
    packages::ensure(Need::Bench)?;
    let python = python::environment()?;
    heading("building our side, optimised");
    run(cargo().args(["build", "--quiet", "--release", "--package", "ovsdb-bench"]))?;
    let meridian = target_dir().join("release/ovsdb-bench");
    let dir = ScratchDir::new()?;
    let mut bench = Run { dir: &dir.0, meridian, python, changes: args.changes, report: Report::default() };
    for &rows in &args.rows {
        bench.size(rows)?;
    }
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

/// One run: where its servers live and what was measured so far.
struct Run<'a> {
    dir: &'a Path,
    meridian: PathBuf,
    python: PathBuf,
    changes: usize,
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
            for who in [Who::Meridian, Who::C, Who::Python] {
                eprintln!("    {who:?}");
                let (mut peer, load) = self.start(who, &dir, &server, database)?;
                self.add_load(rows, database, who, &load);
                match database {
                    Database::Southbound => self.follow(&mut peer, &mut writer, rows, who)?,
                    Database::Northbound => self.insert(&mut peer, &mut writer, rows, who)?,
                }
            }
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
        self.report.add(rows, &what, "CPU s", who, load.cpu_seconds, Some(Goal::ShareOfC(0.2)));
        self.report.add(rows, &what, "wall s", who, load.seconds, None);
        self.report.add(rows, &what, "peak MiB", who, load.peak_mib, Some(Goal::ShareOfC(0.15)));
        let note = format!("{who:?}: {}", load.note);
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }

    fn follow(&mut self, peer: &mut Peer, writer: &mut Rpc, rows: usize, who: Who) -> Result<()> {
        let first = who as usize * self.changes;
        let change = peer.changes(writer, rows, first..first + self.changes)?;
        let what = "change to callback";
        self.report.add(rows, what, "CPU us", who, change.cpu_us, Some(Goal::ShareOfC(0.5)));
        self.report.add(rows, what, "median us", who, change.median_us, None);
        self.report.add(rows, what, "99th % us", who, change.p99_us, None);
        Ok(())
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
                "CPU is user and system time of the client's process, all threads; peak MiB its VmHWM after the load.",
                "Load: C's tools monitor every column of every table (they cannot do less); Python registers the two \
                 tables with all their columns, as Neutron's agents do; we ask for the columns the agents use.",
                "Change to callback: one change every 2 ms by another process. CPU of C is that of its daemon applying \
                 the changes with no command running, so without any callback; its latency is that of `wait-until`, \
                 the only way it tells of a change, and includes the answer on its control socket.",
                "Insert: the same columns for all. C gets `create ... -- add Logical_Switch ...` through its control \
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

/// A directory for the servers of one run, removed at its end. A signal ends what runs in it first: the servers are in
/// process groups of their own, and C's daemons have no parent.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new() -> Result<ScratchDir> {
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
    let entries =
        |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    for file in entries(dir).flat_map(|sub| entries(&sub).collect::<Vec<_>>()) {
        if file.extension().is_some_and(|extension| extension == "pid")
            && let Err(error) = end_leftover(&file)
        {
            eprintln!("{error:#}");
        }
    }
    let _ = std::fs::remove_dir_all(dir);
}
