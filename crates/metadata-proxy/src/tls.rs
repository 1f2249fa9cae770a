//! TLS to Nova. The files are read for each new connection, so a renewed certificate needs no restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The certificates that Debian trusts.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The files of TLS to Nova.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NovaTls {
    /// Certificates of the authorities to trust; `None` is the system's.
    pub ca: Option<PathBuf>,
    /// The proxy's own certificate and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl NovaTls {
    /// Reads the files.
    pub fn load(&self) -> io::Result<Arc<ClientConfig>> {
        let ca = self.ca.as_deref().unwrap_or(Path::new(SYSTEM));
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates(ca)?);
        if added == 0 {
            return Err(wrong(ca, "it has no certificate of an authority"));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
                let chain = certificates(certificate)?;
                builder.with_client_auth_cert(chain, private).map_err(|error| wrong(certificate, error))?
            }
        };
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<_, _>>);
    found.map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("cannot use {}: {error}", path.display()))
}
