//! The metadata proxy as a process, without privileges.

use std::path::Path;

use metadata_proxy::request::SharedSecret;
use metadata_proxy::{Config as ProxyConfig, Proxy};
use node::metadata::config::Config;

use crate::failure::{Exit, Failure, Outcome};
use crate::notify;
use crate::signals::Signals;

/// Waits for SIGINT or SIGTERM, because metadata is switched off. A process that ended would be started again by systemd, for ever.
pub(crate) async fn idle() -> Outcome {
    let mut signals = Signals::new()?;
    let mut watchdog = notify::Watchdog::new();
    tracing::info!("metadata is switched off by ovn_metadata_enabled; this program does nothing");
    notify::ready("idle: metadata is switched off by ovn_metadata_enabled");
    loop {
        tokio::select! {
            () = signals.end() => return Ok(()),
            () = watchdog.feed() => {}
        }
    }
}

/// Runs the proxy until SIGINT or SIGTERM.
pub(crate) async fn run(config: Config) -> Outcome {
    if !config.is_enabled {
        return idle().await;
    }
    let mut signals = Signals::new()?;
    let secret = match &config.secret_file {
        Some(path) => read_secret(path)?,
        None => config.secret,
    };
    let proxy = Proxy::open(ProxyConfig {
        control: config.control_socket,
        nova: config.nova,
        secret,
        timeouts: config.timeouts,
        limits: config.limits,
        host_connections: config.host_connections,
        rate: config.rate_limit_enabled.then_some(config.rate),
        check: config.verify_source_mac,
    });
    let proxy = proxy.map_err(|error| Failure::new(Exit::Local, error))?;
    let mut watchdog = notify::Watchdog::new();
    notify::ready("waits for the agent");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut stop = Some(stop);
    let mut running = std::pin::pin!(proxy.run_until(async {
        let _ = stopped.await;
    }));
    loop {
        tokio::select! {
            // The first signal lets requests in progress finish, a second one does not.
            () = signals.end() => match stop.take() {
                Some(stop) => {
                    task::stopping();
                    notify::stopping();
                    drop(stop);
                }
                None => break,
            },
            () = &mut running => break,
            () = watchdog.feed() => {}
        }
    }
    Ok(())
}

fn read_secret(path: &Path) -> Outcome<SharedSecret> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Exit::Usage, error).while_(format!("cannot read shared_secret_file {}", path.display()))
    })?;
    // Editors end a file with a line end, which no secret has.
    Ok(SharedSecret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}
