//! Certificates made by `ovs-pki`, as operators make them.

use std::path::{Path, PathBuf};
use std::process::Command;

use ovsdb::client::TlsConfig;

/// A CA in a directory of its own.
pub struct Pki {
    dir: PathBuf,
}

impl Pki {
    /// A new CA.
    pub fn new(parent: &Path, name: &str) -> Self {
        let dir = parent.join(name);
        std::fs::create_dir(&dir).unwrap();
        let pki = Self { dir };
        pki.run(&["init"]);
        pki
    }

    /// The CA's certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("pki/switchca/cacert.pem")
    }

    /// Makes a certificate and its key; asked twice, the second replaces the first.
    pub fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        self.run(&["--force", "--unique", "req+sign", name, "switch"]);
        (self.dir.join(format!("{name}-cert.pem")), self.dir.join(format!("{name}-privkey.pem")))
    }

    /// A client that trusts this CA and shows this certificate.
    pub fn client(&self, (certificate, key): &(PathBuf, PathBuf)) -> TlsConfig {
        TlsConfig::new(self.ca()).identity(certificate, key)
    }

    fn run(&self, arguments: &[&str]) {
        let output = Command::new("ovs-pki")
            .current_dir(&self.dir)
            .arg(format!("--dir={}", self.dir.join("pki").display()))
            .arg(format!("--log={}", self.dir.join("log").display()))
            .arg("--batch")
            .args(arguments)
            .output()
            .expect("ovs-pki is installed");
        assert!(
            output.status.success(),
            "ovs-pki {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
