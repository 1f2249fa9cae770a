//! The API that an import reads: its URL or a saved file, and the credentials.

use std::future::Future;
use std::path::PathBuf;

use api::auth::keystone::{Account, AskError, Keystone, KeystoneSettings, Memory};
use api::import::{Credentials, Document, DocumentError, Source, SourceError};
use api::secret::redacted;

use crate::cli::server::{read, secret};
use crate::failure::{Exit, Failure, Outcome};

/// The source of an import.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// The URL of the API, as `http://cloud.example:9696`
    #[arg(long, value_name = "URL", required_unless_present = "offline")]
    from: Option<String>,
    /// Read a file that --save wrote instead of an API
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "save"])]
    offline: Option<PathBuf>,
    /// Write the API's answers to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    credentials: CredentialArgs,
}

/// The credentials, named as in an openrc file. Without any of them, requests have no token.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Credentials")]
struct CredentialArgs {
    /// File with a token; its text may be in OS_TOKEN instead
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Keystone, which gives a token for the user below
    #[arg(long, value_name = "URL", env = "OS_AUTH_URL")]
    auth_url: Option<String>,
    /// An administrator
    #[arg(long, value_name = "NAME", env = "OS_USERNAME")]
    username: Option<String>,
    /// File with the password; its text may be in OS_PASSWORD instead
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The administrator's project
    #[arg(long, value_name = "NAME", env = "OS_PROJECT_NAME", default_value = "admin")]
    project: String,
    /// The domain of user and project
    #[arg(long, value_name = "NAME", env = "OS_USER_DOMAIN_NAME", default_value = "Default")]
    domain: String,
    /// Certificates of authorities that are trusted in addition to the system's
    #[arg(long, value_name = "PEM", env = "OS_CACERT")]
    ca: Option<PathBuf>,
}

/// One kind of API: its client, its documents, and the parser of saved ones.
pub(super) struct ApiReader<O, P> {
    /// The name of the service, for messages.
    pub(super) service: &'static str,
    /// Opens the API at a URL.
    pub(super) open: O,
    /// Parses a saved document.
    pub(super) parse: P,
}

impl SourceArgs {
    /// Reads everything, from the API or from a saved document, and saves it if asked to.
    pub(super) async fn document<O, P, R, F>(
        &self,
        reader: &ApiReader<O, P>,
        read_all: R,
    ) -> Outcome<Document>
    where
        O: Fn(&str, Credentials, Option<&[u8]>) -> Result<Source, SourceError>,
        P: Fn(&str) -> Result<Document, DocumentError>,
        R: FnOnce(Source) -> F,
        F: Future<Output = Result<Document, SourceError>>,
    {
        if let Some(file) = &self.offline {
            let text = read(file)?;
            return (reader.parse)(&String::from_utf8_lossy(&text)).map_err(|error| {
                Failure::new(Exit::Usage, error).while_(format!("cannot use {}", file.display()))
            });
        }
        let url = self.from.as_deref().unwrap_or_default();
        let ca = self.credentials.ca.as_deref().map(read).transpose()?;
        let credentials = self.credentials.resolve(ca.clone()).await?;
        let is_anonymous = matches!(credentials, Credentials::None);
        let source = (reader.open)(url, credentials, ca.as_deref())
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        let document = read_all(source)
            .await
            .map_err(|error| source_failure(reader.service, url, is_anonymous, error))?;
        if let Some(file) = &self.save {
            std::fs::write(file, document.to_text()).map_err(|error| {
                Failure::new(Exit::Local, error).while_(format!("cannot write {}", file.display()))
            })?;
        }
        Ok(document)
    }
}

fn source_failure(service: &str, url: &str, is_anonymous: bool, error: SourceError) -> Failure {
    let is_refused = error.is_refusal();
    let exit = if is_refused { Exit::Refused } else { Exit::Connect };
    let failure = Failure::new(exit, error).while_(format!("cannot read the cloud at {}", redacted(url)));
    match (is_refused, is_anonymous) {
        (true, true) => failure.try_("--token-file, or --auth-url with --username and --password-file"),
        (true, false) => failure.try_("credentials of an administrator"),
        (false, _) => failure.try_(format!("check that {service} is running and that --from has its URL")),
    }
}

impl CredentialArgs {
    /// The command line counts before the environment, and a token before a password.
    async fn resolve(&self, ca: Option<Vec<u8>>) -> Outcome<Credentials> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        if let Some(file) = &self.token_file {
            return secret(file).map(Credentials::Token);
        }
        if let Some(token) = variable("OS_TOKEN").filter(|_| self.password_file.is_none()) {
            return Ok(Credentials::Token(token.into()));
        }
        let Some(username) = self.username.clone() else { return Ok(Credentials::None) };
        let password = match &self.password_file {
            Some(file) => secret(file)?,
            None => variable("OS_PASSWORD").ok_or_else(|| needs("a password", "--password-file"))?.into(),
        };
        let Some(url) = self.auth_url.clone() else { return Ok(Credentials::Basic(username, password)) };
        let account = Account {
            username,
            password,
            user_domain: self.domain.clone(),
            project: self.project.clone(),
            project_domain: self.domain.clone(),
        };
        let settings = KeystoneSettings {
            url: url.into(),
            account: Some(account),
            ca_certificates: ca,
            memory: Memory::default(),
        };
        let keystone = Keystone::new(&settings).map_err(|error| Failure::new(Exit::Usage, error))?;
        let token = keystone.token().await.map_err(|error| {
            let exit = if matches!(error, AskError::Send(_)) { Exit::Connect } else { Exit::Refused };
            Failure::new(exit, error)
                .while_(format!("cannot get a token from {}", settings.url))
                .try_("check --auth-url, --username, --project, --domain and the password")
        })?;
        Ok(Credentials::Token(token))
    }
}

fn needs(what: &str, flag: &str) -> Failure {
    Failure::told(Exit::Usage, format!("a user name is given without {what}")).try_(flag)
}
