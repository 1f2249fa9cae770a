//! A Keystone's configuration, and the database and keys that every one of them begins with.
//!
//! To set a Keystone up takes five runs of its tools, half a minute on a busy machine. It is done once, where the Python
//! environment is made, and copied from there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::python::said;

/// What the environment's key follows from, beside its packages: this file.
pub(crate) const RECIPE: &str = include_str!("setup.rs");

/// The password of `admin`.
pub(super) const ADMIN_PASSWORD: &str = "lab-admin-secret";
/// The region of every endpoint.
pub(super) const REGION: &str = "RegionOne";

/// Loads Keystone's application by a configuration file, the first argument.
pub(crate) const LOAD: &str = "import sys, os
os.environ['OS_KEYSTONE_CONFIG_FILES'] = sys.argv.pop(1)
sys.argv, serve = sys.argv[:1], sys.argv[1:]
import waitress
from keystone.server import wsgi
application = wsgi.initialize_public_application()
";

const DATABASE: &str = "keystone.db";
/// Each holds a few small files.
const KEYS: [&str; 3] = ["fernet-keys", "fernet-receipts", "credential-keys"];

/// Where an environment keeps its template.
pub(crate) fn of(environment: &Path) -> PathBuf {
    environment.join("keystone-template")
}

/// Writes a configuration for a Keystone whose things are all in one folder.
pub(crate) fn configure(dir: &Path) -> Result<PathBuf> {
    let at = |name: &str| dir.join(name).display().to_string();
    let text = format!(
        "[database]\nconnection = sqlite:///{}\n\
         [fernet_tokens]\nkey_repository = {}\n\
         [fernet_receipts]\nkey_repository = {}\n\
         [credential]\nkey_repository = {}\n\
         # Nobody is to be kept out of a test's Keystone, and hashing well takes a third of a second.\n\
         [identity]\npassword_hash_rounds = 4\n\
         [cache]\nenabled = false\n",
        at(DATABASE),
        at(KEYS[0]),
        at(KEYS[1]),
        at(KEYS[2]),
    );
    let path = dir.join("keystone.conf");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Sets up the template of an environment.
pub(crate) fn template(environment: &Path) -> Result<()> {
    let dir = of(environment);
    for keys in KEYS {
        let keys = dir.join(keys);
        fs::create_dir_all(&keys).with_context(|| format!("cannot make {}", keys.display()))?;
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o700))?;
    }
    let config = configure(&dir)?;
    let us = [nix::unistd::geteuid().to_string(), nix::unistd::getegid().to_string()];
    let (user, group) = (["--keystone-user", &*us[0]], ["--keystone-group", &*us[1]]);
    let whose = [user, group].concat();
    let bootstrap = [
        "--bootstrap-password",
        ADMIN_PASSWORD,
        "--bootstrap-region-id",
        REGION,
        "--bootstrap-public-url",
        "http://127.0.0.1:5000/v3",
    ];
    for (word, args) in [
        ("db_sync", &[][..]),
        ("fernet_setup", &whose),
        ("credential_setup", &whose),
        ("bootstrap", &bootstrap),
    ] {
        let mut command = Command::new(environment.join("bin/keystone-manage"));
        command.arg("--config-file").arg(&config).arg(word).args(args).current_dir(&dir);
        said(&mut command).with_context(|| format!("cannot set up Keystone: `keystone-manage {word}`"))?;
    }
    Ok(())
}

/// Copies the template of one environment into another.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    unfold(from, &of(to))
}

/// Copies the template of an environment into the folder of a Keystone.
pub(super) fn unfold(environment: &Path, dir: &Path) -> Result<()> {
    let from = of(environment);
    let copy = |name: &Path| {
        fs::copy(from.join(name), dir.join(name))
            .with_context(|| format!("cannot copy Keystone's {}", name.display()))
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    copy(Path::new(DATABASE))?;
    for keys in KEYS {
        let there = dir.join(keys);
        fs::create_dir_all(&there).with_context(|| format!("cannot make {}", there.display()))?;
        fs::set_permissions(&there, fs::Permissions::from_mode(0o700))?;
        let entries = fs::read_dir(from.join(keys))
            .with_context(|| format!("the environment has no Keystone in {}", from.display()))?;
        for entry in entries {
            copy(&Path::new(keys).join(entry?.file_name()))?;
        }
    }
    Ok(())
}
