//! A path between a client and a server that a test can break.
//!
//! When a server dies, its sockets close, and every client notices at once. A path that swallows all packets (a firewall that
//! lost its state, a switch that hangs) or a server that hangs is harder to notice. A stalled relay simulates both: connections
//! stay, new ones are accepted, and no byte passes. A slow path delays every message, and a path that is cut closes its
//! connections in the middle of a message.
//!
//! ```no_run
//! # fn test() -> anyhow::Result<()> {
//! let relay = lab::relay::Relay::to("/tmp/postgres/.s.PGSQL.5432")?;
//! let url = format!("postgres://meridian@{}/meridian", relay.address());
//! relay.stall();
//! relay.resume(); // the data sent meanwhile arrives now
//! # Ok(()) }
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// The interval in which a relay checks its orders.
const PAUSE: Duration = Duration::from_millis(20);

/// A TCP port of 127.0.0.1 that forwards to a unix socket. Dropping it ends it.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    orders: Arc<Orders>,
}

/// The state of a relay.
#[derive(Debug, Default)]
struct Orders {
    stall: AtomicBool,
    /// The delay of each piece in milliseconds.
    delay: AtomicU64,
    /// The number of cuts. A connection ends when this differs from the number at its beginning.
    cuts: AtomicU64,
    end: AtomicBool,
}

impl Relay {
    /// Listens on a free port, and forwards to a unix socket.
    pub fn to(socket: impl AsRef<Path>) -> Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on 127.0.0.1")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (orders, socket) = (Arc::<Orders>::default(), socket.as_ref().to_owned());
        let relay = Relay { address, orders: Arc::clone(&orders) };
        thread::spawn(move || accept(&listener, &socket, &orders));
        Ok(relay)
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops forwarding, without closing connections.
    pub fn stall(&self) {
        self.orders.stall.store(true, Ordering::SeqCst);
    }

    /// Forwards everything again, including the data that arrived meanwhile.
    pub fn resume(&self) {
        self.orders.stall.store(false, Ordering::SeqCst);
    }

    /// Delays every message by this time; zero stops delaying.
    pub fn delay(&self, by: Duration) {
        self.orders.delay.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Closes all connections. Of a message in flight, half arrives. New connections are accepted.
    pub fn cut(&self) {
        self.orders.cuts.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.orders.end.store(true, Ordering::SeqCst);
    }
}

fn accept(listener: &TcpListener, socket: &Path, orders: &Arc<Orders>) {
    while !orders.end.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((client, _)) => {
                let (orders, socket) = (Arc::clone(orders), socket.to_owned());
                thread::spawn(move || drop(pass(client, &socket, &orders)));
            }
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Forwards both directions of a connection until either side closes it.
fn pass(client: TcpStream, socket: &Path, orders: &Arc<Orders>) -> std::io::Result<()> {
    let server = UnixStream::connect(socket)?;
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PAUSE))?;
    server.set_read_timeout(Some(PAUSE))?;
    let cuts = orders.cuts.load(Ordering::SeqCst);
    let (to_server, from_server) = (server.try_clone()?, server);
    let (to_client, from_client) = (client.try_clone()?, client);
    let there = Arc::clone(orders);
    let back = thread::spawn(move || {
        copy(from_server, &to_client, &there, cuts);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    copy(from_client, &to_server, orders, cuts);
    let _ = to_server.shutdown(Shutdown::Both);
    let _ = back.join();
    Ok(())
}

fn copy(mut from: impl Read, mut to: impl Write, orders: &Orders, cuts: u64) {
    let mut buffer = vec![0; 64 << 10];
    let is_cut = || orders.cuts.load(Ordering::SeqCst) != cuts;
    while !orders.end.load(Ordering::SeqCst) && !is_cut() {
        if orders.stall.load(Ordering::SeqCst) {
            thread::sleep(PAUSE);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                thread::sleep(Duration::from_millis(orders.delay.load(Ordering::SeqCst)));
                // The relay was stalled during the read, so these bytes are the first to wait.
                while orders.stall.load(Ordering::SeqCst) && !orders.end.load(Ordering::SeqCst) && !is_cut() {
                    thread::sleep(PAUSE);
                }
                let passes = if is_cut() { length / 2 } else { length };
                if to.write_all(&buffer[..passes]).is_err() {
                    return;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_cut_path_ends_its_connections_and_takes_new_ones() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("echo");
        let listener = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || {
            while let Ok((mut client, _)) = listener.accept() {
                let mut answer = client.try_clone().unwrap();
                thread::spawn(move || drop(std::io::copy(&mut client, &mut answer)));
            }
        });
        let relay = Relay::to(&socket).unwrap();
        let connect = || {
            let client = TcpStream::connect(relay.address()).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            client
        };
        let echo = |client: &mut TcpStream| {
            let mut answer = [0; 4];
            client.write_all(b"ping")?;
            client.read_exact(&mut answer).map(|()| answer)
        };
        let mut client = connect();
        relay.delay(PAUSE);
        assert_eq!(echo(&mut client).unwrap(), *b"ping");
        relay.stall();
        client.write_all(b"half").unwrap();
        relay.cut();
        relay.resume();
        // At most half of the message in flight arrives, then the connection ends.
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert!(rest.len() <= 2, "{rest:?}");
        assert_eq!(echo(&mut connect()).unwrap(), *b"ping");
    }
}
