//! TLS as OVS does it: both sides present certificates and verify the chain; names are verified only on request.
//!
//! `ovs-pki` puts the name that was given at signing into a certificate, which is unrelated to the server's address, and OVS
//! itself compares no names. So by default we trust every server whose certificate our CA signed. [`TlsConfig::verify_names`]
//! also compares names. The client reads the files at every dial: a rotated certificate needs no restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use thiserror::Error;

/// The files with certificates and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificates of the CAs that sign servers, PEM.
    pub ca: PathBuf,
    /// Our own certificate (with its chain) and its private key, PEM; servers usually want one.
    pub identity: Option<Identity>,
    /// Whether the server's certificate must name the host that was dialled.
    pub verify_names: bool,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate and its chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// The certificates can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read as PEM.
    #[error("cannot read {what} from {}", path.display())]
    File {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// A file contains no certificate or key.
    #[error("{} contains no certificate", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A certificate or key is unusable, or they do not belong together.
    #[error("cannot use {}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The provider supports none of our TLS versions.
    #[error("cannot set up TLS")]
    Setup(#[source] rustls::Error),
}

impl TlsConfig {
    /// Trusts servers that this CA signed. The client presents no certificate.
    pub fn new(ca: impl Into<PathBuf>) -> Self {
        Self { ca: ca.into(), identity: None, verify_names: false }
    }

    /// Presents this certificate.
    pub fn identity(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some(Identity { certificate: certificate.into(), key: key.into() });
        self
    }

    /// Reads the files and builds the rustls configuration.
    pub fn load(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            roots.add(certificate).map_err(|source| TlsError::Unusable { path: self.ca.clone(), source })?;
        }
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = if self.verify_names {
            builder.with_root_certificates(roots)
        } else {
            let verifier = Arc::new(ChainOnly { roots, provider });
            builder.dangerous().with_custom_certificate_verifier(verifier)
        };
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some(Identity { certificate, key }) => {
                let chain = certificates(certificate)?;
                let private = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::File {
                    what: "a private key",
                    path: key.clone(),
                    source,
                })?;
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|source| TlsError::Unusable { path: certificate.clone(), source })
            }
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File { what: "certificates", path: path.into(), source };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<_, _>>).map_err(failed)?;
    if found.is_empty() { Err(TlsError::Empty { path: path.into() }) } else { Ok(found) }
}

/// The server name to announce. A host that cannot be one (a scoped address) announces a placeholder.
pub(crate) fn server_name(host: &str) -> ServerName<'static> {
    ServerName::try_from(host.to_owned())
        .unwrap_or_else(|_| ServerName::try_from("ovsdb").expect("a plain word is a DNS name"))
}

/// Verifies that one of our CAs signed the certificate, and that the peer holds its key.
#[derive(Debug)]
struct ChainOnly {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// With TLS 1.3 a server verifies our certificate after the handshake, so its alert arrives with the first bytes read.
#[derive(Debug, Error)]
#[error("{hint}")]
struct Told {
    hint: &'static str,
    #[source]
    source: std::io::Error,
}

/// The error of an established connection, with advice if it is a TLS error.
pub(crate) fn explain(error: std::io::Error) -> std::io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::AlertReceived(_)) => {
            let kind = error.kind();
            std::io::Error::new(kind, Told { hint: hint(&error), source: error })
        }
        _ => error,
    }
}

/// Explains a failed handshake and advises what to do.
pub(crate) fn hint(error: &std::io::Error) -> &'static str {
    use rustls::{AlertDescription as Alert, CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        // `ovs-pki` gives two CAs the same name if it creates them in the same second. Then only the signature is wrong.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "the server's certificate is not signed by the given CA; check the CA file"
        }
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            "the server's certificate is for another name; ovs-pki writes the one that was given when it was signed"
        }
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "the server's certificate has expired",
        Some(Error::InvalidCertificate(_)) => "the server's certificate is not acceptable",
        Some(Error::AlertReceived(
            Alert::UnknownCA | Alert::BadCertificate | Alert::CertificateUnknown | Alert::DecryptError,
        )) => "the server does not trust our certificate; check which CA has signed it",
        Some(Error::AlertReceived(Alert::CertificateRequired | Alert::HandshakeFailure)) => {
            "the server requires a client certificate, or shares no TLS version with us"
        }
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the server closed the connection during the handshake; if it has no TLS, use tcp:"
        }
        Some(Error::InvalidMessage(_)) => "the server does not speak TLS; use tcp:",
        _ => "the TLS handshake failed",
    }
}
