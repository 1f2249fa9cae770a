//! `meridian status`: prints the state of a long-running process.

mod balancers;
mod network;

use std::fmt::Write as _;

use node::bgp::announced::Peer;
use reconcile::Severity;

use super::{given, json, print};
use crate::admin::{self, Request, client};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::output::Said;
use crate::process::Status;
use crate::telemetry;

/// Show the state of a running Meridian
///
/// The process must have an admin socket (--admin-socket). A server also shows its routers: the chassis of each gateway, the BFD state of
/// each next hop, and whether OVN uses each default route; and its load balancers, with their failed members. --set-log changes the log
/// level.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Connect to this admin socket [default: that of the agent or server of this host]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// Change the log directives of the process, e.g. to debug or ovsdb=trace,info
    #[arg(long, value_name = "DIRECTIVES")]
    set_log: Option<String>,
    /// Print the metrics of the process instead, in the format of Prometheus
    #[arg(long, conflicts_with = "output")]
    metrics: bool,
    /// Show only this router, by name or id
    #[arg(long, value_name = "ROUTER", conflicts_with = "metrics")]
    router: Option<String>,
    /// Print the status in this format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    output: Said,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        given("admin.socket", "--socket", self.socket.clone()).into_iter().collect()
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let socket = &admin::socket(config)?;
    let within = config.ovsdb.timeout.value;
    if let Some(directives) = &args.set_log {
        let request = Request::LogLevel { set: Some(directives.clone()) };
        client::ask(socket, &request, within).await?;
    }
    if args.metrics {
        let text = client::ask(socket, &Request::Metrics, within).await?;
        return print(text.as_str().unwrap_or_default());
    }
    let value = client::ask(socket, &Request::Status, within).await?;
    if args.output == Said::Json && args.router.is_none() {
        return print(&(json(&value) + "\n"));
    }
    let mut status: Status = serde_json::from_value(value).map_err(|error| {
        Failure::new(Exit::Protocol, error)
            .while_("cannot parse the reply: the process is of another version")
            .try_("--output json, which prints the reply as it is")
    })?;
    if let Some(router) = args.router.as_deref() {
        let Some(network) = &mut status.network else {
            return Err(Failure::told(Exit::Usage, format!("`meridian {}` has no routers", status.command))
                .try_("--socket with the admin socket of a server"));
        };
        network::selected(network, router);
        if network.routers.is_empty() {
            return Err(Failure::told(Exit::Refused, format!("no router has the name or id {router}")));
        }
    }
    if args.output == Said::Json {
        return print(&(json(&status) + "\n"));
    }
    let coloured = telemetry::coloured(config.log.color.value, &std::io::stdout());
    print(&text(&status, coloured))
}

fn text(status: &Status, coloured: bool) -> String {
    let health = if status.healthy { "healthy" } else { "not healthy" };
    let mut out = format!(
        "meridian {} {} (pid {}), {health}, up {}\n  log: {}\n",
        status.version,
        status.command,
        status.pid,
        span(status.uptime_seconds),
        status.log
    );
    for promise in &status.promises {
        let _ = writeln!(out, "  {}: {}", if promise.kept { "ok" } else { "NOT" }, promise.text);
    }
    for db in &status.databases {
        let remote = db.remote.as_deref().unwrap_or("no server yet");
        let _ = writeln!(out, "{}: {}, {remote}, {} reconnects", db.database, db.state, db.reconnects);
        if let Some(error) = &db.last_error {
            let _ = writeln!(out, "  last error: {error}");
        }
        for (table, rows) in &db.rows {
            let _ = writeln!(out, "  {table}: {rows} rows");
        }
        if db.unreadable_rows > 0 {
            let count = db.unreadable_rows;
            let _ = writeln!(
                out,
                "  ! {count} rows cannot be parsed and are skipped; correct them, or upgrade this program"
            );
            for row in &db.unreadable {
                let _ = writeln!(out, "    {row}");
            }
        }
    }
    status.components.iter().for_each(|component| of_component(&mut out, component));
    for vlan in &status.vlans {
        let _ = writeln!(out, "{vlan}");
    }
    out.push_str(&bgp(status));
    let said = |why: &&String| status.promises.iter().any(|promise| promise.text == **why);
    for why in status.trouble.iter().filter(|why| !said(why)) {
        let _ = writeln!(out, "! {why}");
    }
    if let Some(shown) = &status.network {
        out.push_str(&network::text(shown, coloured));
        out.push_str(&balancers::text(&shown.load_balancers, coloured));
    }
    out
}

/// The announcements and the peers that hear them. The text has the first announcements only: a node may have thousands.
fn bgp(status: &Status) -> String {
    const SHOWN: usize = 20;
    let mut out = String::new();
    if !status.peers.is_empty() {
        let peers = status
            .peers
            .iter()
            .map(|Peer { name, up }| format!("{name} {}", if *up { "up" } else { "DOWN" }));
        let _ = writeln!(out, "BGP peers: {}", peers.collect::<Vec<_>>().join(", "));
    }
    let all = &status.announcements;
    if !all.is_empty() {
        let _ = writeln!(out, "announces:");
    }
    for announcement in all.iter().take(SHOWN) {
        let _ = writeln!(out, "  {announcement}");
    }
    if all.len() > SHOWN {
        let _ = writeln!(out, "  and {} more; --output json lists all of them", all.len() - SHOWN);
    }
    out
}

fn of_component(out: &mut String, component: &reconcile::Status) {
    let state = json(&component.state);
    let state = state.trim_matches('"');
    let _ = writeln!(
        out,
        "{}: {state}, {} of {} objects in place",
        component.component, component.have, component.want
    );
    if let Some(what) = &component.waiting_for {
        let _ = writeln!(out, "  waits for {what}");
    }
    if component.planned > 0 || component.held > 0 {
        let _ = writeln!(
            out,
            "  {} steps to do, {} objects wait after a failure",
            component.planned, component.held
        );
    }
    if let Some(at) = component.last_success {
        let _ = writeln!(out, "  last checked: {at:.0}");
    }
    if let Some(at) = component.next_try {
        let _ = writeln!(out, "  next retry: {at:.0}");
    }
    let (errors, warnings): (Vec<_>, Vec<_>) =
        component.problems.iter().partition(|problem| problem.severity == Severity::Error);
    for error in errors {
        let _ = writeln!(out, "  ! {error}");
    }
    for warning in warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
}

/// A duration in its two largest units, such as `1d 2h` or `3m 4s`.
fn span(seconds: u64) -> String {
    let parts =
        [(seconds / 86400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let begin = parts.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let shown: Vec<String> = parts[begin..].iter().take(2).map(|(n, unit)| format!("{n}{unit}")).collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Database;

    #[test]
    fn rows_that_cannot_be_read_are_shown_with_what_to_do() {
        let row = "Port_Binding 1, column tag: expected integer, found x".to_owned();
        let database = Database {
            database: "OVN_Southbound".into(),
            unreadable_rows: 7,
            unreadable: vec![row],
            ..Database::default()
        };
        let text = text(&Status { databases: vec![database], ..Status::default() }, false);
        assert!(
            text.ends_with(
                "reconnects\n  ! 7 rows cannot be parsed and are skipped; correct them, or upgrade this program\n    \
                 Port_Binding 1, column tag: expected integer, found x\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn an_agent_shows_its_announcements_with_their_rules_and_its_peers() {
        let of = |last: u8| node::bgp::announced::Announcement {
            prefix: std::net::IpAddr::from([172, 24, 4, last]).into(),
            in_place: last != 1,
            rule: "D1".into(),
            because: format!("port vm{last} of a provider network is bound here"),
        };
        let peer = |name: &str, up| Peer { name: name.into(), up };
        let status = Status {
            announcements: (1..=22).map(of).collect(),
            peers: vec![peer("100.64.1.0", true), peer("100.64.2.0", false)],
            ..Status::default()
        };
        let text = text(&status, false);
        let shown = text.split_once("BGP peers: ").unwrap().1;
        assert!(
            shown.starts_with(
                "100.64.1.0 up, 100.64.2.0 DOWN\nannounces:\n  172.24.4.1: port vm1 of a provider network is bound here (D1); \
                 not announced yet\n  172.24.4.2: port vm2 of a provider network is bound here (D1)\n"
            ),
            "{text}"
        );
        assert!(shown.ends_with("  172.24.4.20: port vm20 of a provider network is bound here (D1)\n  and 2 more; --output json lists all of them\n"), "{text}");
    }

    #[test]
    fn spans_have_two_units() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7200, "2h 0m"), (93_784, "1d 2h")] {
            assert_eq!(span(seconds), text);
        }
    }
}
