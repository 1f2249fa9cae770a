//! Certificates from `ovs-pki`, as operators create them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ovsdb::client::TlsConfig;

/// A CA in a directory of its own.
pub struct Pki {
    dir: PathBuf,
}

impl Pki {
    /// A new CA.
    ///
    /// Its subject is its own: `ovs-pki` writes the time into it, which is the same for two CAs of one second.
    pub fn new(parent: &Path, name: &str) -> Self {
        Self::with_subject(parent, name, name)
    }

    /// A new CA with this in its subject, in place of the time.
    pub fn with_subject(parent: &Path, name: &str, subject: &str) -> Self {
        let dir = parent.join(name);
        let clock = dir.join("bin/date");
        std::fs::create_dir_all(dir.join("bin")).unwrap();
        std::fs::write(&clock, format!("#!/bin/sh\necho {subject}\n")).unwrap();
        std::fs::set_permissions(&clock, std::fs::Permissions::from_mode(0o755)).unwrap();
        let pki = Self { dir };
        pki.run(&["init"]);
        pki
    }

    /// The CA's certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("pki/switchca/cacert.pem")
    }

    /// Creates a certificate and its key. A second call replaces the first.
    pub fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        self.run(&["--force", "--unique", "req+sign", name, "switch"]);
        (self.dir.join(format!("{name}-cert.pem")), self.dir.join(format!("{name}-privkey.pem")))
    }

    /// A client that trusts this CA and shows this certificate.
    pub fn client(&self, (certificate, key): &(PathBuf, PathBuf)) -> TlsConfig {
        TlsConfig::new(self.ca()).identity(certificate, key)
    }

    fn run(&self, arguments: &[&str]) {
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("ovs-pki")
            .env("PATH", format!("{}:{path}", self.dir.join("bin").display()))
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
