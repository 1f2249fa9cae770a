//! `cargo xtask differential`: the same random requests to our server and to a real Neutron, and every difference between them.
//!
//! Each run begins with a seed. Short sequences of requests, as an administrator, a service, two members and a reader, go to
//! `meridian server` and to Neutron 29, which share a Keystone. Status, error type, keys and values of both answers are compared, and after
//! each sequence the lists of all objects and the Northbound. Values that each server chooses by itself (`names`) and times are left out.
//! `xtask/differential/meant.txt` names the differences that are meant, each with its reason. All others fail the run, and the run reports
//! explanations that no request needed.
//!
//! If one server accepts what the other refuses, their states differ from then on, so the sequence ends there.

mod actions;
mod cloud;
mod compare;
mod grammar;
mod meant;
mod names;
mod northbound;
mod requests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use console::style;
use serde_json::Value;

use crate::command::{cargo, heading, root, run, target_dir};
use crate::packages::{self, Need};
use crate::up;
use cloud::{Answer, Cloud};
use compare::{Difference, compare};
use meant::Judge;
use names::{Names, Side};
use requests::{Caller, Request, Requests, filled};

/// The number of random requests in a sequence. A longer one reaches rarer states, and fails later after a difference.
const SEQUENCE: usize = 45;
/// The file of meant differences.
const MEANT: &str = "xtask/differential/meant.txt";

/// The options of `cargo xtask differential`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of requests to each server
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    requests: usize,
    /// Seed of the random requests; the same seed makes the same requests
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Keep the data and the logs of both servers in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) fn differential(args: &Args) -> Result<ExitCode> {
    // An interrupted run ends by a failure, so that the servers end as well.
    let stop = up::told_to_end()?;
    let file = root().join(MEANT);
    let mut judge = Judge::parse(
        &std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?,
    )?;
    packages::ensure(Need::Neutron)?;
    heading("building meridian");
    run(cargo().args(["build", "--quiet", "--package", "meridian"]))?;
    let kept = tempfile::tempdir()?;
    let dir = match &args.keep {
        Some(dir) => std::path::absolute(dir)?,
        None => kept.path().to_owned(),
    };
    let mut cloud = Cloud::start(&target_dir().join("debug/meridian"), &dir)?;
    heading(&format!("{} requests to both servers, seed {}", args.requests, args.seed));
    let (mut sent, mut sequences) = (0, 0);
    while sent < args.requests {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted after {sent} requests");
        let seed = args.seed.wrapping_mul(1_000_003).wrapping_add(sequences);
        sent += Sequence::new(seed, &cloud).play(&mut judge)?;
        sequences += 1;
        cloud.clear()?;
        eprintln!(
            "{sent} of {} requests, {} differences unexplained",
            args.requests,
            judge.unexplained().count()
        );
    }
    report(&judge, sent, sequences)
}

fn report(judge: &Judge, sent: usize, sequences: u64) -> Result<ExitCode> {
    for line in judge.met() {
        println!("meant: {line}");
    }
    for class in judge.missed() {
        println!("note: no request of this run met the meant difference `{class}`");
    }
    let unexplained: Vec<String> = judge.unexplained().collect();
    for line in &unexplained {
        println!("{} {line}", style("unexplained:").red().bold());
    }
    println!(
        "{sent} requests in {sequences} sequences; {} classes of differences unexplained",
        unexplained.len()
    );
    Ok(if unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One sequence of requests to both servers, which are empty before it.
struct Sequence<'a> {
    cloud: &'a Cloud,
    seed: u64,
    requests: Requests,
    names: Names,
    /// The ids of all objects, by number.
    ids: [Vec<String>; 2],
}

impl<'a> Sequence<'a> {
    fn new(seed: u64, cloud: &'a Cloud) -> Sequence<'a> {
        Sequence {
            cloud,
            seed,
            requests: Requests::new(seed, cloud.projects()),
            names: Names::default(),
            ids: Default::default(),
        }
    }

    /// Plays the sequence; returns the number of requests to each server.
    fn play(mut self, judge: &mut Judge) -> Result<usize> {
        let mut sent = 0;
        for request in self.requests.begin() {
            sent += 1;
            ensure!(self.send(&request, judge)?, "the servers cannot even do this alike: {}", request.class);
        }
        for _ in 0..SEQUENCE {
            let request = self.requests.next();
            sent += 1;
            if !self.send(&request, judge)? {
                return Ok(sent);
            }
        }
        self.compare_states(judge)?;
        Ok(sent)
    }

    /// Sends a request to both servers and compares the answers. Returns whether the states of both still agree.
    fn send(&mut self, request: &Request, judge: &mut Judge) -> Result<bool> {
        let [ours, theirs] = Side::BOTH.map(|side| {
            let ids = &self.ids[side as usize];
            let (path, body) =
                (filled(&request.path, ids), request.body.as_ref().map(|body| filled(body, ids)));
            self.cloud.send(side, request.caller, request.method, &path, body.as_deref())
        });
        let (ours, theirs) = (ours?, theirs?);
        ensure!(theirs.status != 503 && theirs.status != 401, "Neutron does not work: {}", theirs.words());
        let told = format!(
            "{} {} {} as {} (sequence {})",
            request.method,
            request.path,
            request.body.as_deref().unwrap_or_default(),
            request.caller.name(),
            self.seed
        );
        if ours.outcome() != theirs.outcome() {
            let class = format!(
                "{} as {}: {}, Neutron {}",
                request.class,
                request.caller.name(),
                ours.outcome(),
                theirs.outcome()
            );
            let values = format!("ours {}\n      Neutron {}", ours.words(), theirs.words());
            judge.take(&Difference { class, values }, &told);
            return Ok(ours.status >= 400 && theirs.status >= 400);
        }
        if !ours.succeeded() {
            return Ok(true);
        }
        if let (Some(_), Some(our), Some(their)) = (request.creates, ours.object(), theirs.object()) {
            for (side, object) in [our, their].into_iter().enumerate() {
                self.ids[side].push(object["id"].as_str().context("an object without an id")?.to_owned());
            }
            self.names.learn(&self.ids[0][self.ids[0].len() - 1], &self.ids[1][self.ids[1].len() - 1], false);
            self.requests.add(request, our);
        } else if request.method == "DELETE" {
            self.requests.remove(request);
        }
        let place = request.path.split(['/', '?']).next().unwrap_or_default();
        let again = request.method != "GET";
        for difference in compare(&mut self.names, place, ours.inside(), theirs.inside(), again) {
            judge.take(&difference, &told);
        }
        Ok(true)
    }

    /// Compares all objects, and the Northbound.
    fn compare_states(&mut self, judge: &mut Judge) -> Result<()> {
        for collection in cloud::COLLECTIONS {
            let [ours, theirs] =
                Side::BOTH.map(|side| self.cloud.send(side, Caller::Admin, "GET", collection, None));
            let (ours, theirs) = (ours?, theirs?);
            for difference in compare(&mut self.names, collection, ours.inside(), theirs.inside(), false) {
                judge.take(&difference, &format!("all {collection} after sequence {}", self.seed));
            }
        }
        let [ours, theirs]: [Result<Value>; 2] = Side::BOTH.map(|side| self.cloud.northbound(side));
        for difference in compare(&mut self.names, "NB", &ours?, &theirs?, true) {
            judge.take(&difference, &format!("the Northbound after sequence {}", self.seed));
        }
        Ok(())
    }
}

impl Answer {
    /// What the answer says, without the name of the object or the list.
    fn inside(&self) -> &Value {
        let only = self.body.as_object().filter(|body| body.len() == 1);
        only.and_then(|body| body.values().next()).unwrap_or(&self.body)
    }
}
