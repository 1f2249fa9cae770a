//! `meridian explain`: why an address is exposed on this node, or why not; whose metadata it gets; and which members serve at a load
//! balancer's address.

use std::net::IpAddr;
use std::time::Duration;

use super::{given, json, print};
use crate::admin::{self, Request, client};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Outcome};
use crate::output::Said;

/// The agent may have to read the whole Southbound database for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Explain an address: why it is announced, whose metadata it gets, which members serve it
///
/// The BGP agent names the rules and the rows of OVN's databases that decide, the chassis that should announce it instead, what is
/// still to be done, and whether FRR has a peer that hears of it. For an address that this node has nothing to do with, an agent
/// that reads the Southbound database takes a look at all of it.
///
/// The metadata agent says which instance a request from this address would be, on each network.
///
/// A server explains the addresses of load balancers: which chassis answers, and which members serve and why others do not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// The address, e.g. 172.24.4.10
    ip: IpAddr,
    /// The admin socket of the process [default: that of the agent of this host]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// How the explanation is printed
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
    let value = client::ask(&admin::socket(config)?, &Request::Explain { ip: args.ip }, within).await?;
    if args.output == Said::Json {
        return print(&(json(&value) + "\n"));
    }
    let lines = value["text"].as_array().into_iter().flatten().filter_map(|line| line.as_str());
    let lines: Vec<&str> = lines.collect();
    print(&format!("{}\n", lines.join("\n  ")))
}
