//! Remotes of a database: parsing OVS's syntax, and the order of attempts.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;
use uuid::Uuid;

use super::backoff::Random;
use crate::model::Str;

/// The port that OVSDB has by assignment; OVN's databases use 6641 and 6642.
pub const DEFAULT_PORT: u16 = 6640;

/// One address of a database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Remote {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `tcp:HOST[:PORT]`
    Tcp(Endpoint),
    /// `ssl:HOST[:PORT]`
    Ssl(Endpoint),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// An address, IPv6 without its brackets, or a name.
    pub host: Str,
    /// The port.
    pub port: u16,
}

/// A parsed list of remotes: the addresses, and the required cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remotes {
    /// The remotes in the given order, without duplicates.
    pub list: Vec<Remote>,
    /// From `cid:UUID`, as in the C clients.
    pub cluster_id: Option<Uuid>,
}

/// A remote could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("remote `{remote}`: {problem}")]
pub struct RemoteError {
    /// The given string.
    pub remote: String,
    /// The error, and a correct form.
    pub problem: String,
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let text = text.trim();
        let fail = |problem: &str| RemoteError { remote: text.to_owned(), problem: problem.to_owned() };
        if text.is_empty() {
            return Err(fail("is empty; expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"));
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return Err(fail("has no method; expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"));
        };
        match kind {
            "unix" if rest.is_empty() => Err(fail("names no socket; expected unix:PATH")),
            "unix" => Ok(Self::Unix(rest.into())),
            "tcp" => Endpoint::parse(rest).map(Self::Tcp).map_err(|problem| fail(&problem)),
            "ssl" => Endpoint::parse(rest).map(Self::Ssl).map_err(|problem| fail(&problem)),
            "ptcp" | "pssl" | "punix" => {
                Err(fail("is an address to listen on; for a client, write it without the leading p"))
            }
            "cid" => Err(fail("names a cluster, not an address; it belongs in a list of remotes")),
            _ => Err(fail("has an unknown method; expected unix:, tcp: or ssl:")),
        }
    }
}

impl Endpoint {
    fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) =
                    rest.split_once(']').ok_or("has an opening bracket without a closing one")?;
                match behind.strip_prefix(':') {
                    None if behind.is_empty() => (host, None),
                    None => return Err("has something other than :PORT behind the bracket".into()),
                    Some(port) => (host, Some(port)),
                }
            }
            None => match text.matches(':').count() {
                0 => (text, None),
                1 => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
                _ => {
                    return Err("has an IPv6 address without brackets; write [ADDRESS]:PORT".into());
                }
            },
        };
        if host.is_empty() {
            return Err("names no host".into());
        }
        if host.contains(|c: char| c.is_whitespace() || c.is_control() || "[]/,".contains(c)) {
            return Err(format!("has a host name that cannot be one: {host:?}"));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(format!("has `{port}` for a port; expected 1 to 65535")),
            },
        };
        Ok(Self { host: host.into(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(endpoint) => write!(f, "tcp:{endpoint}"),
            Self::Ssl(endpoint) => write!(f, "ssl:{endpoint}"),
        }
    }
}

/// Printed in the syntax that the parser reads.
impl fmt::Display for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, remote) in self.list.iter().enumerate() {
            write!(f, "{}{remote}", if at == 0 { "" } else { "," })?;
        }
        self.cluster_id.map_or(Ok(()), |id| write!(f, ",cid:{id}"))
    }
}

/// A list with commas between: `ssl:[fd00::1]:6641,tcp:10.0.0.2:6641,unix:/run/ovn/ovnnb_db.sock,cid:UUID`.
impl FromStr for Remotes {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let mut remotes = Self::default();
        for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
            let fail = |problem: &str| RemoteError { remote: piece.to_owned(), problem: problem.to_owned() };
            if let Some(id) = piece.strip_prefix("cid:") {
                let id = Uuid::try_parse(id).map_err(|_| fail("has no UUID behind cid:"))?;
                if remotes.cluster_id.replace(id).is_some_and(|other| other != id) {
                    return Err(fail("is the second cluster in the list; all remotes serve one"));
                }
                continue;
            }
            let remote: Remote = piece.parse()?;
            if !remotes.list.contains(&remote) {
                remotes.list.push(remote);
            }
        }
        if remotes.list.is_empty() {
            return Err(RemoteError {
                remote: text.to_owned(),
                problem: "names no place; expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT".into(),
            });
        }
        Ok(remotes)
    }
}

/// The order of attempts: rounds, each of which visits every remote once. A round begins with the remote that served last,
/// unless that one has just rejected us.
#[derive(Debug)]
pub(super) struct Rotation {
    remotes: Vec<Remote>,
    shuffle: bool,
    /// The rest of this round, last one first.
    left: Vec<usize>,
    current: Option<usize>,
    last_good: Option<usize>,
}

impl Rotation {
    pub(super) fn new(remotes: Vec<Remote>, shuffle: bool) -> Self {
        Self { remotes, shuffle, left: Vec::new(), current: None, last_good: None }
    }

    /// Begins a round, in which every remote is dialled once.
    pub(super) fn begin_round(&mut self, random: &mut Random) {
        self.left = (0..self.remotes.len()).rev().collect();
        if self.shuffle {
            random.shuffle(&mut self.left);
        }
        if let Some(good) = self.last_good {
            self.left.retain(|&at| at != good);
            self.left.push(good);
        }
    }

    /// The next remote of this round; `None` once all were dialled.
    pub(super) fn next(&mut self) -> Option<Remote> {
        self.current = self.left.pop();
        self.current().cloned()
    }

    /// The current remote, dialled or in use.
    pub(super) fn current(&self) -> Option<&Remote> {
        self.current.and_then(|at| self.remotes.get(at))
    }

    /// Records that the current remote works.
    pub(super) fn good(&mut self) {
        self.last_good = self.current;
    }

    /// Records that the current remote rejected us: it comes last in a round that begins now, and is not preferred any more.
    pub(super) fn demote_current(&mut self) {
        if self.last_good == self.current {
            self.last_good = None;
        }
        if let Some(at) = self.current
            && let Some(position) = self.left.iter().position(|&other| other == at)
        {
            self.left.remove(position);
            self.left.insert(0, at);
        }
    }

    /// Whether there is no other remote.
    pub(super) fn is_single(&self) -> bool {
        self.remotes.len() <= 1
    }

    /// Replaces the remotes; returns whether the current one is among them.
    pub(super) fn replace(&mut self, remotes: Vec<Remote>) -> bool {
        let current = self.current().cloned();
        let find = |wanted: Option<&Remote>| wanted.and_then(|w| remotes.iter().position(|r| r == w));
        let last_good = find(self.last_good.and_then(|at| self.remotes.get(at)));
        let at = find(current.as_ref());
        *self = Self { remotes, shuffle: self.shuffle, left: Vec::new(), current: at, last_good };
        self.current.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(text: &str) -> String {
        text.parse::<Remotes>().unwrap_err().to_string()
    }

    #[test]
    fn every_kind_is_read_and_printed_back() {
        let text = "ssl:[fd00::1]:6641,tcp:10.0.0.2:6642,tcp:db.example,unix:/run/ovn/ovnnb_db.sock";
        let remotes: Remotes = text.parse().unwrap();
        let shown: Vec<_> = remotes.list.iter().map(Remote::to_string).collect();
        assert_eq!(
            shown,
            ["ssl:[fd00::1]:6641", "tcp:10.0.0.2:6642", "tcp:db.example:6640", "unix:/run/ovn/ovnnb_db.sock"]
        );
        assert_eq!(remotes.cluster_id, None);
        assert_eq!("tcp:[::1]".parse::<Remote>().unwrap().to_string(), "tcp:[::1]:6640");
        assert_eq!("tcp:[fe80::1%eth0]:1".parse::<Remote>().unwrap().to_string(), "tcp:[fe80::1%eth0]:1");
    }

    #[test]
    fn a_list_may_repeat_itself_and_name_its_cluster() {
        let id = "8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11";
        let remotes: Remotes = format!(" tcp:a:1 ,, tcp:a:1, cid:{id},").parse().unwrap();
        assert_eq!(remotes.list.len(), 1);
        assert_eq!(remotes.cluster_id, Some(Uuid::try_parse(id).unwrap()));
        assert_eq!(remotes.to_string(), format!("tcp:a:1,cid:{id}"));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        assert!(problem("").contains("expected unix:PATH"));
        assert!(problem("/run/x.sock").contains("no method"));
        assert!(problem("http:x").contains("unknown method"));
        assert!(problem("ptcp:6640").contains("address to listen on"));
        assert!(problem("tcp:fd00::1:6641").contains("brackets"));
        assert!(problem("tcp:[fd00::1").contains("closing"));
        assert!(problem("tcp:[fd00::1]6641").contains("behind the bracket"));
        assert!(problem("tcp:a:0").contains("1 to 65535"));
        assert!(problem("tcp:a:70000").contains("`70000`"));
        assert!(problem("ssl::6641").contains("no host"));
        assert!(problem("ssl:a b:6641").contains("cannot be one"));
        assert!(problem("unix:").contains("no socket"));
        assert!(problem("tcp:a:1,cid:x").contains("UUID"));
        assert!(problem("cid:8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11").contains("no place"));
        assert_eq!(problem("tcp:a:1,tcp:b:x"), "remote `tcp:b:x`: has `x` for a port; expected 1 to 65535");
    }

    fn places(n: u16) -> Vec<Remote> {
        (1..=n).map(|port| Remote::Tcp(Endpoint { host: "h".into(), port })).collect()
    }

    #[test]
    fn a_round_visits_each_remote_once_beginning_with_the_last_good_one() {
        let mut random = Random::new(7);
        let mut rotation = Rotation::new(places(5), true);
        for _ in 0..20 {
            rotation.begin_round(&mut random);
            let mut seen = Vec::new();
            while let Some(remote) = rotation.next() {
                seen.push(remote);
            }
            let mut sorted = seen.clone();
            sorted.sort_by_key(ToString::to_string);
            assert_eq!(sorted, places(5));
            assert!(rotation.next().is_none());
            rotation.begin_round(&mut random);
            rotation.next();
            let good = rotation.next().unwrap();
            rotation.good();
            rotation.begin_round(&mut random);
            assert_eq!(rotation.next(), Some(good.clone()));
            rotation.begin_round(&mut random);
            rotation.demote_current();
            let mut last = None;
            while let Some(remote) = rotation.next() {
                last = Some(remote);
            }
            assert_eq!(last, Some(good));
        }
    }

    #[test]
    fn clients_that_shuffle_try_remotes_in_different_orders() {
        let order = |seed| {
            let mut rotation = Rotation::new(places(5), true);
            rotation.begin_round(&mut Random::new(seed));
            std::iter::from_fn(|| rotation.next()).map(|remote| remote.to_string()).collect::<Vec<_>>()
        };
        let orders: std::collections::BTreeSet<_> = (0..20).map(order).collect();
        assert!(orders.len() > 10, "{orders:?}");
        let first: std::collections::BTreeSet<_> = orders.iter().map(|order| &order[0]).collect();
        assert_eq!(first.len(), 5, "each is somebody's first");
    }

    #[test]
    fn without_shuffling_the_order_is_as_given() {
        let mut rotation = Rotation::new(places(3), false);
        rotation.begin_round(&mut Random::new(1));
        let seen: Vec<_> = std::iter::from_fn(|| rotation.next()).collect();
        assert_eq!(seen, places(3));
    }

    #[test]
    fn replaced_remotes_keep_the_one_in_use() {
        let mut rotation = Rotation::new(places(3), false);
        rotation.begin_round(&mut Random::new(1));
        rotation.next();
        rotation.good();
        let mut fewer = places(1);
        assert!(rotation.replace(fewer.clone()));
        assert_eq!(rotation.current(), Some(&fewer[0]));
        assert!(rotation.is_single());
        fewer[0] = places(9)[8].clone();
        assert!(!rotation.replace(fewer));
        assert_eq!(rotation.current(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_what_is_read_prints_back(text in "(unix:|tcp:|ssl:|cid:)?[a-f0-9:.,\\[\\]/% ]{0,24}") {
            if let Ok(remotes) = text.parse::<Remotes>() {
                prop_assert_eq!(remotes.to_string().parse::<Remotes>().unwrap(), remotes);
            }
        }
    }
}
