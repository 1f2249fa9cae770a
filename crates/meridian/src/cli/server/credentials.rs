//! The credentials of `[server]`: how API clients authenticate, and the files with secrets that its keys name.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::auth::Auth;
use api::auth::htpasswd::Htpasswd;
use api::auth::keystone::{Account, Keystone, KeystoneSettings, Memory};
use api::secret::Secret;
use zeroize::Zeroizing;

use crate::config::{AuthMode, Server, Setting};
use crate::failure::{Exit, Failure, Outcome};

/// The authentication that `[server]` configures.
pub(super) fn credentials(is_dev: bool, server: &Server, keystone: Option<Arc<Keystone>>) -> Outcome<Auth> {
    let project = server.noauth_project_id.value.as_str();
    let mode = match server.auth.value {
        Some(mode) => mode,
        // `--dev` is for developers with an OVN central of their own, so it needs no authentication.
        None if is_dev => AuthMode::None,
        None => {
            return Err(Failure::told(Exit::Usage, "server.auth is not set: choose how API clients authenticate")
                .try_("auth = \"keystone\", \"basic\" or \"token\" in the section [server] of the configuration, or \"none\" to \
                       let everybody on this machine be administrator; --auth does the same"));
        }
    };
    let needs = |key: &str| needs(server, mode, key);
    Ok(match mode {
        AuthMode::None => Auth::open(project).trusting(server.trusted_hosts.value.clone()),
        AuthMode::Token => {
            let token = secret_of("token_file", &server.token_file)?.ok_or_else(|| needs("token_file"))?;
            Auth::token(&token, project)
        }
        AuthMode::Basic => {
            let file = server.htpasswd.value.as_deref().ok_or_else(|| needs("htpasswd"))?;
            let users = Htpasswd::read(file).map_err(|error| Failure::new(Exit::Usage, error))?;
            Auth::basic(users, project)
        }
        AuthMode::Keystone => Auth::keystone(keystone.ok_or_else(|| needs("keystone_url"))?),
    })
}

/// The Keystone client that authenticates requests; `None` for any other kind of authentication.
pub(super) fn keystone(server: &Server) -> Outcome<Option<Arc<Keystone>>> {
    if server.auth.value != Some(AuthMode::Keystone) {
        return Ok(None);
    }
    let Some(url) = server.keystone_url.value.clone() else { return Ok(None) };
    let account = match &server.keystone_username.value {
        None => None,
        Some(username) => {
            let key = "keystone_password_file";
            let password = secret_of(key, &server.keystone_password_file)?;
            Some((username.clone(), password.ok_or_else(|| needs(server, AuthMode::Keystone, key))?))
        }
    };
    let account = account.map(|(username, password)| Account {
        username,
        password,
        user_domain: server.keystone_domain.value.clone(),
        project: server.keystone_project.value.clone(),
        project_domain: server.keystone_domain.value.clone(),
    });
    let ca_certificates = server.keystone_ca.value.as_deref().map(read).transpose()?;
    let settings = KeystoneSettings { url, account, ca_certificates, memory: Memory::default() };
    let keystone = Keystone::new(&settings).map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(Some(Arc::new(keystone)))
}

/// The failure if the configured authentication requires a key of `[server]` that is not set.
fn needs(server: &Server, mode: AuthMode, key: &str) -> Failure {
    let mode = mode.word();
    Failure::told(
        Exit::Usage,
        format!("server.auth is \"{mode}\" ({}), which needs server.{key}", server.auth.origin),
    )
    .try_(format!("{key} in the section [server] of the configuration"))
}

pub(in crate::cli) fn read(file: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(file)
        .map_err(|error| Failure::new(Exit::Usage, error).while_(format!("cannot read {}", file.display())))
}

/// The secret in the file that a key of `[server]` names; `None` if the key is not set.
pub(super) fn secret_of(key: &str, setting: &Setting<Option<PathBuf>>) -> Outcome<Option<Secret>> {
    let Some(file) = &setting.value else { return Ok(None) };
    secret(file).map(Some).map_err(|failure| failure.while_(format!("server.{key} ({})", setting.origin)))
}

/// The first line of a file that only the server should be able to read.
pub(in crate::cli) fn secret(file: &Path) -> Outcome<Secret> {
    let bytes = Zeroizing::new(read(file)?);
    if std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o007 != 0) {
        tracing::warn!(file = %file.display(), "every user of this machine may read a secret; chmod it to 0600 or 0640");
    }
    let text = str::from_utf8(&bytes).map_err(|_| {
        Failure::told(Exit::Usage, format!("{} contains no secret: it is not UTF-8", file.display()))
    })?;
    match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.into()),
        None => Err(Failure::told(
            Exit::Usage,
            format!("{} contains no secret: its first line is empty", file.display()),
        )),
    }
}
