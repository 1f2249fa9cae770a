//! Users and passwords from an htpasswd file.
//!
//! Two formats are understood: bcrypt (`htpasswd -B`), which is meant to be used, and `{SHA}` (`htpasswd -s`), which files of
//! old have. Others are refused when the file is read rather than when somebody tries to log in.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The users of a file.
#[derive(Debug)]
pub struct Htpasswd {
    users: Arc<HashMap<String, Hash>>,
    /// Digests of what was found right before. bcrypt takes tens of milliseconds on purpose, which is for the first request
    /// of a client and not for each.
    known: Mutex<HashSet<[u8; 32]>>,
}

#[derive(Clone, Debug)]
enum Hash {
    Bcrypt(String),
    Sha([u8; 20]),
}

/// Most remembered log-ins; beyond them all are forgotten.
const REMEMBERED: usize = 1024;

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
        Ok(Htpasswd { users: Arc::new(users), known: Mutex::default() })
    }

    /// Whether this is a user and that its password.
    pub async fn verify(&self, user: &str, password: &str) -> bool {
        let Some(hash) = self.users.get(user).cloned() else { return false };
        // The lengths keep ("ab", "c") and ("a", "bc") apart.
        let id: [u8; 32] =
            Sha256::digest(format!("{}:{user}:{}:{password}", user.len(), password.len()).as_bytes()).into();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&id) {
            return true;
        }
        let password = password.to_owned();
        let right = tokio::task::spawn_blocking(move || hash.fits(&password)).await.unwrap_or(false);
        if right {
            let mut known = known();
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(id);
        }
        right
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
