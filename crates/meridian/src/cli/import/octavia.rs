//! `meridian import octavia`: load balancers from Octavia's API, rows from the Northbound that its OVN provider wrote.

use api::import::{Document, ImportOptions, Source, take_over_balancers};

use super::destination::{Destination, DestinationArgs};
use super::report::ImportReport;
use super::source::{ApiReader, SourceArgs};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::output::Said;

/// Import the load balancers of an Octavia with the OVN provider
///
/// Reads load balancers, listeners, pools, members, health monitors and quotas from Octavia's API, with an administrator's
/// credentials, and stores them with their ids. Their networks, subnets and VIP ports must be in the database already: run
/// `meridian import neutron` first. Rows that the provider wrote in the Northbound keep their UUIDs, so connections through
/// them go on. A load balancer is taken over with all its parts or not at all.
///
/// Stop Octavia's API and driver agent before, and start `meridian server` after. --dry-run changes nothing and reports what
/// would be taken over.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Report what would be taken over, and store nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on without the load balancers that cannot be taken over; their rows in the Northbound stay as they are
    #[arg(long)]
    leave_out: bool,
    /// Format of the report
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    output: Said,
    #[command(flatten)]
    destination: DestinationArgs,
}

impl Args {
    pub(in crate::cli) fn overrides(&self) -> Vec<Override> {
        self.destination.overrides()
    }
}

pub(in crate::cli) async fn run(args: &Args, config: &Config) -> Outcome {
    let northbound = args.destination.northbound(config).await?;
    let reader = ApiReader { service: "Octavia", open: Source::balancers, parse: Document::parse_balancers };
    let document =
        args.source.document(&reader, |source| async move { source.read_balancers().await }).await?;
    let settings = config.network.settings().unwrap_or_default();
    let options = ImportOptions { dry_run: args.dry_run, leave_out: args.leave_out };
    let destination = Destination::open(config).await?;
    let takeover = take_over_balancers(&destination.store, document, northbound, settings, options).await;
    let takeover = takeover.map_err(|fault| {
        Failure::told(Exit::Local, fault)
            .while_(format!("cannot store the load balancers in {}", destination.url))
    })?;
    let url = destination.close().await?;
    let is_refused = !takeover.left_out.is_empty() && !args.leave_out;
    let mut report = ImportReport::of(&takeover);
    report.stored = (!is_refused && !args.dry_run).then_some(url);
    report.finish(args.output, is_refused && !args.dry_run, "Octavia")
}
