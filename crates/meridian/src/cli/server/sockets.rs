//! The TCP sockets of a server, with their TLS.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use listener::TlsIdentity;
use listener::http::HttpSocket;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::config::{Server, Setting};
use crate::failure::{Exit, Failure, Outcome};
use crate::metrics;

/// The bound sockets of a server. The kernel queues connections until the server accepts them.
pub(super) struct Sockets {
    pub(super) network: ApiSocket,
    pub(super) load_balancer: Option<ApiSocket>,
    pub(super) metrics: HttpSocket,
}

/// The socket of an API, with the probe of that API.
pub(super) struct ApiSocket {
    pub(super) http: HttpSocket,
    pub(super) probe: Probe,
}

impl Sockets {
    pub(super) async fn bind(server: &Server, metrics: SocketAddr) -> Outcome<Self> {
        let tls = identity(("tls_cert", &server.tls_cert), ("tls_key", &server.tls_key))?;
        let metrics_tls = identity(
            ("metrics_tls_cert", &server.metrics_tls_cert),
            ("metrics_tls_key", &server.metrics_tls_key),
        )?;
        let network = ApiSocket::bind(server.listen.value, "--listen", tls.clone()).await?;
        let load_balancer = match server.load_balancer_listen.value.address() {
            Some(address) => Some(ApiSocket::bind(address, "--lb-listen", tls.clone()).await?),
            None => None,
        };
        let metrics = metrics::bind(metrics).await?;
        for identity in [tls, metrics_tls.clone()].into_iter().flatten() {
            task::keep("certificate", identity.follow());
        }
        Ok(Self { network, load_balancer, metrics: socket(metrics, metrics_tls) })
    }
}

impl ApiSocket {
    /// Binds a socket to the address that `flag` sets.
    async fn bind(address: SocketAddr, flag: &str, tls: Option<Arc<TlsIdentity>>) -> Outcome<Self> {
        let failed = |error| {
            Failure::new(Exit::Local, error)
                .while_(format!("cannot listen on {address}"))
                .try_(format!("another address with {flag}; `ss -ltnp` names the program that listens there"))
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let probe = Probe { address: tcp.local_addr().map_err(failed)?, tls: tls.clone() };
        Ok(Self { http: socket(tcp, tls), probe })
    }
}

fn socket(tcp: TcpListener, tls: Option<Arc<TlsIdentity>>) -> HttpSocket {
    match tls {
        Some(tls) => HttpSocket::encrypted(tcp, tls),
        None => tcp.into(),
    }
}

type NamedFile<'a> = (&'static str, &'a Setting<Option<PathBuf>>);

/// The TLS identity in the files that two keys name; `None` if neither is set.
fn identity(cert: NamedFile<'_>, key: NamedFile<'_>) -> Outcome<Option<Arc<TlsIdentity>>> {
    let lacks = |(given, setting): NamedFile<'_>, (missing, _): NamedFile<'_>| {
        let what = format!("server.{given} ({}) is set without server.{missing}", setting.origin);
        Failure::told(Exit::Usage, what)
            .try_(format!("{missing} in the section [server] of the configuration"))
    };
    match (&cert.1.value, &key.1.value) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(lacks(cert, key)),
        (None, Some(_)) => Err(lacks(key, cert)),
        (Some(certificate), Some(private)) => {
            let loaded = TlsIdentity::load(certificate, private).map_err(|error| {
                Failure::new(Exit::Usage, error)
                    .while_(format!("cannot use server.{} ({})", cert.0, cert.1.origin))
                    .try_("a PEM file with the certificate and its chain, and one with its private key, which the user of the server may read")
            })?;
            Ok(Some(Arc::new(loaded)))
        }
    }
}

/// A probe of an API of this process. It connects as a client does.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) address: SocketAddr,
    tls: Option<Arc<TlsIdentity>>,
}

impl Probe {
    /// The URL of the API.
    pub(super) fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// Whether the API answers a request as a client would send it. That covers the accepting task, the runtime and its threads. A database
    /// that does not respond does not count, because restarting the server would not help.
    pub(super) async fn lives(&self) -> bool {
        let ip = match self.address.ip() {
            ip if ip.is_unspecified() && ip.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
            ip if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let asked = async {
            let stream = TcpStream::connect((ip, self.address.port())).await?;
            match &self.tls {
                Some(tls) => ask(tls.probe(stream).await?).await,
                None => ask(stream).await,
            }
        };
        asked.await.unwrap_or(false)
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<bool> {
    stream.write_all(b"GET /healthcheck HTTP/1.0\r\n\r\n").await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    // Status 503 is an answer too: the store is unreachable, and this server reports so.
    Ok(answer.starts_with(b"HTTP/1."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_whose_database_is_away_lives() {
        for (answer, expected) in [
            ("HTTP/1.0 200 OK\r\n\r\n", true),
            ("HTTP/1.0 503 Service Unavailable\r\n\r\n", true),
            ("", false),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let probe = Probe { address: listener.local_addr().unwrap(), tls: None };
            let serving = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 28];
                stream.read_exact(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            };
            let (lives, ()) = tokio::join!(probe.lives(), serving);
            assert_eq!(lives, expected, "{answer:?}");
        }
    }
}
