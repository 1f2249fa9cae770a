//! A path between a client and a server that a test can break.
//!
//! Servers die loudly: their sockets close, and everybody notices. What is hard to notice is a path that swallows everything (a
//! firewall that lost its state, a switch that hangs) or a server that stands still. A stalled relay is both: connections stay,
//! new ones are accepted, and not a byte comes through.
//!
//! ```no_run
//! # fn test() -> anyhow::Result<()> {
//! let relay = lab::relay::Relay::to("/tmp/postgres/.s.PGSQL.5432")?;
//! let url = format!("postgres://meridian@{}/meridian", relay.address());
//! relay.stall();
//! relay.resume(); // what was sent meanwhile comes through now
//! # Ok(()) }
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a relay takes to notice what it is orders.
const PAUSE: Duration = Duration::from_millis(20);

/// A TCP port of 127.0.0.1 that leads to a unix socket. It ends with its value.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    orders: Arc<Orders>,
}

/// What a relay has to do.
#[derive(Debug, Default)]
struct Orders {
    stall: AtomicBool,
    end: AtomicBool,
}

impl Relay {
    /// Listens on a free port, and leads to a unix socket.
    pub fn to(socket: impl AsRef<Path>) -> Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on 127.0.0.1")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (orders, socket) = (Arc::<Orders>::default(), socket.as_ref().to_owned());
        let relay = Relay { address, orders: Arc::clone(&orders) };
        thread::spawn(move || accept(&listener, &socket, &orders));
        Ok(relay)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Swallows everything from now on.
    pub fn stall(&self) {
        self.orders.stall.store(true, Ordering::SeqCst);
    }

    /// Lets everything through again, also what was sent meanwhile.
    pub fn resume(&self) {
        self.orders.stall.store(false, Ordering::SeqCst);
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

/// Both ways of one connection, until either side hangs up.
fn pass(client: TcpStream, socket: &Path, orders: &Arc<Orders>) -> std::io::Result<()> {
    let server = UnixStream::connect(socket)?;
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PAUSE))?;
    server.set_read_timeout(Some(PAUSE))?;
    let (to_server, from_server) = (server.try_clone()?, server);
    let (to_client, from_client) = (client.try_clone()?, client);
    let there = Arc::clone(orders);
    let back = thread::spawn(move || {
        copy(from_server, &to_client, &there);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    copy(from_client, &to_server, orders);
    let _ = to_server.shutdown(Shutdown::Both);
    let _ = back.join();
    Ok(())
}

fn copy(mut from: impl Read, mut to: impl Write, orders: &Orders) {
    let mut buffer = vec![0; 64 << 10];
    while !orders.end.load(Ordering::SeqCst) {
        if orders.stall.load(Ordering::SeqCst) {
            thread::sleep(PAUSE);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                // Told to stall while it was reading: these bytes are the first to wait.
                while orders.stall.load(Ordering::SeqCst) && !orders.end.load(Ordering::SeqCst) {
                    thread::sleep(PAUSE);
                }
                if to.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}
