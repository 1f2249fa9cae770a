//! `meridian import neutron`: objects from Neutron's API, rows from the Northbound that it wrote.

use std::time::SystemTime;

use api::import::{Document, Source, Takeover, prepare};

use super::destination::{Destination, DestinationArgs};
use super::report::ImportReport;
use super::source::{ApiReader, SourceArgs};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::output::Said;

/// Import a cloud from Neutron
///
/// Reads every object from Neutron's API, with an administrator's credentials, and stores it with its id in an empty
/// database. The rows that Neutron wrote in the Northbound are taken over with their UUIDs, and gateways stay on their
/// chassis: the first pass of `meridian server` changes rows and makes none anew. All or nothing is stored.
///
/// Stop changes to Neutron before, and Neutron itself before `meridian server` starts. --dry-run changes nothing and reports
/// what would be taken over, and which rows in the Northbound belong to no object. Load balancers follow with `meridian
/// import octavia`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Report what would be taken over, and store nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on without the objects that cannot be taken over; their rows in the Northbound stay as they are
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
    let reader = ApiReader { service: "Neutron", open: Source::network, parse: Document::parse_network };
    let document = args.source.document(&reader, |source| async move { source.read_network().await }).await?;
    let settings = config.network.settings().unwrap_or_default();
    let takeover = prepare(&document, northbound.as_ref(), &settings, SystemTime::now());
    let mut report = ImportReport::of(&takeover);
    let is_refused = !takeover.left_out.is_empty() && !args.leave_out;
    if !is_refused && !args.dry_run {
        report.stored = Some(store(takeover, config).await?);
    }
    report.finish(args.output, is_refused && !args.dry_run, "Neutron")
}

/// Stores all of it; returns the store's URL.
async fn store(takeover: Takeover, config: &Config) -> Outcome<String> {
    let destination = Destination::open(config).await?;
    takeover.store(&destination.store).await.map_err(|fault| {
        Failure::told(Exit::Refused, fault)
            .while_(format!("cannot store the cloud in {}", destination.url))
            .try_("an empty database with --database, or another --data-dir")
    })?;
    destination.close().await
}
