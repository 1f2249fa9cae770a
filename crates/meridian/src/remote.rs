//! The default remotes of a database: OVN's own variables, then the sockets of its packages.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::PathBuf;

/// The guessed remotes of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    /// Remotes in the form of `--remote`.
    pub(crate) remotes: String,
    /// The reason for this guess, for messages.
    pub(crate) because: String,
    /// The usual socket, if no variable names remotes. It exists only if the database runs on this host.
    pub(crate) socket: Option<PathBuf>,
}

/// A database of OVN or Open vSwitch: its variable, the directory of its socket, and the variable that changes that directory.
struct KnownDatabase {
    database: &'static str,
    variable: Option<&'static str>,
    directory_variable: &'static str,
    directory: &'static str,
    socket: &'static str,
}

const fn ovn(database: &'static str, variable: &'static str, socket: &'static str) -> KnownDatabase {
    KnownDatabase {
        database,
        variable: Some(variable),
        directory_variable: "OVN_RUNDIR",
        directory: "/var/run/ovn",
        socket,
    }
}

const fn ovs(database: &'static str) -> KnownDatabase {
    KnownDatabase {
        database,
        variable: None,
        directory_variable: "OVS_RUNDIR",
        directory: "/var/run/openvswitch",
        socket: "db.sock",
    }
}

const KNOWN: [KnownDatabase; 6] = [
    ovn("OVN_Northbound", "OVN_NB_DB", "ovnnb_db.sock"),
    ovn("OVN_Southbound", "OVN_SB_DB", "ovnsb_db.sock"),
    ovn("OVN_IC_Northbound", "OVN_IC_NB_DB", "ovn_ic_nb_db.sock"),
    ovn("OVN_IC_Southbound", "OVN_IC_SB_DB", "ovn_ic_sb_db.sock"),
    ovs("Open_vSwitch"),
    ovs("hardware_vtep"),
];

/// Guesses the remotes of a database; `None` if its name is unknown.
pub(crate) fn guess(database: &str, variable: impl Fn(&str) -> Option<String>) -> Option<Guess> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let known = KNOWN.iter().find(|known| known.database == database)?;
    if let Some(name) = known.variable
        && let Some(remotes) = set(name)
    {
        return Some(Guess { remotes, because: format!("{name} names it"), socket: None });
    }
    let directory = set(known.directory_variable);
    let unset = known.variable.map_or(String::new(), |name| format!(" and no {name}"));
    let because = match &directory {
        Some(_) => format!("{} names it", known.directory_variable),
        None => format!("there is no --remote{unset}"),
    };
    let directory = directory.as_deref().unwrap_or(known.directory);
    let socket = format!("{directory}/{}", known.socket);
    Some(Guess { remotes: format!("unix:{socket}"), because, socket: Some(socket.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_come_before_sockets() {
        let with = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let of = |database: &str, pairs| guess(database, with(pairs)).map(|guess| guess.remotes);
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(of("OVN_Northbound", &[]), is("unix:/var/run/ovn/ovnnb_db.sock"));
        assert_eq!(of("OVN_Northbound", &[("OVN_NB_DB", "")]), is("unix:/var/run/ovn/ovnnb_db.sock"));
        assert_eq!(of("OVN_Southbound", &[("OVN_NB_DB", "x")]), is("unix:/var/run/ovn/ovnsb_db.sock"));
        assert_eq!(of("OVN_Southbound", &[("OVN_SB_DB", "tcp:h:1,tcp:i:1")]), is("tcp:h:1,tcp:i:1"));
        assert_eq!(of("OVN_Southbound", &[("OVN_RUNDIR", "/r")]), is("unix:/r/ovnsb_db.sock"));
        assert_eq!(of("Open_vSwitch", &[("OVN_RUNDIR", "/r")]), is("unix:/var/run/openvswitch/db.sock"));
        assert_eq!(of("Open_vSwitch", &[("OVS_RUNDIR", "/r")]), is("unix:/r/db.sock"));
        assert_eq!(of("Other", &[]), None);
        let guess = guess("OVN_Northbound", with(&[])).unwrap();
        assert_eq!(guess.because, "there is no --remote and no OVN_NB_DB");
        assert_eq!(guess.socket, Some("/var/run/ovn/ovnnb_db.sock".into()));
    }
}
