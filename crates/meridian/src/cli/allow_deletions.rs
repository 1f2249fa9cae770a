//! `meridian allow-deletions`: the operator permits deletions that the writer withholds.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use reconcile::Preview;

use super::{given, print};
use crate::admin::{self, Request, client};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Allow a server to delete the Northbound rows that it withholds
///
/// A server that becomes the writer of the Northbound deletes no rows if a newer store than its own was written there, or if
/// more rows would go than `network.max_takeover_deletions` allows. `meridian status` then reports `deletions-withheld`. Look
/// at the rows first with `meridian plan`; without `--yes` this command only counts them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Connect to this admin socket [default: that of the server of this host]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// Delete the rows instead of counting them
    #[arg(long)]
    yes: bool,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        given("admin.socket", "--socket", self.socket.clone()).into_iter().collect()
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let (socket, timeout) = (admin::socket(config)?, config.ovsdb.timeout.value);
    let value = client::ask(&socket, &Request::Plan, timeout).await?;
    let plans: Vec<Preview> = serde_json::from_value(value).map_err(|error| {
        Failure::new(Exit::Protocol, error).while_("cannot parse the plan: the process is of another version")
    })?;
    let withheld =
        plans.iter().filter(|plan| plan.problems.iter().any(|problem| problem.code == "deletions-withheld"));
    let rows =
        withheld.flat_map(|plan| &plan.steps).filter(|step| step.held && step.op["op"] == "delete").count();
    if rows == 0 {
        return print("The server withholds no deletions.\n");
    }
    if !args.yes {
        return Err(Failure::told(Exit::Usage, format!("the server withholds the deletion of {rows} rows"))
            .try_("`meridian plan` to see them, then `meridian allow-deletions --yes` to delete them"));
    }
    client::ask(&socket, &Request::AllowDeletions, timeout).await?;
    print(&format!("The server deletes {rows} rows now.\n"))
}
