//! The servers that a node's process connects to, and the keys that open them.
//!
//! Each role has options of its own for them, because each takes the place of a program of its own. In one process they are
//! joined: an option that one role leaves alone is the other one's, and two that differ are an error.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ovsdb::client::{ClientConfig, TlsConfig};
use ovsdb::session::{Remote, Remotes};

/// Probe interval of the local switch's database, as in ovn-bgp-agent.
const VSWITCH_PROBE: Duration = Duration::from_secs(60);
/// The sockets of the local switch's database, of distributions and of builds of one's own.
pub(super) const VSWITCH_SOCKETS: [&str; 2] =
    ["/run/openvswitch/db.sock", "/usr/local/var/run/openvswitch/db.sock"];

/// One of OVN's databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OvnDatabase {
    /// The Southbound.
    #[default]
    Southbound,
    /// The Northbound.
    Northbound,
}

impl OvnDatabase {
    /// The name of its schema.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Southbound => "OVN_Southbound",
            Self::Northbound => "OVN_Northbound",
        }
    }

    /// The local switch's setting that names its servers.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Southbound => "ovn-remote",
            Self::Northbound => "ovn-nb-remote",
        }
    }

    /// The option that names its servers.
    pub fn option(self) -> &'static str {
        match self {
            Self::Southbound => "ovn_sb_connection",
            Self::Northbound => "ovn_nb_connection",
        }
    }
}

impl fmt::Display for OvnDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Southbound => "Southbound",
            Self::Northbound => "Northbound",
        })
    }
}

/// A database and the keys that open it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// Its servers; `None` is those that the local switch's settings name.
    pub remotes: Option<Remotes>,
    /// Private key for `ssl:` remotes.
    pub private_key: PathBuf,
    /// Certificate for `ssl:` remotes.
    pub certificate: PathBuf,
    /// Certificate of the authority that signed the server's.
    pub ca_cert: PathBuf,
    /// Whether the server's certificate must name the host of its remote.
    pub verify_names: bool,
}

impl DatabaseSettings {
    /// The configuration of a client.
    pub(super) fn client(&self, remotes: Remotes) -> ClientConfig {
        let tls = remotes.list.iter().any(|remote| matches!(remote, Remote::Ssl(_)));
        let mut client = ClientConfig::new(remotes);
        // Any member of a cluster will do: it passes writes on to the leader.
        client.session.leader_only = false;
        if tls {
            let trusted = TlsConfig { verify_names: self.verify_names, ..TlsConfig::new(&self.ca_cert) };
            client = client.tls(trusted.identity(&self.certificate, &self.private_key));
        }
        client
    }
}

/// The servers of all databases of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The local switch's database; `None` is its usual socket.
    pub vswitch: Option<Remotes>,
    /// Open vSwitch's run directory, with the usual socket.
    pub ovs_rundir: Option<PathBuf>,
    /// Time limit for the local switch's database to send its rows.
    pub vswitch_patience: Duration,
    /// The Southbound.
    pub southbound: DatabaseSettings,
    /// The Northbound.
    pub northbound: DatabaseSettings,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        ConnectionSettings {
            vswitch: None,
            ovs_rundir: None,
            vswitch_patience: Duration::from_secs(180),
            southbound: DatabaseSettings::default(),
            northbound: DatabaseSettings::default(),
        }
    }
}

/// Settings of two roles that one process cannot follow both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot share connections: {} of [bgp] and of [metadata] differ, and a process has one connection to each database; set \
     equal values, or set them in one of the sections",
    .0.join(" and ")
)]
pub struct SettingsConflict(Vec<&'static str>);

impl ConnectionSettings {
    /// The settings of one of OVN's databases.
    pub fn of(&self, database: OvnDatabase) -> &DatabaseSettings {
        match database {
            OvnDatabase::Southbound => &self.southbound,
            OvnDatabase::Northbound => &self.northbound,
        }
    }

    /// Joins the settings of two roles. A value that equals its role's default is not set.
    pub fn join(
        roles: [&ConnectionSettings; 2],
        defaults: [&ConnectionSettings; 2],
    ) -> Result<Self, SettingsConflict> {
        let mut joined = roles[0].clone();
        let mut conflicts = Vec::new();
        macro_rules! join {
            ($($name:literal: $($field:ident).+),* $(,)?) => {$({
                let [one, other] = [0, 1].map(|n| (&roles[n].$($field).+, &defaults[n].$($field).+));
                match (one.0 != one.1, other.0 != other.1) {
                    (true, true) if one.0 != other.0 => conflicts.push($name),
                    (false, true) => joined.$($field).+ = other.0.clone(),
                    _ => {}
                }
            })*};
        }
        join! {
            "ovsdb_connection": vswitch,
            "ovs_rundir": ovs_rundir,
            "ovsdb_connection_timeout": vswitch_patience,
            "ovn_sb_connection": southbound.remotes,
            "ovn_sb_private_key": southbound.private_key,
            "ovn_sb_certificate": southbound.certificate,
            "ovn_sb_ca_cert": southbound.ca_cert,
            "ovn_sb_verify_names": southbound.verify_names,
        }
        if conflicts.is_empty() { Ok(joined) } else { Err(SettingsConflict(conflicts)) }
    }

    /// The configuration of the local switch's client.
    pub(super) fn vswitch_client(&self) -> ClientConfig {
        let remotes = self.vswitch.clone().unwrap_or_else(|| self.usual_switch());
        let mut client = ClientConfig::new(remotes);
        client.session.leader_only = false;
        client.session.shuffle = false;
        client.session.probe_interval = VSWITCH_PROBE;
        client.session.load_patience = self.vswitch_patience;
        client
    }

    fn usual_switch(&self) -> Remotes {
        let rundir = self.ovs_rundir.clone().or_else(|| std::env::var_os("OVS_RUNDIR").map(Into::into));
        let list = match rundir {
            Some(dir) => vec![Remote::Unix(dir.join("db.sock"))],
            None => sockets(|dir| dir.is_dir()),
        };
        Remotes { list, cluster_id: None }
    }
}

/// The sockets whose directory exists, if any does: an error about the other one would hide the cause.
pub(super) fn sockets(exists: impl Fn(&Path) -> bool) -> Vec<Remote> {
    let all = VSWITCH_SOCKETS.map(Path::new);
    let known: Vec<&Path> = all.into_iter().filter(|path| path.parent().is_some_and(&exists)).collect();
    let list = if known.is_empty() { all.to_vec() } else { known };
    list.into_iter().map(|path| Remote::Unix(path.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_looked_for_where_a_switch_may_be_and_everywhere_if_it_may_be_nowhere_yet() {
        let [packaged, built] = VSWITCH_SOCKETS.map(|path| Remote::Unix(path.into()));
        for (directories, expected) in [
            (&["/run/openvswitch"][..], vec![packaged.clone()]),
            (&["/usr/local/var/run/openvswitch"], vec![built.clone()]),
            (&["/run/openvswitch", "/usr/local/var/run/openvswitch"], vec![packaged.clone(), built.clone()]),
            (&[], vec![packaged.clone(), built.clone()]),
        ] {
            let exists = |dir: &Path| directories.iter().any(|one| dir == Path::new(one));
            assert_eq!(sockets(exists), expected, "{directories:?}");
        }
    }

    #[test]
    fn settings_of_two_roles_are_joined_or_refused_by_name() {
        let remotes = |text: &str| Some(text.parse::<Remotes>().unwrap());
        let with = |remote: Option<Remotes>, key: &str| ConnectionSettings {
            southbound: DatabaseSettings {
                remotes: remote,
                private_key: key.into(),
                ..DatabaseSettings::default()
            },
            ..ConnectionSettings::default()
        };
        let (bgp, metadata) = (with(None, "/bgp.key"), with(None, ""));
        let join = |one: &ConnectionSettings, other: &ConnectionSettings| {
            ConnectionSettings::join([one, other], [&bgp, &metadata])
        };
        assert_eq!(join(&bgp, &metadata).unwrap(), bgp, "defaults do not differ");
        let (near, far) = (remotes("tcp:192.0.2.1:6642"), remotes("tcp:192.0.2.2:6642"));
        let set = with(near.clone(), "/own.key");
        assert_eq!(join(&bgp, &set).unwrap(), set, "the role that sets an option decides");
        assert_eq!(join(&set, &metadata).unwrap(), set);
        assert_eq!(join(&set, &set).unwrap(), set);
        let told = join(&with(near, "/bgp.key"), &with(far, "")).unwrap_err().to_string();
        assert!(told.starts_with("cannot share connections: ovn_sb_connection of [bgp]"), "{told}");
    }
}
