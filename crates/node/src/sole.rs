//! One agent of each role per network namespace.
//!
//! Two agents of one role with different settings would remove each other's objects, as each finds what it did not write. The lock is
//! an abstract socket: its name belongs to the network namespace, it needs no file, and the kernel frees it when its holder dies.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use tokio::time::sleep;

/// The time that a former agent has to end: a service manager may start the next one while it does.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between two attempts to take the lock.
const RETRY: Duration = Duration::from_millis(100);

/// The role of an agent, which has one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoleRole {
    /// The BGP agent.
    Bgp,
    /// The metadata agent.
    Metadata,
}

impl SoleRole {
    fn lock(self) -> &'static str {
        match self {
            SoleRole::Bgp => "meridian-bgp-agent",
            SoleRole::Metadata => "meridian-metadata-agent",
        }
    }

    fn name(self) -> &'static str {
        match self {
            SoleRole::Bgp => "BGP",
            SoleRole::Metadata => "metadata",
        }
    }
}

/// The reason why an agent may not run here.
#[derive(Debug, thiserror::Error)]
pub enum SoleError {
    /// Another one runs.
    #[error("another {role} agent runs in this network namespace{}; stop it first", pid.map_or(String::new(), |pid| format!(", process {pid}")))]
    Taken {
        /// The role.
        role: &'static str,
        /// Its process, where that is known.
        pid: Option<i32>,
    },
    /// The lock cannot be taken.
    #[error("cannot take the lock of this network namespace, the abstract socket {name:?}")]
    Lock {
        /// The lock's name.
        name: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The right to be the agent of a role in this network namespace, for as long as it lives.
#[derive(Debug)]
pub struct Sole {
    _lock: UnixListener,
}

impl Sole {
    /// Takes the lock of the calling thread's network namespace. Must be called within a tokio runtime.
    pub async fn claim(role: SoleRole) -> Result<Self, SoleError> {
        Self::claim_as(role.lock(), role, PATIENCE).await
    }

    async fn claim_as(name: &str, role: SoleRole, patience: Duration) -> Result<Self, SoleError> {
        let failed = |source| SoleError::Lock { name: name.to_owned(), source };
        let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
        let mut left = patience;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(lock) => return Ok(Self { _lock: lock }),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(failed(error)),
                Err(_) if left.is_zero() => {
                    return Err(SoleError::Taken { role: role.name(), pid: holder(&address) });
                }
                Err(_) => {}
            }
            sleep(RETRY.min(left)).await;
            left = left.saturating_sub(RETRY);
        }
    }
}

/// The process that holds the lock.
fn holder(address: &SocketAddr) -> Option<i32> {
    let stream = UnixStream::connect_addr(address).ok()?;
    stream.set_nonblocking(true).ok()?;
    tokio::net::UnixStream::from_std(stream).ok()?.peer_cred().ok()?.pid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_is_one_and_it_is_named() {
        let name = format!("meridian-test-{}", std::process::id());
        let sole = Sole::claim_as(&name, SoleRole::Bgp, Duration::ZERO).await.unwrap();
        let told = Sole::claim_as(&name, SoleRole::Bgp, Duration::ZERO).await.unwrap_err().to_string();
        assert!(told.ends_with(&format!("process {}; stop it first", std::process::id())), "{told}");
        // One that is about to end is waited for.
        let next =
            tokio::spawn(async move { Sole::claim_as(&name, SoleRole::Bgp, Duration::from_secs(60)).await });
        tokio::task::yield_now().await;
        drop(sole);
        next.await.unwrap().unwrap();
    }
}
