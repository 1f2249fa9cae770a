//! The metadata proxy as a process, without privileges.

use std::path::Path;

use metadata_proxy::request::SharedSecret;
use metadata_proxy::{Config as ProxyConfig, Proxy};
use node::metadata::config::Config;

use crate::failure::{Exit, Failure, Outcome};
use crate::notify;
use crate::roles::Signals;

/// Runs the proxy until SIGINT or SIGTERM.
pub(crate) async fn run(config: Config) -> Outcome {
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
        rate: config.rate_limit_enabled.then_some(config.rate),
    });
    let proxy = proxy.map_err(|error| Failure::new(Exit::Local, error))?;
    let mut watchdog = notify::Watchdog::new();
    notify::ready("waits for the agent");
    let mut running = std::pin::pin!(proxy.run());
    loop {
        tokio::select! {
            () = signals.end() => break,
            () = &mut running => break,
            () = watchdog.feed() => {}
        }
    }
    task::stopping();
    notify::stopping();
    Ok(())
}

fn read_secret(path: &Path) -> Outcome<SharedSecret> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Exit::Usage, error).while_(format!("cannot read shared_secret_file {}", path.display()))
    })?;
    // Editors end a file with a line end, which no secret has.
    Ok(SharedSecret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}
