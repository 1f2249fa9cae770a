//! What the writer needs of a database, and which databases there are.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::secret::{Secret, SecretUrl};
use crate::world::{Change, Revision, Row};

use super::postgres::Postgres;
use super::sqlite::Sqlite;

/// Where a store is: `sqlite:///path/to/file` or `postgres://user:password@host/database`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// A file.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(PostgresUrl),
}

/// A PostgreSQL server, in the words of its own connection strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresUrl {
    pub(super) url: SecretUrl,
    /// In the place of the one in the URL.
    pub(super) password: Option<Secret>,
}

impl Url {
    /// The same with a password that stands elsewhere. A file needs none.
    pub fn with_password(self, password: Secret) -> Self {
        match self {
            Url::Postgres(at) => Url::Postgres(PostgresUrl { password: Some(password), ..at }),
            Url::Sqlite(path) => Url::Sqlite(path),
        }
    }
}

/// A store's address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no database: it must be sqlite:///path/to/file or postgres://user@host/database")]
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
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Url::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Url::Postgres(at) => at.url.fmt(f),
        }
    }
}

/// Why a store could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It does not answer, or not now. Trying again may help.
    #[error("{tried}")]
    Unavailable {
        /// What was attempted.
        tried: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It answers, and refuses. Trying the same again will not help.
    #[error("{tried}")]
    Refused {
        /// What was attempted.
        tried: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It went away while a change was being committed, and nobody can say whether that has happened.
    #[error("find out whether the last change was stored")]
    InDoubt {
        /// Why it could not be seen.
        source: Box<StoreError>,
    },
    /// Another process has the file open.
    #[error("the database {} is in use by {holder}: stop that process, or give this one another --data-dir", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
        /// The process, as far as it is known.
        holder: String,
    },
    /// Its tables are from a later version.
    #[error(
        "the tables are of version {found}, this program knows up to {known}: run the version that wrote them, or a later one"
    )]
    Newer {
        /// What is there.
        found: i64,
        /// What can be read.
        known: i64,
    },
    /// A stored entity cannot be read back.
    #[error("read {table} {key}")]
    Unreadable {
        /// Its table.
        table: &'static str,
        /// Its key.
        key: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable { .. })
    }

    /// Whether it is about what was to be written, not about the database.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, StoreError::Refused { .. })
    }
}

/// Everything that is stored, as of a revision.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) revision: Revision,
    pub(super) rows: Vec<Row>,
}

/// What others wrote since.
#[derive(Debug)]
pub(super) enum Missed {
    /// These changes lead to a revision; none if it is the one that was known.
    Changes { revision: Revision, changes: Vec<Change> },
    /// Too much to tell one by one: all of it.
    Everything(Contents),
    /// The store does not have the revision that was known: it was restored from a backup, or is another one under the same
    /// name. All of it.
    AnotherPast(Contents),
}

/// Decides, with all in view that others wrote, what is to be written.
pub(super) type Decide = Box<dyn FnOnce(Missed) -> Vec<Change> + Send>;

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

    /// Ends the use of it. A file of our own is whole afterwards.
    pub(super) fn close(self) -> Result<(), StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.close(),
            Engine::Postgres(_) => Ok(()),
        }
    }

    /// Whether other processes write to it. What nobody else writes to is a file of our own, whose calls block.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Engine::Postgres(_))
    }

    /// Reads everything.
    pub(super) async fn load(&mut self) -> Result<Contents, StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.load(),
            Engine::Postgres(postgres) => postgres.load().await,
        }
    }

    /// What was written after `known`.
    pub(super) async fn missed(&mut self, known: Revision) -> Result<Missed, StoreError> {
        match self {
            Engine::Sqlite(_) => Ok(Missed::Changes { revision: known, changes: Vec::new() }),
            Engine::Postgres(postgres) => postgres.missed(known).await,
        }
    }

    /// An error if the database takes no changes. A file of our own tells that with the first change.
    pub(super) async fn check_writable(&mut self) -> Result<(), StoreError> {
        match self {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(postgres) => postgres.check_writable().await,
        }
    }

    /// One transaction: keeps other writers out, tells `decide` what was written after `known`, and writes what it wants.
    /// Gives the revision that stands then.
    pub(super) async fn commit(&mut self, known: Revision, decide: Decide) -> Result<Revision, StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.commit(known, decide),
            Engine::Postgres(postgres) => postgres.commit(known, decide).await,
        }
    }

    /// Whether a revision is the store's own or one of its past. Of what is too old to be listed, the store's name tells.
    pub(super) async fn contains(&mut self, revision: Revision) -> Result<bool, StoreError> {
        match self {
            Engine::Sqlite(sqlite) => sqlite.contains(revision),
            Engine::Postgres(postgres) => postgres.contains(revision).await,
        }
    }

    /// Returns when somebody else may have written. Never for a database of our own.
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
