//! `meridian import neutron`: objects from Neutron's API, rows from the Northbound that it wrote.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::auth::keystone::{Account, AskError, Keystone, KeystoneSettings, Memory};
use api::import::{Credentials, Document, Source, SourceError, Takeover, prepare};
use api::secret::redacted;
use api::store::Store;
use api::world::Outside;
use central::Database;
use ovn::target::{SnapshotView, Tables};
use ovsdb::Client;
use tokio::sync::watch;

use super::told::Told;
use crate::cli::server::{client_config, create_data_dir, read, secret, store_failure, store_url};
use crate::cli::{given, json, print};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::output::Said;

/// Take over a cloud that Neutron runs
///
/// Reads every object from Neutron's API, with an administrator's credentials, and stores it with its id in an empty
/// database. The rows that Neutron wrote in the Northbound are taken over with their UUIDs, and gateways stay on their
/// chassis: the first pass of `meridian server` changes rows and makes none anew. All or nothing is stored.
///
/// Stop changes to Neutron before, and Neutron itself before `meridian server` starts. --dry-run changes nothing and says
/// what would be taken over, and what in the Northbound belongs to no object.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct Args {
    /// Neutron's API, as `http://neutron.example:9696`
    #[arg(long, value_name = "URL", required_unless_present = "offline")]
    from: Option<String>,
    /// Read what --save wrote instead of an API
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "save"])]
    offline: Option<PathBuf>,
    /// Write what the API said to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Only say what would be taken over
    #[arg(long)]
    dry_run: bool,
    /// Go on without the objects that cannot be taken over; their rows in the Northbound stay as they are
    #[arg(long)]
    leave_out: bool,
    /// Do not look at the Northbound: it is empty, and will be written anew
    #[arg(long, conflicts_with = "nb")]
    without_nb: bool,
    /// How the outcome is printed
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    output: Said,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
}

/// Where things go, as the server is told.
#[derive(Debug, clap::Args)]
struct StoreArgs {
    /// Where the server keeps its files [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Where state is kept: sqlite:///file or postgres://user@host/database [default: api.db in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The OVN Northbound servers that Neutron writes: unix:PATH, tcp:IP:PORT, ssl:IP:PORT, with commas between
    #[arg(long, value_name = "REMOTES")]
    nb: Option<String>,
}

/// Who asks Neutron, in the words of an openrc file. Without any of them, the API is asked without credentials.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Credentials")]
struct CredentialArgs {
    /// Holds a token; its text may be in OS_TOKEN instead
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Keystone, which gives a token for the user below
    #[arg(long, value_name = "URL", env = "OS_AUTH_URL")]
    auth_url: Option<String>,
    /// An administrator
    #[arg(long, value_name = "NAME", env = "OS_USERNAME")]
    username: Option<String>,
    /// Holds the password; its text may be in OS_PASSWORD instead
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The administrator's project
    #[arg(long, value_name = "NAME", env = "OS_PROJECT_NAME", default_value = "admin")]
    project: String,
    /// The domain of user and project
    #[arg(long, value_name = "NAME", env = "OS_USER_DOMAIN_NAME", default_value = "Default")]
    domain: String,
    /// Certificates that Neutron's and Keystone's may be signed by, besides the system's
    #[arg(long, value_name = "PEM", env = "OS_CACERT")]
    ca: Option<PathBuf>,
}

impl Args {
    pub(in crate::cli) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("server.data_dir", "--data-dir", self.store.data_dir.clone()),
            given("server.database", "--database", self.store.database.clone()),
            given("server.nb", "--nb", self.store.nb.clone()),
        ];
        flags.into_iter().flatten().collect()
    }
}

/// How long the Northbound may take to be read. Large ones take seconds.
const PATIENCE: Duration = Duration::from_secs(120);

pub(in crate::cli) async fn run(args: &Args, config: &Config) -> Outcome {
    let northbound = northbound(args, config).await?;
    let document = document(args).await?;
    if let Some(file) = &args.save {
        std::fs::write(file, document.to_text()).map_err(|error| {
            Failure::new(Exit::Local, error).while_(format!("cannot write {}", file.display()))
        })?;
    }
    let settings = config.network.settings().unwrap_or_default();
    let takeover = prepare(&document, northbound.as_ref(), &settings, SystemTime::now());
    let mut told = Told::of(&takeover);
    let refused = !takeover.left_out.is_empty() && !args.leave_out;
    if !refused && !args.dry_run {
        told.stored = Some(store(takeover, config).await?);
    }
    print(&match args.output {
        Said::Text => told.to_string(),
        Said::Json => json(&told) + "\n",
    })?;
    if refused && !args.dry_run {
        let many = told.left_out.len();
        return Err(Failure::told(
            Exit::Refused,
            format!("{many} objects cannot be taken over; nothing is stored"),
        )
        .try_("--leave-out to go on without them, or change them in Neutron"));
    }
    Ok(())
}

/// Reads the Northbound, unless there is none to read.
async fn northbound(args: &Args, config: &Config) -> Outcome<Option<SnapshotView>> {
    if args.without_nb {
        return Ok(None);
    }
    if config.server.nb.value.is_empty() {
        let text = "it is not said which Northbound Neutron writes";
        return Err(Failure::told(Exit::Usage, text)
            .try_("--nb with its servers, or --without-nb if it is to be written anew"));
    }
    let client = client_config(config, Database::Northbound, &config.server.nb, None)?;
    let tables = Tables::northbound();
    let client = Client::open(client, tables.model(None));
    let failed = |error: anyhow::Error| {
        Failure::new(Exit::Connect, error)
            .while_(format!("cannot read the Northbound at {}", config.server.nb.value.join(",")))
            .try_("see that it runs and that --nb names it; a cluster's leader must be among them")
    };
    let snapshot = client.synced_within(PATIENCE).await.map_err(|error| failed(error.into()))?;
    let schema = client.schema().ok_or_else(|| failed(anyhow::anyhow!("it does not tell its schema")))?;
    Ok(Some(SnapshotView::new(snapshot, schema, Arc::new(tables))))
}

async fn document(args: &Args) -> Outcome<Document> {
    if let Some(file) = &args.offline {
        let text = read(file)?;
        let text = String::from_utf8_lossy(&text);
        return Document::parse(&text).map_err(|error| {
            Failure::new(Exit::Usage, error).while_(format!("cannot use {}", file.display()))
        });
    }
    let url = args.from.as_deref().unwrap_or_default();
    let ca = args.credentials.ca.as_deref().map(read).transpose()?;
    let credentials = credentials(&args.credentials, ca.clone()).await?;
    let bare = matches!(credentials, Credentials::None);
    let source =
        Source::new(url, credentials, ca.as_deref()).map_err(|error| Failure::new(Exit::Usage, error))?;
    source.read().await.map_err(|error| source_failure(url, bare, error))
}

fn source_failure(url: &str, bare: bool, error: SourceError) -> Failure {
    let exit = if error.is_refusal() { Exit::Refused } else { Exit::Connect };
    let refused = error.is_refusal();
    let failure = Failure::new(exit, error).while_(format!("cannot read the cloud at {}", redacted(url)));
    match (refused, bare) {
        (true, true) => failure.try_("--token-file, or --auth-url with --username and --password-file"),
        (true, false) => failure.try_("credentials of an administrator"),
        (false, _) => failure.try_("see that Neutron runs and that --from names it"),
    }
}

/// What is said on the command line counts before what the environment says, and a token before a password.
async fn credentials(args: &CredentialArgs, ca: Option<Vec<u8>>) -> Outcome<Credentials> {
    let told = |variable: &str| std::env::var(variable).ok().filter(|text| !text.is_empty());
    if let Some(file) = &args.token_file {
        return secret(file).map(Credentials::Token);
    }
    if let Some(token) = told("OS_TOKEN").filter(|_| args.password_file.is_none()) {
        return Ok(Credentials::Token(token.into()));
    }
    let Some(username) = args.username.clone() else { return Ok(Credentials::None) };
    let password = match &args.password_file {
        Some(file) => secret(file)?,
        None => told("OS_PASSWORD").ok_or_else(|| needs("a password", "--password-file"))?.into(),
    };
    let Some(url) = args.auth_url.clone() else { return Ok(Credentials::Basic(username, password)) };
    let account = Account {
        username,
        password,
        user_domain: args.domain.clone(),
        project: args.project.clone(),
        project_domain: args.domain.clone(),
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
            .try_("see that --auth-url, --username, --project and --domain are right, and the password")
    })?;
    Ok(Credentials::Token(token))
}

fn needs(what: &str, flag: &str) -> Failure {
    Failure::told(Exit::Usage, format!("a user name is given without {what}")).try_(flag)
}

/// Stores all of it; gives where.
async fn store(takeover: Takeover, config: &Config) -> Outcome<String> {
    let dir = config.server.data_dir.value.clone();
    let url = store_url(&config.server, &dir)?;
    if config.server.database.value.is_none() {
        create_data_dir(&dir)?;
    }
    let (_outside, seen) = watch::channel(Arc::new(Outside::default()));
    let store = Store::open(&url, seen).await.map_err(|error| store_failure(&url, error))?;
    takeover.store(&store).await.map_err(|fault| {
        Failure::told(Exit::Refused, fault)
            .while_(format!("cannot store the cloud in {url}"))
            .try_("an empty database with --database, or another --data-dir")
    })?;
    // The file is whole when this command ends, and so may be copied to the server's host.
    task::stopping();
    store
        .close()
        .await
        .map_err(|fault| Failure::told(Exit::Local, fault).while_(format!("cannot close {url}")))?;
    Ok(url.to_string())
}
