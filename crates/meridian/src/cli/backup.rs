//! `meridian backup`: copies a server's database while the server runs.

use std::path::{Path, PathBuf};

use api::store::{Url, copy};

use super::server::store_url;
use super::{given, print};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Back up the database of the network API to a file
///
/// Copies the SQLite database of the server of this host, for example `meridian backup /backup/api-$(date +%F).db`. The server may
/// run meanwhile. The copy is one file with the state of one moment, which only its owner may read. `meridian restore` puts it
/// back. Needs the rights of the server's user. For PostgreSQL, use its own tools, such as pg_dump.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// File to create; it must not exist
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// The database of a server, named as for `meridian server`.
#[derive(Debug, clap::Args)]
pub(super) struct StoreArgs {
    /// Read the server's files in this directory [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Read this database: sqlite:///FILE [default: api.db in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl StoreArgs {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("server.data_dir", "--data-dir", self.data_dir.clone()),
            given("server.database", "--database", self.database.clone()),
        ];
        flags.into_iter().flatten().collect()
    }
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        self.store.overrides()
    }
}

/// The SQLite file of the server's database. With PostgreSQL there is no such file, and the function fails.
pub(super) fn database_file(config: &Config) -> Outcome<PathBuf> {
    match store_url(&config.server, &config.server.data_dir.value)? {
        Url::Sqlite(path) => Ok(path),
        url @ Url::Postgres(_) => {
            Err(Failure::told(Exit::Usage, format!("cannot copy {url}: PostgreSQL keeps it"))
                .try_("pg_dump and pg_restore, or the backups of that PostgreSQL"))
        }
    }
}

pub(super) fn run(args: &Args, config: &Config) -> Outcome {
    let database = database_file(config)?;
    let seq = copy::back_up(&database, &args.file).map_err(|error| {
        let failure = Failure::new(Exit::Local, error).while_("cannot back up the network API");
        failure.try_(advice(&database, &args.file))
    })?;
    print(&format!("{} has the state of {} after change {seq}.\n", args.file.display(), database.display()))
}

fn advice(database: &Path, file: &Path) -> &'static str {
    if !database.exists() {
        "--data-dir with the directory of the server's files, as the user it runs as or with sudo"
    } else if file.symlink_metadata().is_ok() {
        "the name of a file that does not exist"
    } else {
        "a directory with room in which this user may create files"
    }
}
