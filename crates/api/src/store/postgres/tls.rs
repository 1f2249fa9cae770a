//! TLS to PostgreSQL, with libpq's keywords in the URL: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`.
//!
//! | sslmode | encrypted | trusted servers |
//! |---|---|---|
//! | `disable` | no | |
//! | `prefer`, the default | if the server can | any |
//! | `require` | yes | any; with `sslrootcert`, certificates that it signed |
//! | `verify-ca` | yes | certificates that `sslrootcert` signed |
//! | `verify-full` | yes | certificates that `sslrootcert` signed for the requested host |
//!
//! tokio-postgres knows only the first three modes and no certificates, so this module removes these keywords from the URL first.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ovsdb::TlsConfig;
use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// The TLS options of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    mode: Mode,
    root: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    Disable,
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Invalid or contradictory TLS options.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum AskedError {
    #[error("sslmode is none of disable, prefer, require, verify-ca, verify-full")]
    Mode,
    #[error(
        "sslmode=verify-ca and verify-full need sslrootcert=FILE with the certificates of the CA; Debian's own list is \
         /etc/ssl/certs/ca-certificates.crt"
    )]
    NoRoot,
    #[error("sslcert and sslkey need each other")]
    HalfAnIdentity,
}

impl Asked {
    /// Splits a URL into its TLS options and the rest.
    pub(super) fn read(url: &str) -> Result<(Asked, String), AskedError> {
        let mut asked = Asked::default();
        let Some((base, query)) = url.split_once('?') else { return Ok((asked, url.to_owned())) };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "sslmode" => {
                    asked.mode = match value.as_str() {
                        "disable" => Mode::Disable,
                        "prefer" => Mode::Prefer,
                        "require" => Mode::Require,
                        "verify-ca" => Mode::VerifyCa,
                        "verify-full" => Mode::VerifyFull,
                        _ => return Err(AskedError::Mode),
                    }
                }
                "sslrootcert" => asked.root = Some(value.into()),
                "sslcert" => asked.certificate = Some(value.into()),
                "sslkey" => asked.key = Some(value.into()),
                _ => rest.push(pair),
            }
        }
        if matches!(asked.mode, Mode::VerifyCa | Mode::VerifyFull) && asked.root.is_none() {
            return Err(AskedError::NoRoot);
        }
        if asked.certificate.is_some() != asked.key.is_some() {
            return Err(AskedError::HalfAnIdentity);
        }
        let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        Ok((asked, url))
    }

    /// The mode as a value of tokio-postgres.
    pub(super) fn mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// Loads the certificates: for each connection, so that a running server uses renewed ones.
    pub(super) fn tls(&self) -> Result<Tls, Box<dyn std::error::Error + Send + Sync>> {
        let Some(root) = &self.root else {
            let provider = Arc::new(aws_lc_rs::default_provider());
            let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                .with_no_client_auth();
            return Ok(Tls(Arc::new(config)));
        };
        let mut config = TlsConfig::new(root);
        config.verify_names = self.mode == Mode::VerifyFull;
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            config = config.identity(certificate, key);
        }
        Ok(Tls(Arc::new(config.load()?)))
    }
}

/// A factory of encrypted connections.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Connect;
    type Error = rustls_pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connect, Self::Error> {
        // A unix socket has no host name, and its server declines to encrypt.
        let name = ServerName::try_from(if host.is_empty() { "localhost" } else { host })?.to_owned();
        Ok(Connect { config: Arc::clone(&self.0), name })
    }
}

/// A connection before its TLS handshake.
pub(super) struct Connect {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connect {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(
            async move { TlsConnector::from(self.config).connect(self.name, stream).await.map(Encrypted) },
        )
    }
}

/// A connection after its TLS handshake.
pub(super) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    /// Passwords are not bound to the certificate: libpq's default unless the server insists.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Accepts any certificate whose key the server holds: encrypted, but the server is not authenticated.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_the_rest_left_alone() {
        let plain = "postgres://u@h/db?host=%2Frun%2Fpg";
        assert_eq!(Asked::read(plain), Ok((Asked::default(), plain.to_owned())));
        let url = "postgres://u@h/db?sslmode=verify-full&host=%2Frun&sslrootcert=%2Fetc%2Fca.pem";
        let (asked, rest) = Asked::read(url).unwrap();
        assert_eq!(rest, "postgres://u@h/db?host=%2Frun");
        assert_eq!((asked.mode, asked.root), (Mode::VerifyFull, Some("/etc/ca.pem".into())));
        assert_eq!(Asked::read("postgres://h/db?sslmode=require").unwrap().1, "postgres://h/db");
    }

    #[test]
    fn what_cannot_be_is_told() {
        let error = |query: &str| Asked::read(&format!("postgres://h/db?{query}")).unwrap_err();
        assert_eq!(error("sslmode=strict"), AskedError::Mode);
        assert_eq!(error("sslmode=verify-full"), AskedError::NoRoot);
        assert_eq!(error("sslmode=require&sslcert=a"), AskedError::HalfAnIdentity);
    }
}
