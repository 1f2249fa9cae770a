//! Shared parts of the tests: servers, certificates, a small schema, and waiting.

pub mod backend;
pub mod feed;
pub mod pki;
pub mod server;
pub mod stable;

use std::future::Future;
use std::time::Duration;

/// The time limit of waits. It is generous, so that reaching it means "never" even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that must happen.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {PATIENCE:?}"),
    }
}

/// Calls a function until it returns a value.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    soon(what, async {
        loop {
            if let Some(value) = ask().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// The whole chain of an error in one line.
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
