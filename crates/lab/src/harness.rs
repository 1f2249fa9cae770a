//! The test harness: one binary that lists the tests, runs the host's side of each, is PID 1 of the guests, and runs the test
//! functions.
//!
//! A test target with `harness = false` registers its tests in a [`Suite`] and calls [`Suite::main`]. To cargo and
//! cargo-nextest it is a test binary like any other. Running a test boots a guest whose PID 1 is the same binary, which runs
//! exactly that test's function. So a test is an ordinary function, and everything it calls happens inside the guest.

mod front;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::demo::Chapter;
use crate::guest::tools::Tools;
use crate::guest::{self, End, Host, Limits};
use crate::inside;
use crate::job::{Backend, Folder, Outcome, Spec, Task};
use crate::need::{Need, lacking};
use crate::rootfs::Rootfs;
use crate::topology::Lab;

/// A test's function; it runs inside.
pub type Inside = fn() -> Result<()>;
/// A function that runs on the host and observes guests from there.
pub type Outside = fn(&Bench<'_>) -> Result<()>;
/// Starts a topology, passes it to a function, and stops it again.
pub type Up = fn(&dyn Fn(&Lab) -> Result<()>) -> Result<()>;

/// The default time limit of a test.
const TIME: Duration = Duration::from_secs(120);
/// The default memory of a guest; a test or `LAB_MEMORY` may change it.
const MEGABYTES: u64 = 512;

/// One test.
#[derive(Clone)]
pub struct Test {
    name: &'static str,
    sentence: &'static str,
    needs: &'static [Need],
    limits: Limits,
    tools: Tools,
    body: Body,
}

#[derive(Clone, Copy)]
enum Body {
    Inside(Inside),
    Outside(Outside),
    /// Runs inside, and only if a test on the host requests it.
    Fixture(Inside),
}

impl Test {
    /// A test that runs inside: its name (`area::what_happens`), the statement that it proves, and the kernel features that it
    /// needs.
    pub fn new(name: &'static str, sentence: &'static str, needs: &'static [Need], run: Inside) -> Test {
        Test {
            name,
            sentence,
            needs,
            limits: Limits { time: TIME, megabytes: MEGABYTES },
            tools: Tools::default(),
            body: Body::Inside(run),
        }
    }

    /// A test that runs on the host.
    pub fn outside(name: &'static str, sentence: &'static str, run: Outside) -> Test {
        Test { body: Body::Outside(run), ..Test::new(name, sentence, &[], || Ok(())) }
    }

    /// A function that tests on the host run inside a guest; not a test of its own.
    pub fn fixture(name: &'static str, run: Inside) -> Test {
        Test { body: Body::Fixture(run), ..Test::new(name, "", &[], run) }
    }

    /// Sets the time limit.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Test {
        self.limits.time = time;
        self
    }

    /// Adds the workspace's own `meridian` to the path, see [`Node::meridian`](crate::node::Node::meridian).
    #[must_use]
    pub fn meridian(mut self) -> Test {
        self.tools.meridian = true;
        self
    }

    /// Adds the Debian package of `meridian`, to be installed, see [`Systemd`](crate::node::systemd::Systemd).
    #[must_use]
    pub fn package(mut self) -> Test {
        self.tools.package = true;
        self
    }

    /// Adds OpenStack's tools, see [`Node::keystone`](crate::node::Node::keystone).
    #[must_use]
    pub fn openstack(mut self) -> Test {
        self.tools.openstack = true;
        self
    }

    /// Adds the programs of a Kubernetes API server, which [`ApiServer::start`](crate::kubernetes::ApiServer::start) then runs
    /// inside. It needs about 600 MB of memory beside everything else.
    #[must_use]
    pub fn kubernetes(mut self) -> Test {
        self.tools.kubernetes = true;
        self
    }

    /// Adds ovn-bgp-agent's packages in place of OpenStack's tools, see [`python::path_inside`](crate::python::path_inside).
    #[must_use]
    pub fn ovn_bgp_agent(mut self) -> Test {
        self.tools.ovn_bgp_agent = true;
        self
    }

    /// Sets the amount of memory in megabytes.
    #[must_use]
    pub fn memory(mut self, megabytes: u64) -> Test {
        self.limits.megabytes = megabytes;
        self
    }
}

/// The tests, fixtures and chapters of a test binary.
pub struct Suite {
    jobs: PathBuf,
    tests: Vec<Test>,
    topologies: Vec<(&'static str, &'static str, Up)>,
    chapters: Vec<Chapter>,
}

impl Suite {
    /// Creates a suite whose job folders are next to cargo's own output: `tmp` is `env!("CARGO_TARGET_TMPDIR")`.
    pub fn new(tmp: &str) -> Suite {
        let jobs = std::env::var_os("LAB_JOBS").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let beside = || Path::new(tmp).parent().unwrap_or(Path::new("target")).join("lab");
        Suite {
            jobs: jobs.unwrap_or_else(beside),
            tests: Vec::new(),
            topologies: Vec::new(),
            chapters: Vec::new(),
        }
    }

    /// Adds tests.
    #[must_use]
    pub fn tests(mut self, tests: impl IntoIterator<Item = Test>) -> Suite {
        self.tests.extend(tests);
        self
    }

    /// Adds a topology for `lab shell`: its name, a sentence, how to bring it up.
    #[must_use]
    pub fn topology_for_shell(mut self, name: &'static str, sentence: &'static str, up: Up) -> Suite {
        self.topologies.push((name, sentence, up));
        self
    }

    /// Adds chapters to `lab demo`.
    #[must_use]
    pub fn tour(mut self, chapters: impl IntoIterator<Item = Chapter>) -> Suite {
        self.chapters.extend(chapters);
        self
    }

    /// The chapter of the tour that has this name.
    pub(crate) fn chapter(&self, name: &str) -> Option<&Chapter> {
        self.chapters.iter().find(|chapter| chapter.name == name)
    }

    /// The function that runs inside under this name.
    pub(crate) fn inside(&self, name: &str) -> Option<Inside> {
        self.tests.iter().find(|test| test.name == name).and_then(|test| match test.body {
            Body::Inside(run) | Body::Fixture(run) => Some(run),
            Body::Outside(_) => None,
        })
    }

    pub(crate) fn topology(&self, name: &str) -> Option<Up> {
        self.topologies.iter().find(|(known, ..)| *known == name).map(|(.., up)| *up)
    }

    /// The `main` of a test binary.
    pub fn main(self) -> ExitCode {
        let args: Vec<OsString> = std::env::args_os().skip(1).collect();
        let role = inside::main(&args)
            .or_else(|| inside::perform::main(&args, &self))
            .or_else(|| guest::keeper::main(&args))
            .or_else(|| guest::native::main(&args))
            .or_else(|| self.command(&args));
        match role {
            Some(Ok(code)) => code,
            Some(Err(error)) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
            None => self.harness(),
        }
    }

    /// Runs a command of `cargo xtask lab`, if the arguments name one.
    fn command(&self, args: &[OsString]) -> Option<Result<ExitCode>> {
        let rest = args.get(1).and_then(|arg| arg.to_str());
        match args.first()?.to_str()? {
            "--lab-list" => Some(self.list()),
            "--lab-shell" => Some(self.shell(rest)),
            "--lab-demo" => Some(self.demo()),
            _ => None,
        }
    }

    fn harness(self) -> ExitCode {
        let args = Arguments::from_args();
        let suite = Arc::new(self);
        // The fixtures are listed only if `LAB_FIXTURES` is set, as tests on the host do to run one in a lab of its own.
        let fixtures = std::env::var_os("LAB_FIXTURES").is_some();
        let trials = suite
            .tests
            .iter()
            .filter(|test| fixtures || !matches!(test.body, Body::Fixture(_)))
            .map(|test| {
                let (suite, test) = (Arc::clone(&suite), test.clone());
                Trial::test(test.name, move || run(&suite, &test).map_err(Failed::from))
            })
            .collect();
        libtest_mimic::run(&args, trials).exit_code()
    }
}

/// Runs one test. A failure is a report.
fn run(suite: &Suite, test: &Test) -> Result<(), String> {
    let told = |error: anyhow::Error| format!("{error:#}");
    let bench = Bench { suite, host: None };
    match test.body {
        Body::Outside(run) => run(&bench).map_err(|error| format!("{error:#}")),
        Body::Inside(_) | Body::Fixture(_) => {
            println!("{}: {}", test.name, test.sentence);
            let limits = Limits { megabytes: memory(test.limits.megabytes), ..test.limits };
            let (folder, end) = bench
                .job(test.name, Task::Test(test.name.to_owned()), test.needs, limits, test.tools)
                .map_err(told)?;
            let millis = settle(folder, end)?;
            println!("passed in {millis} ms");
            Ok(())
        }
    }
}

/// `LAB_MEMORY` in megabytes, or the test's own value.
fn memory(usual: u64) -> u64 {
    std::env::var("LAB_MEMORY").ok().and_then(|set| set.parse().ok()).unwrap_or(usual)
}

/// Turns the end of a job into its duration or a report. A job that succeeded leaves nothing unless `LAB_KEEP` is set.
fn settle(folder: Folder, end: End) -> Result<u64, String> {
    let report = match end {
        End::Told(Outcome { failure: None, millis, .. }) => {
            if std::env::var_os("LAB_KEEP").is_some_and(|keep| keep != "0") {
                println!("kept: {}", folder.keep().display());
            } else {
                folder.remove().map_err(|error| format!("{error:#}"))?;
            }
            return Ok(millis);
        }
        End::Told(Outcome { failure: Some(failure), .. }) => failure,
        End::Late(report) | End::Died(report) => report,
    };
    Err(format!("{report}\n  everything it left: {}", folder.keep().display()))
}

/// The tools of tests that run on the host.
pub struct Bench<'a> {
    suite: &'a Suite,
    host: Option<Host>,
}

impl Bench<'_> {
    /// The cache, the root file system and the kernel, built on first use.
    pub fn host(&self) -> Result<Host> {
        match &self.host {
            Some(host) => Ok(host.clone()),
            None => Host::prepare(&self.suite.jobs),
        }
    }

    /// Runs a fixture (or a test) in a guest and returns the result, with its folder.
    pub fn fixture(&self, name: &str, time: Duration) -> Result<(Folder, End)> {
        self.suite.inside(name).with_context(|| format!("there is no fixture `{name}`"))?;
        let limits = Limits { time, megabytes: memory(MEGABYTES) };
        // These tests always run in a guest: they must not do to the host's kernel what they do to the guest's.
        let task = Task::Test(name.to_owned());
        self.job_on(Backend::Uml, name, task, &[], limits, Tools::default())
    }

    /// The features of the chosen back end's kernel, probed inside.
    fn probe(&self) -> Result<std::collections::BTreeSet<Need>> {
        let limits = Limits { time: TIME, megabytes: memory(MEGABYTES) };
        let (folder, end) = self.job("probe", Task::Probe, &[], limits, Tools::default())?;
        match end {
            End::Told(outcome) if outcome.failure.is_none() => {
                folder.remove()?;
                Ok(outcome.offered)
            }
            other => bail!("cannot find out what the kernel offers: {other:?}"),
        }
    }

    fn job(
        &self,
        name: &str,
        task: Task,
        needs: &[Need],
        limits: Limits,
        tools: Tools,
    ) -> Result<(Folder, End)> {
        self.job_on(Backend::chosen()?, name, task, needs, limits, tools)
    }

    fn job_on(
        &self,
        backend: Backend,
        name: &str,
        task: Task,
        needs: &[Need],
        limits: Limits,
        tools: Tools,
    ) -> Result<(Folder, End)> {
        let host = self.host()?;
        if backend == Backend::Uml
            && let Some(missing) = lacking(needs, host.kernel.offered())
        {
            bail!(
                "this test needs {missing}, which the kernel {} does not offer",
                host.kernel.path().display()
            );
        }
        let env =
            std::env::vars().filter(|(key, _)| key.starts_with("LAB_") || key.starts_with("RUST_")).collect();
        let offered = host.kernel.offered().clone();
        let spec = Spec { task, backend, needs: needs.to_vec(), offered, env };
        let packed = tools.find()?;
        let folder = Folder::make(&host.jobs, name)?;
        if matches!(spec.task, Task::Shell { .. }) {
            println!("/job in there is {} here, until it ends", folder.path().display());
        }
        let ran = packed.put(folder.path()).and_then(|()| {
            host.run(&folder, &spec, limits, |at, line| match &spec.task {
                Task::Tour { .. } => println!("{line}"),
                _ => println!("{:8.3} {line}", at.as_secs_f64()),
            })
        });
        match ran {
            Ok(end) => Ok((folder, end)),
            Err(error) if guest::full(folder.path()) => {
                let why = guest::no_room(folder.path());
                // The job never ran, so its folder contains nothing of interest.
                folder.remove()?;
                Err(error.context(why))
            }
            Err(error) => Err(error.context(format!("the job folder is {}", folder.keep().display()))),
        }
    }
}

/// Builds the root file system if it is missing, for callers that want it before the first test.
pub fn build() -> Result<Rootfs> {
    Rootfs::ensure(&crate::home::Home::locate()?)
}
