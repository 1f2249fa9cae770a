//! Users and passwords from an htpasswd file.
//!
//! Two formats are supported: bcrypt (`htpasswd -B`), which is recommended, and `{SHA}` (`htpasswd -s`) for old files. Reading a file with
//! another format fails, so that the error does not appear only at a user's first request.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listener::Client;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use task::contain;
use tracing::debug;

use super::turns::{Room, TooManyChecks, Turns};
use crate::secret::Secret;

/// The users of a file.
#[derive(Debug)]
pub struct Htpasswd {
    users: HashMap<String, Hash>,
    /// The highest bcrypt exponent among the hashes. Each check takes as much work as that one, for every user name.
    exponent: u32,
    /// Digests of recently verified credentials, and when. bcrypt takes tens of milliseconds by design; this limits the cost to a client's
    /// first request.
    known: Mutex<HashMap<[u8; 32], Instant>>,
    /// Limits the concurrent checks; each uses one processor.
    turns: Arc<Turns>,
    /// The rounds of hashing so far.
    work: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Hash {
    Bcrypt(String),
    Sha([u8; 20]),
}

/// The limits of checks. `checks` is replaced by a number that depends on the processors.
const ROOM: Room = Room { checks: 1, waiting_per_client: 32, waiting: 256 };
/// The maximum number of remembered credentials; beyond it all are dropped.
const REMEMBERED: usize = 1024;
/// The lifetime of verified credentials.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// An unusable htpasswd file.
#[derive(Debug, thiserror::Error)]
pub enum HtpasswdError {
    /// The file cannot be read.
    #[error("read the users in {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not `user:hash`.
    #[error("line {0} of the users is not of the form user:hash")]
    Line(usize),
    /// A hash has an unsupported format.
    #[error(
        "the password of user {user} (line {line}) is neither bcrypt nor {{SHA}}; create it with `htpasswd -B`"
    )]
    Format {
        /// The line number.
        line: usize,
        /// The user name.
        user: String,
    },
    /// The file has no users, so every request would fail.
    #[error("there are no users")]
    Empty,
}

impl Htpasswd {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, HtpasswdError> {
        let text = std::fs::read_to_string(path);
        Self::parse(&text.map_err(|source| HtpasswdError::Read { path: path.to_owned(), source })?)
    }

    /// Parses the content of a file.
    pub fn parse(text: &str) -> Result<Self, HtpasswdError> {
        let mut users = HashMap::new();
        for (n, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, hash) = line.split_once(':').ok_or(HtpasswdError::Line(n))?;
            if user.is_empty() {
                return Err(HtpasswdError::Line(n));
            }
            let hash =
                Hash::parse(hash).ok_or_else(|| HtpasswdError::Format { line: n, user: user.to_owned() })?;
            users.insert(user.to_owned(), hash);
        }
        if users.is_empty() {
            return Err(HtpasswdError::Empty);
        }
        let exponent = users.values().map(Hash::exponent).max().unwrap_or_default();
        // Leaves one processor for requests, if there are at least two.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Htpasswd {
            users,
            exponent,
            known: Mutex::default(),
            turns: Turns::new(Room { checks: processors.saturating_sub(1).max(1), ..ROOM }),
            work: Arc::default(),
        })
    }

    /// Whether the user exists and has this password.
    ///
    /// A client that guesses passwords delays only itself. Every check takes as much work as that of the most expensive hash, even for an
    /// unknown user. Only some checks run at once, clients take turns, and recently verified credentials need no check. So the rightful
    /// user gets in while others guess.
    pub async fn verify(&self, client: Client, user: &str, password: &str) -> Result<bool, TooManyChecks> {
        // The lengths distinguish ("ab", "c") from ("a", "bc").
        let id: [u8; 32] =
            Sha256::digest(format!("{}:{user}:{}:{password}", user.len(), password.len()).as_bytes()).into();
        if self.remembered(&id) {
            return Ok(true);
        }
        let turn = self.turns.next(client).await?;
        let hash = self.users.get(user).cloned();
        let decoys = Hash::decoys(hash.as_ref(), self.exponent);
        let work = Arc::clone(&self.work);
        let password = Secret::from(password);
        let check = move || {
            // A check continues after its client has left, and uses a processor until it is done.
            let _turn = turn;
            let fits = |hash: &Hash| {
                work.fetch_add(hash.rounds(), Ordering::Relaxed);
                contain::here(|| hash.fits(password.expose())).unwrap_or(false)
            };
            let right = hash.as_ref().is_some_and(fits);
            // No password matches a decoy. Its only purpose is the work.
            for decoy in &decoys {
                fits(decoy);
            }
            right
        };
        let right = tokio::task::spawn_blocking(check).await.unwrap_or(false);
        if right {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(id, Instant::now());
        } else {
            debug!(user = user.get(..64).unwrap_or(user), "a wrong password");
        }
        Ok(right)
    }

    /// Whether these credentials were verified recently.
    fn remembered(&self, id: &[u8; 32]) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).is_some_and(|at| at.elapsed() < REMEMBERED_FOR)
    }
}

impl Hash {
    fn parse(text: &str) -> Option<Self> {
        if let Some(encoded) = text.strip_prefix("{SHA}") {
            return STANDARD.decode(encoded).ok()?.try_into().ok().map(Hash::Sha);
        }
        let known = ["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|prefix| text.starts_with(prefix));
        (known && text.parse::<bcrypt::HashParts>().is_ok()).then(|| Hash::Bcrypt(text.to_owned()))
    }

    /// The bcrypt exponent; zero for `{SHA}`.
    fn exponent(&self) -> u32 {
        match self {
            Hash::Bcrypt(hash) => {
                hash.split('$').nth(2).and_then(|cost| cost.parse().ok()).unwrap_or_default()
            }
            Hash::Sha(_) => 0,
        }
    }

    /// The bcrypt rounds of a check.
    fn rounds(&self) -> u64 {
        match self {
            Hash::Bcrypt(_) => 1_u64.checked_shl(self.exponent()).unwrap_or(u64::MAX),
            Hash::Sha(_) => 0,
        }
    }

    /// Hashes that match no password. Together with a check of `hash`, or of no hash, they take as many rounds as the most expensive one.
    ///
    /// From 2^c to 2^highest rounds, 2^c + 2^(c+1) + ... + 2^(highest - 1) are missing: one decoy for each term.
    fn decoys(hash: Option<&Hash>, highest: u32) -> Vec<Hash> {
        match hash {
            Some(hash @ Hash::Bcrypt(_)) => (hash.exponent()..highest).map(Hash::decoy).collect(),
            _ if highest > 0 => vec![Hash::decoy(highest)],
            // All users have `{SHA}`, which costs almost nothing.
            _ => Vec::new(),
        }
    }

    /// 22 characters of salt, and 31 of an all-zero hash.
    fn decoy(exponent: u32) -> Self {
        Hash::Bcrypt(format!("$2b${exponent:02}$abcdefghijklmnopqrstuu{}", ".".repeat(31)))
    }

    fn fits(&self, password: &str) -> bool {
        match self {
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::Sha(expected) => {
                let digest: [u8; 20] = Sha1::digest(password.as_bytes()).into();
                digest.ct_eq(expected).into()
            }
        }
    }
}

#[cfg(test)]
mod tests;
