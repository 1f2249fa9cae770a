//! TLS of a listening socket: a certificate and its private key, which are read again when their files change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// The interval between checks of the files.
const LOOK: Duration = Duration::from_secs(1);

/// A certificate or a key that cannot be used.
#[derive(Debug)]
pub struct TlsError {
    tried: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tried)
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// The identity of a listening socket.
pub struct TlsIdentity {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: Arc<CurrentKey>,
    acceptor: TlsAcceptor,
    /// The state of the files when they were first read.
    read: FileStamps,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The times, inodes and lengths of both files, which show a change. Symbolic links are followed.
type FileStamps = [Option<(SystemTime, u64, u64)>; 2];

impl TlsIdentity {
    /// Reads a certificate with its chain and its private key, both PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        // The stamps are taken before the files are read, so a change in between is noticed.
        let read = stamps(certificate, key);
        let current = Arc::new(CurrentKey(RwLock::new(read_key(certificate, key, &provider)?)));
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError { tried: "cannot set up TLS".into(), source: error.into() })?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { certificate: certificate.into(), key: key.into(), provider, current, acceptor, read })
    }

    /// Checks the files for changes and reads them again; runs forever. New connections get the new certificate, others keep theirs.
    ///
    /// Files that do not match are not used, because operators replace one file after the other. Until both match, the listener keeps its
    /// identity.
    pub async fn follow(self: Arc<Self>) {
        let (mut known, mut failed) = (self.read, false);
        loop {
            tokio::time::sleep(LOOK).await;
            let found = stamps(&self.certificate, &self.key);
            if found == known && !failed {
                continue;
            }
            let certificate = self.certificate.display();
            match read_key(&self.certificate, &self.key, &self.provider) {
                Ok(key) => {
                    *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = key;
                    failed = false;
                    tracing::info!(%certificate, "new connections use the new certificate");
                }
                Err(error) => {
                    if found != known {
                        let cause = error.source.to_string();
                        tracing::warn!(%error, cause, "cannot use the new certificate; the old one stays in use");
                    }
                    failed = true;
                }
            }
            known = found;
        }
    }

    /// Connects as a client to a socket with this very certificate, so that a process can probe itself.
    pub async fn probe(&self, stream: TcpStream) -> io::Result<client::TlsStream<TcpStream>> {
        let own = OwnCertificate { current: Arc::clone(&self.current), provider: Arc::clone(&self.provider) };
        let config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let config = config.dangerous().with_custom_certificate_verifier(Arc::new(own)).with_no_client_auth();
        let name = ServerName::from(stream.peer_addr()?.ip());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    pub(crate) fn accept(&self, stream: TcpStream) -> ClientStream {
        ClientStream::Handshake(Box::new(self.acceptor.accept(stream)))
    }
}

fn stamps(certificate: &Path, key: &Path) -> FileStamps {
    use std::os::unix::fs::MetadataExt;
    [certificate, key].map(|path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.ino(), found.len()))
    })
}

fn read_key(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let unreadable = |what: &str, path: &Path, source: rustls_pki_types::pem::Error| TlsError {
        tried: format!("cannot read {what} from {}", path.display()),
        source: source.into(),
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable("a certificate", certificate, error))?;
    let unusable = |source: Box<dyn std::error::Error + Send + Sync>| TlsError {
        tried: format!("cannot use {} with the key {}", certificate.display(), key.display()),
        source,
    };
    if chain.is_empty() {
        return Err(unusable("the file contains no certificate".into()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("a private key", key, error))?;
    CertifiedKey::from_der(chain, private, provider).map(Arc::new).map_err(|error| unusable(error.into()))
}

/// The current certificate, for each new connection.
struct CurrentKey(RwLock<Arc<CertifiedKey>>);

impl CurrentKey {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for CurrentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentKey").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CurrentKey {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

/// Trusts the certificate that this process presents, and no other.
#[derive(Debug)]
struct OwnCertificate {
    current: Arc<CurrentKey>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OwnCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.current.get().cert.first() {
            Some(own) if own == end_entity => Ok(ServerCertVerified::assertion()),
            _ => Err(rustls::Error::General("this is not the certificate of this process".into())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection of a client, encrypted or not.
///
/// The first read drives the handshake. So the limits of a connection without a request hold for a slow handshake as well, and no
/// handshake keeps the listener from accepting.
pub enum ClientStream {
    /// A connection without TLS.
    Plain(TcpStream),
    /// The client has connected and has not sent a TLS record yet.
    Handshake(Box<server::Accept<TcpStream>>),
    /// After the handshake.
    Encrypted(Box<server::TlsStream<TcpStream>>),
    /// The handshake has failed.
    Refused,
}

impl fmt::Debug for ClientStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientStream::Plain(_) => "Plain",
            ClientStream::Handshake(_) => "Handshake",
            ClientStream::Encrypted(_) => "Encrypted",
            ClientStream::Refused => "Refused",
        })
    }
}

impl ClientStream {
    /// The connection below.
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            ClientStream::Plain(stream) => Some(stream),
            ClientStream::Handshake(accept) => accept.get_ref(),
            ClientStream::Encrypted(stream) => Some(stream.get_ref().0),
            ClientStream::Refused => None,
        }
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let ClientStream::Handshake(accept) = self {
            match ready!(Pin::new(accept).poll(cx)) {
                Ok(stream) => *self = ClientStream::Encrypted(Box::new(stream)),
                Err(error) => {
                    *self = ClientStream::Refused;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Polls the stream after its handshake.
macro_rules! opened {
    ($this:expr, $cx:expr, $stream:ident => $poll:expr) => {{
        let this = $this.get_mut();
        ready!(this.poll_handshake($cx))?;
        match this {
            ClientStream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $poll
            }
            ClientStream::Encrypted(stream) => {
                let $stream = Pin::new(&mut **stream);
                $poll
            }
            ClientStream::Handshake(_) | ClientStream::Refused => {
                Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
            }
        }
    }};
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        opened!(self, cx, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        opened!(self, cx, stream => stream.poll_write(cx, buf))
    }

    /// Before the handshake there is nothing to flush.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            ClientStream::Encrypted(stream) => Pin::new(&mut **stream).poll_flush(cx),
            ClientStream::Handshake(_) | ClientStream::Refused => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            ClientStream::Encrypted(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            ClientStream::Handshake(_) | ClientStream::Refused => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        opened!(self, cx, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            ClientStream::Plain(stream) => stream.is_write_vectored(),
            ClientStream::Encrypted(stream) => stream.is_write_vectored(),
            ClientStream::Handshake(_) | ClientStream::Refused => false,
        }
    }
}
