//! `cargo xtask up`: the network API with an OVN central of one's own, and how to use it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use central::{Daemon, find_program};
use console::style;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::command::{cargo, heading, output, root, run, target_dir};
use crate::packages::{self, Need};

/// How long `--check` waits for the rows.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// What `cargo xtask up` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the databases, sockets and logs live; a later run goes on with the same data
    #[arg(long, value_name = "DIR", default_value = ".meridian")]
    data_dir: PathBuf,
    /// Where the API listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9696")]
    listen: String,
    /// Build `meridian` optimised (slower to build)
    #[arg(long)]
    release: bool,
    /// Bring everything up, run the commands that are shown, make sure that OVN has the router, end
    #[arg(long)]
    check: bool,
}

/// What makes a router with two gateways.
const COMMANDS: [&str; 5] = [
    "network create --external --provider-network-type flat --provider-physical-network phy1 N1",
    "subnet create --network N1 --subnet-range 192.0.2.0/24 S1",
    "network create --external --provider-network-type flat --provider-physical-network phy2 N2",
    "subnet create --network N2 --subnet-range 198.51.100.0/24 S2",
    "router create --external-gateway N1 --external-gateway N2 --enable-default-route-ecmp --enable-default-route-bfd R",
];

pub(crate) fn up(args: &Args) -> Result<()> {
    let stop = told_to_end()?;
    packages::ensure(Need::Central)?;
    heading("building meridian");
    let mut build = cargo();
    build.args(["build", "--quiet", "--package", "meridian"]);
    run(if args.release { build.arg("--release") } else { &mut build })?;
    let meridian = target_dir().join(if args.release { "release" } else { "debug" }).join("meridian");
    let dir = root().join(&args.data_dir);
    if args.check {
        return check(&meridian, &dir);
    }
    let (mut server, url) = start(&meridian, &dir, &args.listen, "127.0.0.1:9697")?;
    explain(&dir, &url)?;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        server.still_running()?;
    }
    drop(server);
    eprintln!("\nended; the data stays in {}", dir.display());
    Ok(())
}

/// Set when somebody tells us to end, which otherwise would leave the server behind: it is ended when its value is dropped.
pub(crate) fn told_to_end() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot listen for signals")?;
    }
    Ok(stop)
}

/// Where the settings of the `openstack` command are, within the data directory.
const CLOUDS: &str = "clouds.yaml";

fn openstack() -> Result<PathBuf> {
    Ok(lab::python::openstack()?.join("bin/openstack"))
}

/// Starts the server; gives it with the address it listens on.
fn start(meridian: &Path, dir: &Path, listen: &str, metrics: &str) -> Result<(Daemon, String)> {
    openstack()?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    heading(&format!("starting the network API and an OVN central in {}", dir.display()));
    let mut command = Command::new(meridian);
    command.args(["server", "--dev", "--listen", listen, "--metrics-listen", metrics, "--data-dir"]).arg(dir);
    command.stdout(Stdio::piped());
    let mut server = Daemon::start("meridian server", &mut command, &dir.join("server.log"))?;
    let stdout = server.take_stdout().context("the server has no output")?;
    let said = BufReader::new(stdout).lines().map_while(Result::ok);
    let url = said.into_iter().find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
    match url {
        Some(url) => {
            let text =
                format!("clouds:\n  meridian:\n    auth_type: none\n    auth: {{endpoint: \"{url}\"}}\n");
            let clouds = dir.join(CLOUDS);
            std::fs::write(&clouds, text).with_context(|| format!("cannot write {}", clouds.display()))?;
            Ok((server, url))
        }
        None => {
            // Its output has ended, and so will it in a moment.
            let begin = Instant::now();
            while begin.elapsed() < CHECK_LIMIT {
                server.still_running()?;
                std::thread::sleep(Duration::from_millis(20));
            }
            bail!("the server does not say where it listens; see {}", dir.join("server.log").display())
        }
    }
}

fn explain(dir: &Path, url: &str) -> Result<()> {
    let (openstack, clouds) = (openstack()?, dir.join(CLOUDS));
    let command = |text: String| style(text).for_stderr().green().to_string();
    eprintln!("\nThe network API listens on {url}; its log is {}.", dir.join("server.log").display());
    eprintln!("In another terminal:\n");
    eprintln!(
        "    {}",
        command(format!("export OS_CLIENT_CONFIG_FILE={} OS_CLOUD=meridian", clouds.display()))
    );
    eprintln!("    {}", command(format!("alias openstack={}", openstack.display())));
    eprintln!("\nA router with two gateways:\n");
    for line in COMMANDS {
        eprintln!("    {}", command(format!("openstack {line}")));
    }
    eprintln!("\nand what OVN has of it:\n");
    let nb = format!("unix:{}", dir.join("ovn/nb.sock").display());
    eprintln!("    {}", command(format!("ovn-nbctl --db={nb} show")));
    eprintln!("\nCtrl-C ends it and keeps the data.\n");
    Ok(())
}

/// Starts a server that is built, runs the commands as a newcomer would, and looks for what they make in OVN.
pub(crate) fn check(meridian: &Path, dir: &Path) -> Result<()> {
    let (_server, _) = start(meridian, dir, "127.0.0.1:0", "127.0.0.1:0")?;
    let (openstack, clouds) = (openstack()?, dir.join(CLOUDS));
    let tool = |line: &str| {
        let mut command = Command::new(&openstack);
        command.env("OS_CLIENT_CONFIG_FILE", &clouds).env("OS_CLOUD", "meridian").args(line.split(' '));
        output(&mut command)
    };
    for line in COMMANDS {
        eprintln!("openstack {line}");
        tool(line)?;
    }
    let nbctl = |words: &[&str]| {
        let mut command = Command::new(find_program("ovn-nbctl")?);
        output(command.arg(format!("--db=unix:{}", dir.join("ovn/nb.sock").display())).args(words))
    };
    let begin = Instant::now();
    let routes = loop {
        let routes = nbctl(&["--bare", "--columns=output_port", "list", "Logical_Router_Static_Route"])?;
        if routes.split_whitespace().count() == 2 || begin.elapsed() > CHECK_LIMIT {
            break routes;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    ensure!(routes.split_whitespace().count() == 2, "OVN has not two default routes, but {routes:?}");
    tool("router delete R")?;
    for noun in ["N1", "N2"] {
        tool(&format!("network delete {noun}"))?;
    }
    eprintln!("{}", style("up works: the router has its two default routes in OVN").for_stderr().green());
    Ok(())
}
