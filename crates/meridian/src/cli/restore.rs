//! `meridian restore`: replaces a server's database with a backup.

use std::path::PathBuf;

use api::store::{StoreError, copy};

use super::backup::{StoreArgs, database_file};
use super::print;
use super::server::create_data_dir;
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Replace the database of the network API with a backup
///
/// Refuses while the server runs, and refuses a file that this version cannot serve. Keeps the previous database beside the new one, as
/// api.db.before-restore. If the Northbound has rows that the backup does not contain, the server withholds their deletion until `meridian
/// allow-deletions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Backup to restore: a file from `meridian backup`, or an api.db of a stopped server
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        self.store.overrides()
    }
}

pub(super) fn run(args: &Args, config: &Config) -> Outcome {
    let database = database_file(config)?;
    if config.server.database.value.is_none() {
        create_data_dir(&config.server.data_dir.value)?;
    }
    let restored = copy::restore(&args.file, &database).map_err(|error| {
        let advice = match &error {
            StoreError::InUse { .. } => "`systemctl stop meridian-server`, then run the command again",
            StoreError::Newer { .. } => "the version of Meridian that made the backup, or a later one",
            _ => "a file from `meridian backup`, as the user of the server or with sudo",
        };
        Failure::new(Exit::Local, error)
            .while_("cannot restore the network API; its database is as before")
            .try_(advice)
    })?;
    let mut said = format!(
        "{} has the state of {} after change {}.\n",
        database.display(),
        args.file.display(),
        restored.seq
    );
    if let Some(replaced) = restored.replaced {
        said += &format!("The state before is in {}.\n", replaced.display());
    }
    said += "Start the server. If `meridian status` reports deletions-withheld, look at `meridian plan`.\n";
    print(&said)
}
