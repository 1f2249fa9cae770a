//! The two databases behind the writer, SQLite and PostgreSQL, and the operations that the writer needs of them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::secret::{Secret, SecretUrl};
use crate::world::{Change, Revision, Row};

use super::postgres::Postgres;
use super::sqlite::Sqlite;

/// The address of a store: `sqlite:///path/to/file` or `postgres://user:password@host/database`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// A file.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(PostgresUrl),
}

/// A PostgreSQL server, as the connection string that libpq would accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresUrl {
    pub(super) url: SecretUrl,
    /// Replaces the password of the URL.
    pub(super) password: Option<Secret>,
}

impl Url {
    /// Replaces the password of the URL with one from elsewhere, such as a file. SQLite needs none.
    pub fn with_password(self, password: Secret) -> Self {
        match self {
            Url::Postgres(at) => Url::Postgres(PostgresUrl { password: Some(password), ..at }),
            Url::Sqlite(path) => Url::Sqlite(path),
        }
    }
}

/// A malformed store address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a database URL; expected sqlite:///path/to/file or postgres://user@host/database")]
pub struct UrlError(SecretUrl);

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if let Some(path) = text.strip_prefix("sqlite://").filter(|path| path.len() > 1) {
            Ok(Url::Sqlite(path.into()))
        } else if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            Ok(Url::Postgres(PostgresUrl { url: text.into(), password: None }))
        } else {
            Err(UrlError(text.into()))
        }
    }
}

impl fmt::Display for Url {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Url::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Url::Postgres(at) => at.url.fmt(f),
        }
    }
}

/// A failed read or write of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer, or not now. A retry may help.
    #[error("{tried}")]
    Unavailable {
        /// The attempted action, for the error message.
        tried: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store answers and refuses. A retry of the same action does not help.
    #[error("{tried}")]
    Refused {
        /// The attempted action, for the error message.
        tried: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke during a commit, and the writer could not find out whether the commit happened.
    #[error("find out whether the last change was stored")]
    InDoubt {
        /// The failure of the last check.
        source: Box<StoreError>,
    },
    /// Another process has the file open.
    #[error("the database {} is in use by {holder}: stop that process, or give this one another --data-dir", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
        /// A description of that process, as far as it is known.
        holder: String,
    },
    /// A later version wrote the tables.
    #[error(
        "the tables are of version {found}, this program knows up to {known}: run the version that wrote them, or a later one"
    )]
    Newer {
        /// The version of the tables.
        found: i64,
        /// The newest version that this program can read.
        known: i64,
    },
    /// A stored entity cannot be read back.
    #[error("read {table} {key}")]
    Unreadable {
        /// Its table.
        table: &'static str,
        /// Its key.
        key: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether a retry may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable { .. })
    }

    /// Whether the database refused the written data, rather than being unavailable.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, StoreError::Refused { .. })
    }
}

/// All rows of a store at one revision.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) revision: Revision,
    pub(super) rows: Vec<Row>,
}

/// The changes that other servers wrote since a known revision.
#[derive(Debug)]
pub(super) enum MissedChanges {
    /// The changes that lead to `revision`; empty if that is the known one.
    Changes { revision: Revision, changes: Vec<Change> },
    /// The whole store: the list of changes does not reach back to the known revision.
    Everything(Contents),
    /// The whole store: it does not contain the known revision. An operator restored it from a backup or replaced it by another store.
    AnotherPast(Contents),
}

/// Decides which changes to write, after taking in those of other servers.
pub(super) type Decide = Box<dyn FnOnce(MissedChanges) -> Vec<Change> + Send>;

/// One of the two databases.
#[derive(Debug)]
pub(super) enum Engine {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Engine {
    pub(super) async fn open(url: &Url) -> Result<Self, StoreError> {
        Ok(match url {
            Url::Sqlite(path) => Engine::Sqlite(Sqlite::open(path)?),
            Url::Postgres(url) => Engine::Postgres(Box::new(Postgres::open(url).await?)),
        })
    }

    /// Closes the database. A SQLite file is then complete without its log.
    pub(super) fn close(self) -> Result<(), StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.close(),
            Engine::Postgres(_) => Ok(()),
        }
    }

    /// Whether other processes may write to the store. A SQLite store has one process, and its calls block.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Engine::Postgres(_))
    }

    /// Reads all rows.
    pub(super) async fn load(&mut self) -> Result<Contents, StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.load(),
            Engine::Postgres(postgres) => postgres.load().await,
        }
    }

    /// The changes that other servers wrote after `known`.
    pub(super) async fn missed(&mut self, known: Revision) -> Result<MissedChanges, StoreError> {
        match self {
            Engine::Sqlite(_) => Ok(MissedChanges::Changes { revision: known, changes: Vec::new() }),
            Engine::Postgres(postgres) => postgres.missed(known).await,
        }
    }

    /// Fails if the database accepts no changes. SQLite skips the check: its first change shows it.
    pub(super) async fn check_writable(&mut self) -> Result<(), StoreError> {
        match self {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(postgres) => postgres.check_writable().await,
        }
    }

    /// Runs one transaction: locks out other writers, passes `decide` the changes since `known`, and writes the changes that it returns.
    /// Returns the new revision.
    pub(super) async fn commit(&mut self, known: Revision, decide: Decide) -> Result<Revision, StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.commit(known, decide),
            Engine::Postgres(postgres) => postgres.commit(known, decide).await,
        }
    }

    /// Whether a revision is the store's present or a past one. For a revision older than the list of changes, the store's name decides.
    pub(super) async fn contains(&mut self, revision: Revision) -> Result<bool, StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.contains(revision),
            Engine::Postgres(postgres) => postgres.contains(revision).await,
        }
    }

    /// Returns when another process may have written. Never returns for SQLite.
    pub(super) async fn written(&mut self) {
        match self {
            Engine::Sqlite(_) => std::future::pending().await,
            Engine::Postgres(postgres) => postgres.written().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_stores() {
        assert_eq!("sqlite:///var/lib/x.db".parse(), Ok(Url::Sqlite("/var/lib/x.db".into())));
        let postgres: Url = "postgres://neutron:s3cret@db.example/meridian".parse().unwrap();
        assert_eq!(postgres.to_string(), "postgres://neutron@db.example/meridian");
        for bad in ["", "sqlite://", "mysql://x", "/var/lib/x.db"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }
}
