//! Connects to a remote: unix sockets, TCP, TLS over TCP.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tls::{self, TlsConfig, TlsError};
use crate::session::{Endpoint, Remote};

/// The settings for connecting to a remote.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// Certificates for `ssl:` remotes.
    pub tls: Option<TlsConfig>,
    /// Timeout for connecting to one remote, including name lookup and TLS.
    pub timeout: Duration,
    /// If a host has several addresses: the delay before a connection to the next one is started in parallel (RFC 8305). Without it, the
    /// addresses are dialled one after the other.
    pub happy_eyeballs: Option<Duration>,
}

impl Default for Dialer {
    fn default() -> Self {
        Self { tls: None, timeout: Duration::from_secs(10), happy_eyeballs: Some(Duration::from_millis(250)) }
    }
}

/// A remote could not be reached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DialError {
    /// The socket does not answer.
    #[error("cannot connect to unix:{}", path.display())]
    Unix {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The host's name has no address.
    #[error("cannot find the address of {host}")]
    Resolve {
        /// The host.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The port does not answer.
    #[error("cannot connect to {remote}")]
    Tcp {
        /// The remote.
        remote: Remote,
        /// The error of the last dialled address.
        #[source]
        source: io::Error,
    },
    /// The remote is `ssl:`, and no certificates are configured.
    #[error("{remote} needs certificates, but none are configured")]
    NoCertificates {
        /// The remote.
        remote: Remote,
    },
    /// The certificates can't be used.
    #[error("cannot prepare TLS for {remote}")]
    Tls {
        /// The remote.
        remote: Remote,
        /// Why.
        #[source]
        source: TlsError,
    },
    /// The connection was established, but the TLS handshake failed.
    #[error("cannot use TLS with {remote}: {hint}")]
    Handshake {
        /// The remote.
        remote: Remote,
        /// The meaning of the error.
        hint: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The attempt timed out.
    #[error("{remote} did not answer within {after:?}")]
    Timeout {
        /// The remote.
        remote: Remote,
        /// The timeout.
        after: Duration,
    },
}

impl Dialer {
    /// Reaches a remote.
    pub async fn dial(&self, remote: &Remote) -> Result<Stream, DialError> {
        let reached = async {
            match remote {
                Remote::Unix(path) => UnixStream::connect(path)
                    .await
                    .map(Stream::Unix)
                    .map_err(|source| DialError::Unix { path: path.clone(), source }),
                Remote::Tcp(endpoint) => self.tcp(remote, endpoint).await.map(Stream::Tcp),
                Remote::Ssl(endpoint) => self.ssl(remote, endpoint).await,
            }
        };
        match time::timeout(self.timeout, reached).await {
            Ok(done) => done,
            Err(_) => Err(DialError::Timeout { remote: remote.clone(), after: self.timeout }),
        }
    }

    async fn ssl(&self, remote: &Remote, endpoint: &Endpoint) -> Result<Stream, DialError> {
        let Some(config) = self.tls.clone() else {
            return Err(DialError::NoCertificates { remote: remote.clone() });
        };
        let failed = |source| DialError::Tls { remote: remote.clone(), source };
        let config = config.load().map_err(failed)?;
        let stream = self.tcp(remote, endpoint).await?;
        let name = tls::server_name(&endpoint.host);
        match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(stream))),
            Err(source) => {
                let hint = tls::hint(&source);
                Err(DialError::Handshake { remote: remote.clone(), hint, source })
            }
        }
    }

    async fn tcp(&self, remote: &Remote, endpoint: &Endpoint) -> Result<TcpStream, DialError> {
        let failed = |source| DialError::Resolve { host: endpoint.host.to_string(), source };
        let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await.map_err(failed)?;
        let stream = first_to_answer(by_turns(found.collect()), self.happy_eyeballs)
            .await
            .map_err(|source| DialError::Tcp { remote: remote.clone(), source })?;
        // Small requests must not wait for the answer to the previous one. A failure here costs only latency.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// The addresses of both IP versions in turn, beginning with the version that the system prefers.
fn by_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv6) else { return addresses };
    let (mut preferred, mut other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first);
    let mut turns = Vec::with_capacity(preferred.len() + other.len());
    preferred.reverse();
    other.reverse();
    while !(preferred.is_empty() && other.is_empty()) {
        turns.extend(preferred.pop());
        turns.extend(other.pop());
    }
    turns
}

async fn first_to_answer(addresses: Vec<SocketAddr>, stagger: Option<Duration>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut rest = addresses.into_iter();
    let mut attempts = JoinSet::new();
    loop {
        match rest.next() {
            Some(address) => drop(attempts.spawn(TcpStream::connect(address))),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let more = rest.len() > 0;
        loop {
            let patience = if more { stagger } else { None };
            let next = match patience {
                Some(stagger) => match time::timeout(stagger, attempts.join_next()).await {
                    Ok(next) => next,
                    Err(_) => break,
                },
                None => attempts.join_next().await,
            };
            match next {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last = error,
                Some(Err(error)) => last = io::Error::other(error),
                None => {}
            }
            if more || attempts.is_empty() {
                break;
            }
        }
    }
}

/// A connection of any kind.
#[derive(Debug)]
pub enum Stream {
    /// `unix:`
    Unix(UnixStream),
    /// `tcp:`
    Tcp(TcpStream),
    /// `ssl:`
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Unix($stream) => $call,
            Stream::Tcp($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf)).map_err(tls::explain)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse = |list: &[&str]| list.iter().map(|a| a.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let turns = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        assert_eq!(by_turns(found), turns);
        assert!(by_turns(Vec::new()).is_empty());
    }

    #[tokio::test]
    async fn the_address_that_answers_is_found_behind_those_that_do_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = {
            let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            gone.local_addr().unwrap()
        };
        for stagger in [None, Some(Duration::ZERO), Some(Duration::from_secs(60))] {
            let stream = first_to_answer(vec![closed, closed, open], stagger).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), open);
            let error = first_to_answer(vec![closed, closed], stagger).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
        assert!(first_to_answer(Vec::new(), None).await.is_err());
    }

    #[tokio::test]
    async fn an_address_that_says_nothing_holds_up_only_those_who_do_not_stagger() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // The queue holds one connection, which is never accepted. Further connections get no answer.
        let listener = socket.listen(0).unwrap();
        let hung = listener.local_addr().unwrap();
        let mut filling = JoinSet::new();
        (0..4).for_each(|_| drop(filling.spawn(TcpStream::connect(hung))));
        let _first = filling.join_next().await.unwrap().unwrap().unwrap();
        let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = vec![hung, open.local_addr().unwrap()];

        let stagger = Some(Duration::from_millis(10));
        let limit = Duration::from_secs(60);
        let stream =
            time::timeout(limit, first_to_answer(addresses.clone(), stagger)).await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
        let patient = first_to_answer(addresses, None);
        assert!(time::timeout(Duration::from_millis(300), patient).await.is_err());
        assert!(!filling.is_empty(), "the queue is full to the end");
    }
}
