//! `cargo xtask up`: starts the network API with an OVN central of its own, and prints how to use it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use central::{Central, Daemon, find_program};
use console::style;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::command::{cargo, heading, output, root, run, target_dir};
use crate::packages::{self, Need};

/// How long `--check` waits for the rows.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// The options of `cargo xtask up`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory of databases, sockets and logs; a later run continues with the same data
    #[arg(long, value_name = "DIR", default_value = ".meridian")]
    data_dir: PathBuf,
    /// Address of the network API
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9696")]
    listen: String,
    /// Address of the load-balancer API
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9876")]
    lb_listen: String,
    /// Build `meridian` optimised (slower to build)
    #[arg(long)]
    release: bool,
    /// Start everything, run the printed commands, check that OVN has the router, and exit
    #[arg(long)]
    check: bool,
}

/// The commands that create a router with two gateways.
const COMMANDS: [&str; 5] = [
    "network create --external --provider-network-type flat --provider-physical-network phy1 N1",
    "subnet create --network N1 --subnet-range 192.0.2.0/24 S1",
    "network create --external --provider-network-type flat --provider-physical-network phy2 N2",
    "subnet create --network N2 --subnet-range 198.51.100.0/24 S2",
    "router create --external-gateway N1 --external-gateway N2 --enable-default-route-ecmp --enable-default-route-bfd R",
];

/// The commands that create a load balancer on that router.
const BALANCER_COMMANDS: [&str; 7] = [
    "network create N3",
    "subnet create --network N3 --subnet-range 10.0.0.0/24 S3",
    "router add subnet R S3",
    "loadbalancer create --name lb1 --vip-subnet-id S3 --wait",
    "loadbalancer pool create --name p1 --loadbalancer lb1 --protocol TCP --lb-algorithm SOURCE_IP_PORT --wait",
    "loadbalancer member create --address 10.0.0.107 --subnet-id S3 --protocol-port 80 p1 --wait",
    "loadbalancer listener create --name l1 --protocol TCP --protocol-port 82 --default-pool p1 lb1 --wait",
];

/// The address for the metrics of `up`, if it is free.
const METRICS: &str = "127.0.0.1:9697";
/// Any free port.
const ANY_PORT: &str = "127.0.0.1:0";

pub(crate) fn up(args: &Args) -> Result<()> {
    let stop = told_to_end()?;
    let dir = root().join(&args.data_dir);
    // The build takes minutes, so the addresses are checked before it.
    let metrics = if args.check { ANY_PORT } else { check_places(&dir, &args.listen, &args.lb_listen)? };
    packages::ensure(Need::Central)?;
    let meridian = build(args.release)?;
    if args.check {
        return check(&meridian, &dir);
    }
    let places = Places { network: &args.listen, load_balancer: &args.lb_listen, metrics };
    let (mut server, urls) = start(&meridian, &dir, &places)?;
    explain(&dir, &urls)?;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        server.still_running()?;
    }
    drop(server);
    eprintln!("\nended; the data stays in {}", dir.display());
    Ok(())
}

/// The addresses that a server listens on.
struct Places<'a> {
    network: &'a str,
    load_balancer: &'a str,
    metrics: &'a str,
}

/// The URLs of a server.
struct Urls {
    network: String,
    load_balancer: String,
}

/// Checks that nothing else uses the directory and the addresses; returns a free address for metrics.
fn check_places(dir: &Path, listen: &str, lb_listen: &str) -> Result<&'static str> {
    Central::check_free(&dir.join(CENTRAL))?;
    for (flag, address) in [("--listen", listen), ("--lb-listen", lb_listen)] {
        TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address}: choose another address with {flag}"))?;
    }
    Ok(metrics_address(METRICS))
}

/// The usual address, or any port if another program listens there, such as the server of a second `up`.
fn metrics_address(usual: &'static str) -> &'static str {
    match TcpListener::bind(usual) {
        Ok(_) => usual,
        Err(error) => {
            eprintln!("{usual} is not free for metrics ({error}); the server takes any free port");
            ANY_PORT
        }
    }
}

/// Builds `meridian`, with cargo's progress on the terminal, and beside it the Python environment. pip waits for the network most of
/// the time, and cargo for the processor.
fn build(release: bool) -> Result<PathBuf> {
    heading("building meridian, and beside it a Python environment with the openstack command");
    let mut build = cargo();
    build.args(["build", "--package", "meridian"]);
    if release {
        build.arg("--release");
    }
    std::thread::scope(|scope| {
        let python = scope.spawn(openstack);
        run(&mut build)?;
        match python.join() {
            Ok(made) => made.map(drop),
            Err(_) => bail!("cannot create the Python environment: its thread panicked"),
        }
    })?;
    Ok(target_dir().join(if release { "release" } else { "debug" }).join("meridian"))
}

/// Set by a signal. Without handling it, the server would outlive us: it ends when its value is dropped.
pub(crate) fn told_to_end() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot listen for signals")?;
    }
    Ok(stop)
}

/// The settings file of the `openstack` command in the data directory.
const CLOUDS: &str = "clouds.yaml";

/// The directory of the server's OVN central in the data directory.
const CENTRAL: &str = "ovn";

fn openstack() -> Result<PathBuf> {
    Ok(lab::python::openstack()?.join("bin/openstack"))
}

/// Starts the server; returns it with its URLs.
fn start(meridian: &Path, dir: &Path, places: &Places<'_>) -> Result<(Daemon, Urls)> {
    openstack()?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    heading(&format!("starting both APIs and an OVN central in {}", dir.display()));
    let mut command = Command::new(meridian);
    command.args(["server", "--dev", "--listen", places.network, "--lb-listen", places.load_balancer]);
    command.args(["--metrics-listen", places.metrics, "--data-dir"]).arg(dir);
    command.stdout(Stdio::piped());
    let mut server = Daemon::start("meridian server", &mut command, &dir.join("server.log"))?;
    let stdout = server.take_stdout().context("the server has no output")?;
    let mut said = BufReader::new(stdout).lines().map_while(Result::ok);
    let mut load_balancer = None;
    let network = said.find_map(|line| {
        if let Some(url) = line.strip_prefix("load balancers on ") {
            load_balancer = Some(url.to_owned());
        }
        line.strip_prefix("listening on ").map(str::to_owned)
    });
    match network.zip(load_balancer) {
        Some((network, load_balancer)) => {
            let text = format!(
                "clouds:\n  meridian:\n    auth_type: none\n    auth: {{endpoint: \"{network}\"}}\n    \
                 load_balancer_endpoint_override: \"{load_balancer}\"\n"
            );
            let clouds = dir.join(CLOUDS);
            std::fs::write(&clouds, text).with_context(|| format!("cannot write {}", clouds.display()))?;
            Ok((server, Urls { network, load_balancer }))
        }
        None => {
            // The output has ended, so the process will end soon.
            let begin = Instant::now();
            while begin.elapsed() < CHECK_LIMIT {
                server.still_running()?;
                std::thread::sleep(Duration::from_millis(20));
            }
            bail!("the server does not say where it listens; see {}", dir.join("server.log").display())
        }
    }
}

fn explain(dir: &Path, urls: &Urls) -> Result<()> {
    let (openstack, clouds) = (openstack()?, dir.join(CLOUDS));
    let command = |text: String| style(text).for_stderr().green().to_string();
    let Urls { network, load_balancer } = urls;
    eprintln!("\nThe network API listens on {network} and the load-balancer API on {load_balancer}.");
    eprintln!("The log of the server is {}.", dir.join("server.log").display());
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
    eprintln!("\nA load balancer on that router:\n");
    for line in BALANCER_COMMANDS {
        eprintln!("    {}", command(format!("openstack {line}")));
    }
    eprintln!("\nand what OVN has of both:\n");
    let nb = format!("unix:{}", dir.join("ovn/nb.sock").display());
    eprintln!("    {}", command(format!("ovn-nbctl --db={nb} show")));
    eprintln!("    {}", command(format!("ovn-nbctl --db={nb} lb-list")));
    eprintln!("\nCtrl-C ends it and keeps the data.\n");
    Ok(())
}

/// Starts a built server, runs the commands as a newcomer would, and checks their result in OVN.
pub(crate) fn check(meridian: &Path, dir: &Path) -> Result<()> {
    let places = Places { network: ANY_PORT, load_balancer: ANY_PORT, metrics: ANY_PORT };
    let (_server, _) = start(meridian, dir, &places)?;
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
    for line in BALANCER_COMMANDS {
        eprintln!("openstack {line}");
        tool(line)?;
    }
    let vips = nbctl(&["--bare", "--columns=vips", "list", "Load_Balancer"])?;
    ensure!(
        vips.contains(":82") && vips.contains("10.0.0.107:80"),
        "OVN has no such load balancer, but {vips:?}"
    );
    tool("loadbalancer delete --cascade --wait lb1")?;
    tool("router remove subnet R S3")?;
    tool("router delete R")?;
    for noun in ["N1", "N2", "N3"] {
        tool(&format!("network delete {noun}"))?;
    }
    let works = "up works: OVN had the two default routes of the router and the load balancer";
    eprintln!("{}", style(works).for_stderr().green());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_found_before_anything_is_built() {
        let dir = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind(ANY_PORT).unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = check_places(dir.path(), &address, ANY_PORT).unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("--listen"), "{error}");
        let error = check_places(dir.path(), ANY_PORT, &address).unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("--lb-listen"), "{error}");
        drop(taken);
        check_places(dir.path(), &address, ANY_PORT).unwrap();
    }

    #[test]
    fn a_directory_in_use_is_found_before_anything_is_built() {
        let dir = tempfile::tempdir().unwrap();
        check_places(dir.path(), ANY_PORT, ANY_PORT).unwrap();
        assert!(!dir.path().join(CENTRAL).exists(), "a look leaves nothing behind");
        let central = Central::start(&dir.path().join(CENTRAL)).unwrap();
        let error = check_places(dir.path(), ANY_PORT, ANY_PORT).unwrap_err().to_string();
        assert!(error.contains("--data-dir"), "{error}");
        drop(central);
        check_places(dir.path(), ANY_PORT, ANY_PORT).unwrap();
    }

    #[test]
    fn a_busy_metrics_port_is_replaced_by_any() {
        let taken = TcpListener::bind(ANY_PORT).unwrap();
        let address: &'static str = taken.local_addr().unwrap().to_string().leak();
        assert_eq!(metrics_address(address), ANY_PORT);
        drop(taken);
        assert_eq!(metrics_address(address), address);
    }

    #[test]
    fn cargo_shows_its_progress() {
        let alias = std::fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
        assert!(alias.contains("xtask") && !alias.contains("quiet"), "{alias}");
    }
}
