//! `meridian plan`: prints the changes that a running process would make now.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use reconcile::Preview;

use super::{given, json, print};
use crate::admin::{self, Request, client};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::output::Said;

/// Show the changes that a running Meridian would make now, without making them
///
/// An empty plan means that nothing has to change. Changes that failed before and wait for a retry are marked.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Connect to this admin socket [default: that of the agent or server of this host]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// Print the plan in this format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    output: Said,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        given("admin.socket", "--socket", self.socket.clone()).into_iter().collect()
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let value = client::ask(&admin::socket(config)?, &Request::Plan, config.ovsdb.timeout.value).await?;
    if args.output == Said::Json {
        return print(&(json(&value) + "\n"));
    }
    let plans: Vec<Preview> = serde_json::from_value(value).map_err(|error| {
        Failure::new(Exit::Protocol, error)
            .while_("cannot parse the reply: the process is of another version")
    })?;
    show(&plans, args.output)
}

/// Prints plans.
pub(super) fn show(plans: &[Preview], format: Said) -> Outcome {
    match format {
        Said::Json => print(&(json(&plans) + "\n")),
        Said::Text => print(&plans.iter().map(|plan| format!("{plan}\n")).collect::<String>()),
    }
}
