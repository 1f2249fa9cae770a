//! `meridian explain`: asks a running agent about an address, or a running server about any object of the network, and prints the answer.

use std::time::Duration;

use super::{given, json, print};
use crate::admin::{self, Request, client};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Outcome};
use crate::output::Said;

/// The time limit of a request. To answer it, the agent may have to read the whole Southbound database.
const PATIENCE: Duration = Duration::from_secs(30);

/// Explain an address or an object: where it is, what it needs, and why it does not work
///
/// A server explains every object of the network (a port, a router, a network, a floating IP, a load balancer or a chassis) by its address,
/// MAC address, name or id. It names the chassis of the object, the gateways that lead outside, and what is missing. For a load balancer it
/// names the members that serve, and why the others do not.
///
/// Agents explain addresses. The BGP agent names the rules and the OVN rows that decide, the chassis that should announce the address
/// instead, the changes that are still pending, and whether FRR has a peer that receives the route. For an address that does not concern
/// this node, an agent that reads the Southbound database searches all of it.
///
/// The metadata agent names the instance that a request from this address would come from, on each network.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Address, e.g. 172.24.4.10; for a server also a MAC address, a name or a UUID
    subject: String,
    /// Connect to this admin socket [default: that of the process of this host]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// Print the explanation in this format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    output: Said,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        given("admin.socket", "--socket", self.socket.clone()).into_iter().collect()
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let within = config.ovsdb.timeout.value.max(PATIENCE);
    let request = Request::Explain { subject: args.subject.clone() };
    let value = client::ask(&admin::socket(config)?, &request, within).await?;
    if args.output == Said::Json {
        return print(&(json(&value) + "\n"));
    }
    let lines = value["text"].as_array().into_iter().flatten().filter_map(|line| line.as_str());
    let lines: Vec<&str> = lines.collect();
    print(&format!("{}\n", lines.join("\n  ")))
}
