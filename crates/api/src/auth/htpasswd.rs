//! Users and passwords from an htpasswd file.
//!
//! Two formats are understood: bcrypt (`htpasswd -B`), which is meant to be used, and `{SHA}` (`htpasswd -s`), which files of
//! old have. Others are refused when the file is read rather than when somebody tries to log in.

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
    /// bcrypt's exponent of the costliest hash. Each check takes as much work as that one, whoever is asked about.
    exponent: u32,
    /// Digests of what was found right before, and when. bcrypt takes tens of milliseconds on purpose, which is for the first
    /// request of a client and not for each.
    known: Mutex<HashMap<[u8; 32], Instant>>,
    /// Passwords that may be checked at once; each takes a processor.
    turns: Arc<Turns>,
    /// Rounds of hashing so far.
    work: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Hash {
    Bcrypt(String),
    Sha([u8; 20]),
}

/// Room for checks; the number of processors decides how many run at once.
const ROOM: Room = Room { checks: 1, waiting_per_client: 32, waiting: 256 };
/// Most remembered log-ins; beyond them all are forgotten.
const REMEMBERED: usize = 1024;
/// How long a log-in is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HtpasswdError {
    /// It cannot be read.
    #[error("read the users in {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not `user:hash`.
    #[error("line {0} of the users is not of the form user:hash")]
    Line(usize),
    /// A hash of another kind.
    #[error(
        "the password of user {user} (line {line}) is neither bcrypt nor {{SHA}}; make it with `htpasswd -B`"
    )]
    Format {
        /// Which line.
        line: usize,
        /// Whose.
        user: String,
    },
    /// Nobody could ever log in.
    #[error("there are no users")]
    Empty,
}

impl Htpasswd {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, HtpasswdError> {
        let text = std::fs::read_to_string(path);
        Self::parse(&text.map_err(|source| HtpasswdError::Read { path: path.to_owned(), source })?)
    }

    /// Takes the text of a file apart.
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
        // One processor is left for requests, if there are two.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Htpasswd {
            users,
            exponent,
            known: Mutex::default(),
            turns: Turns::new(Room { checks: processors.saturating_sub(1).max(1), ..ROOM }),
            work: Arc::default(),
        })
    }

    /// Whether this is a user and that its password.
    ///
    /// Whoever guesses pays for every guess, and nobody else does: every user takes as much work as the costliest, and so does
    /// one that does not exist, only some passwords are checked at once, clients take turns, and a password that was right before is not checked at
    /// all. So the rightful user gets in while others guess.
    pub async fn verify(&self, client: Client, user: &str, password: &str) -> Result<bool, TooManyChecks> {
        // The lengths keep ("ab", "c") and ("a", "bc") apart.
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
            // A check goes on when its client has left, and takes a processor until it is done.
            let _turn = turn;
            let fits = |hash: &Hash| {
                work.fetch_add(hash.rounds(), Ordering::Relaxed);
                contain::here(|| hash.fits(password.expose())).unwrap_or(false)
            };
            let right = hash.as_ref().is_some_and(fits);
            // Nobody's password fits a decoy; its work is its only purpose.
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

    /// Whether a password was found right a short while ago.
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

    /// bcrypt's exponent; none for `{SHA}`.
    fn exponent(&self) -> u32 {
        match self {
            Hash::Bcrypt(hash) => {
                hash.split('$').nth(2).and_then(|cost| cost.parse().ok()).unwrap_or_default()
            }
            Hash::Sha(_) => 0,
        }
    }

    /// Rounds of bcrypt that a check takes.
    fn rounds(&self) -> u64 {
        match self {
            Hash::Bcrypt(_) => 1_u64.checked_shl(self.exponent()).unwrap_or(u64::MAX),
            Hash::Sha(_) => 0,
        }
    }

    /// Hashes that no password has. With them a check of `hash`, or of no hash, takes as many rounds as one of the costliest.
    ///
    /// 2^c rounds are missing 2^c + 2^(c+1) + ... + 2^(highest - 1) to 2^highest: one decoy for each.
    fn decoys(hash: Option<&Hash>, highest: u32) -> Vec<Hash> {
        match hash {
            Some(hash @ Hash::Bcrypt(_)) => (hash.exponent()..highest).map(Hash::decoy).collect(),
            _ if highest > 0 => vec![Hash::decoy(highest)],
            // All users have `{SHA}`, which costs next to nothing.
            _ => Vec::new(),
        }
    }

    /// 22 characters of salt, and 31 of a hash that is all zeros.
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
