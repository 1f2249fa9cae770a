//! The OVN that a server writes to: the configured one, the one of this host, or the central of `--dev`.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use central::{Central, Database, MissingProgram};
use ovsdb::client::ClientConfig;

use crate::cli::ovsdb::Target;
use crate::config::{Config, Origin, Server, Setting};
use crate::failure::{Exit, Failure, Outcome};
use crate::remote;

/// The directory of the OVN central within the data directory.
const CENTRAL: &str = "ovn";
/// The longest delay before a reconnect to a database of OVN.
const LONGEST_BACKOFF: Duration = Duration::from_millis(400);
/// Time after which the server probes a silent member of a clustered Northbound, and time limit of the reply.
const MEMBER_PROBE: Duration = Duration::from_secs(1);

/// Refuses to start if no OVN can be found. Such a server would accept networks that nothing ever carries.
///
/// A database that the operator names may be down: the server knows where to wait for it.
pub(super) fn check_named(server: &Server) -> Outcome {
    for (database, setting, flag) in
        [(Database::Northbound, &server.nb, "nb"), (Database::Southbound, &server.sb, "sb")]
    {
        if !setting.value.is_empty() {
            continue;
        }
        let guess = remote::guess(database.name(), |name| std::env::var(name).ok());
        let Some(socket) = guess.and_then(|guess| guess.socket) else { continue };
        let missing = std::fs::metadata(&socket).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if missing {
            let what = format!(
                "cannot find the {} database of OVN: there is no --{flag}, no {flag} in the section [server] of the \
                 configuration, and no socket {}",
                database.name(),
                socket.display()
            );
            return Err(Failure::told(Exit::Usage, what).try_(
                "--nb tcp:HOST:6641 --sb tcp:HOST:6642 for an OVN on another host, to start ovn-central on this host, or \
                 --dev for an OVN central of the server's own, to try things out",
            ));
        }
    }
    Ok(())
}

/// Starts the central of `--dev` in the data directory.
pub(super) async fn start_central(data_dir: &Path) -> Outcome<Central> {
    let dir = data_dir.join(CENTRAL);
    let started = tokio::task::spawn_blocking(move || Central::start(&dir)).await;
    match started {
        Ok(started) => started.map_err(central_failure),
        Err(error) => Err(central_failure(error.into())),
    }
}

fn central_failure(error: anyhow::Error) -> Failure {
    let missing = error.is::<MissingProgram>();
    let failure = Failure::new(Exit::Local, error).while_("cannot start an OVN central");
    if missing { failure.try_("`apt-get install ovn-central openvswitch-switch`") } else { failure }
}

/// Resolves with the reason when a program of the server's own central exits. Without a central it never resolves.
pub(super) async fn watch_central(central: &mut Option<Central>) -> Failure {
    let Some(central) = central else { return std::future::pending().await };
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Err(error) = central.still_running() {
            return Failure::new(Exit::Local, error).while_("the OVN central of --dev has ended");
        }
    }
}

/// The client configuration for a database of OVN: that of the own central, the configured one, or the one at the usual socket.
pub(crate) fn client_config(
    config: &Config,
    database: Database,
    remotes: &Setting<Vec<String>>,
    central: Option<&Central>,
) -> Outcome<ClientConfig> {
    let mut ovsdb = config.ovsdb.clone();
    // The origin is kept, because the error about an invalid remote names it.
    ovsdb.remote = match central {
        Some(central) => {
            Setting { value: vec![central.remote(database)], origin: Origin::Flag("--dev".into()) }
        }
        None => remotes.clone(),
    };
    let target = Target::new(&ovsdb, Some(database.name()))?;
    let mut client = ClientConfig::new(target.remotes.clone());
    client.dialer = target.dialer.clone();
    // Only the leader accepts writes. The reports of chassis can be read from any member.
    client.session.leader_only = database == Database::Northbound;
    client.session.connect_timeout = config.ovsdb.timeout.value;
    // Servers are few and usually close to OVN. A short backoff lets them reconnect soon after a long outage without load.
    client.session.backoff_max = LONGEST_BACKOFF;
    client.session.probe_interval = config.ovsdb.probe_interval.value;
    // The client soon leaves a leader that hangs for another member, because nothing is written meanwhile. With a single server it waits
    // longer: there is no alternative, and the server may only be busy.
    if client.session.leader_only
        && target.remotes.list.len() > 1
        && config.ovsdb.probe_interval.origin == Origin::Default
    {
        client.session.probe_interval = MEMBER_PROBE;
    }
    client.max_message = config.ovsdb.max_message.value.saturating_mul(1 << 20);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_program_is_answered_with_a_package() {
        let missing = anyhow::Error::new(MissingProgram("ovn-northd".to_owned())).context("cannot begin");
        let advice = central_failure(missing).report().unwrap();
        assert!(advice.contains("apt-get install ovn-central"), "{advice}");
        let advice =
            central_failure(anyhow::anyhow!("x is in use by process 7: end that one")).report().unwrap();
        assert!(!advice.contains("apt-get"), "{advice}");
    }

    #[test]
    fn a_wrong_remote_is_named_with_its_origin() {
        let mut config = Config::default();
        config.server.nb = Setting { value: vec!["tpc:h:1".into()], origin: Origin::Flag("--nb".into()) };
        let failure = client_config(&config, Database::Northbound, &config.server.nb, None).unwrap_err();
        let report = failure.report().unwrap();
        assert!(report.starts_with("error: the remote from --nb is invalid\n"), "{report}");
    }
}
