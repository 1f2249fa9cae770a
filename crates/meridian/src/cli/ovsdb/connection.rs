//! The connection options of the `ovsdb` commands, and the connection of one-shot commands.

use std::fmt;
use std::time::Duration;

use ovsdb::Uuid;
use ovsdb::client::{DialError, Dialer, Rpc, RpcError, TlsConfig};
use ovsdb::session::{Remote, Remotes};
use ovsdb::txn::Select;
use ovsdb::wire::{Atom, Clause, DatabaseSchema, Function, TableSchema};
use serde_json::Value;

use crate::cli::given;
use crate::config::{self, Override};
use crate::failure::{Exit, Failure, Outcome};
use crate::nearest;
use crate::remote;

/// Options for connecting to a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection options")]
pub(super) struct ConnectionArgs {
    /// Connect to these servers: unix:PATH, tcp:HOST:PORT, ssl:HOST:PORT; repeated or separated by commas. Without it, OVN_NB_DB or
    /// OVN_SB_DB for OVN's databases, then their usual sockets
    #[arg(long, value_name = "REMOTE")]
    remote: Vec<String>,
    /// Private key for ssl: remotes
    #[arg(short = 'p', long, value_name = "PEM")]
    private_key: Option<String>,
    /// Certificate for ssl: remotes
    #[arg(short = 'c', long, value_name = "PEM")]
    certificate: Option<String>,
    /// CA certificate that signed the server's certificate
    #[arg(short = 'C', long, value_name = "PEM")]
    ca_cert: Option<String>,
    /// Accept a server only if its certificate names the host of its remote; certificates of ovs-pki mostly do not
    #[arg(long, overrides_with = "no_verify_names")]
    verify_names: bool,
    /// Accept every server whose certificate the CA has signed (this is the default)
    #[arg(long, overrides_with = "verify_names")]
    no_verify_names: bool,
    /// Fail if no data arrives for this long while connecting or waiting for a reply, e.g. 5s or 500ms; a slow transfer may take longer
    #[arg(short = 't', long, value_name = "TIME")]
    timeout: Option<String>,
    /// In a cluster, use the leader only (this is the default)
    #[arg(long, overrides_with = "no_leader_only")]
    leader_only: bool,
    /// In a cluster, use any member; its data may be slightly out of date
    #[arg(long, overrides_with = "leader_only")]
    no_leader_only: bool,
}

impl ConnectionArgs {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let remote = (!self.remote.is_empty()).then(|| self.remote.join(","));
        let leader = match (self.leader_only, self.no_leader_only) {
            (true, _) => Some(("--leader-only", "true")),
            (_, true) => Some(("--no-leader-only", "false")),
            _ => None,
        };
        let names = match (self.verify_names, self.no_verify_names) {
            (true, _) => Some(("--verify-names", "true")),
            (_, true) => Some(("--no-verify-names", "false")),
            _ => None,
        };
        let flags = [
            given("ovsdb.remote", "--remote", remote),
            given("ovsdb.private_key", "--private-key", self.private_key.clone()),
            given("ovsdb.certificate", "--certificate", self.certificate.clone()),
            given("ovsdb.ca_cert", "--ca-cert", self.ca_cert.clone()),
            names.and_then(|(flag, text)| given("ovsdb.verify_names", flag, Some(text))),
            given("ovsdb.timeout", "--timeout", self.timeout.clone()),
            leader.and_then(|(flag, text)| given("ovsdb.leader_only", flag, Some(text))),
        ];
        flags.into_iter().flatten().collect()
    }
}

/// The servers of a database and the way to connect to them.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Target {
    pub(in crate::cli) remotes: Remotes,
    pub(in crate::cli) dialer: Dialer,
    pub(in crate::cli) leader_only: bool,
    timeout: Duration,
    /// The origin of the remotes if they were guessed, for error messages.
    guessed: Option<String>,
}

impl Target {
    /// The target that the configuration names. If it names no remote, the remotes are guessed from the name of the database.
    pub(in crate::cli) fn new(config: &config::Ovsdb, database: Option<&str>) -> Outcome<Self> {
        let (text, guessed) = if !config.remote.value.is_empty() {
            (config.remote.value.join(","), None)
        } else {
            let guess = database.and_then(|name| remote::guess(name, |name| std::env::var(name).ok()));
            let Some(guess) = guess else {
                let of = database.map_or(String::new(), |name| format!(" of {name}"));
                return Err(Failure::told(
                    Exit::Usage,
                    format!("cannot guess the address of the server{of}"),
                )
                .try_("--remote unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"));
            };
            (guess.remotes, Some(guess.because))
        };
        let remotes: Remotes = text.parse().map_err(|error| {
            let failure = Failure::new(Exit::Usage, error);
            let failure = match &guessed {
                Some(because) => failure.while_(format!("{because}, but its value is invalid")),
                None => failure.while_(format!("the remote from {} is invalid", config.remote.origin)),
            };
            if text.starts_with('/') { failure.try_(format!("unix:{text}")) } else { failure }
        })?;
        if config.timeout.value.is_zero() {
            return Err(Failure::told(Exit::Usage, "the timeout is 0").try_("--timeout 10s"));
        }
        let dialer = Dialer { tls: tls(config)?, timeout: config.timeout.value, ..Dialer::default() };
        let (leader_only, timeout) = (config.leader_only.value, config.timeout.value);
        Ok(Self { remotes, dialer, leader_only, timeout, guessed })
    }

    /// Connects to the first remote that answers. In a cluster, the server must also be fit to serve the database.
    pub(super) async fn open(&self, database: Option<&str>) -> Outcome<Rpc> {
        let mut last = None;
        let mut unfit: Vec<(&Remote, Unfit)> = Vec::new();
        for remote in &self.remotes.list {
            let one = Remotes { list: vec![remote.clone()], cluster_id: self.remotes.cluster_id };
            let mut rpc = match Rpc::connect(&one, &self.dialer, self.timeout).await {
                Ok(rpc) => rpc,
                Err(error) => {
                    last = Some(self.unreachable(remote, error));
                    continue;
                }
            };
            let Some(database) = database else { return Ok(rpc) };
            match self.unfit(&mut rpc, database).await {
                Ok(None) => return Ok(rpc),
                Ok(Some(why)) => unfit.push((remote, why)),
                Err(failure) => last = Some(failure),
            }
        }
        match last {
            Some(failure) if unfit.is_empty() && self.remotes.list.len() == 1 => Err(failure),
            Some(failure) if unfit.is_empty() => Err(failure.while_(format!(
                "none of the {} remotes could be used; the last one",
                self.remotes.list.len()
            ))),
            _ => {
                let told: Vec<String> = unfit.iter().map(|(remote, why)| format!("{remote} {why}")).collect();
                let (database, told) = (database.unwrap_or("this"), told.join("; "));
                // If one server is only not the leader, its cluster works, so that is the most useful advice.
                let worth = unfit.iter().map(|(_, why)| why).max_by_key(|why| **why == Unfit::NotLeader);
                Err(Failure::told(Exit::Connect, format!("no server can be used for {database}: {told}"))
                    .try_(worth.map_or("another --remote", Unfit::advice)))
            }
        }
    }

    fn unreachable(&self, remote: &Remote, error: RpcError) -> Failure {
        let attempt = match error {
            // One remote was dialled, so there is one attempt.
            RpcError::Unreachable(mut attempts) if attempts.len() == 1 => attempts.remove(0),
            other => return failure(other),
        };
        let tls = matches!(
            attempt,
            DialError::Handshake { .. } | DialError::Tls { .. } | DialError::NoCertificates { .. }
        );
        let unknown = matches!(attempt, DialError::Resolve { .. });
        let mut cause = anyhow::Error::new(attempt);
        if let Some(because) = &self.guessed {
            cause = cause.context(format!("{remote} was tried because {because}"));
        }
        let advice = match remote {
            _ if self.guessed.is_some() => "--remote with the address of the server",
            _ if tls && self.dialer.tls.as_ref().is_some_and(|tls| tls.verify_names) => {
                "--private-key, --certificate and --ca-cert of the same CA as the server's, and the remote by a name that is \
                 in its certificate, or --no-verify-names"
            }
            _ if tls => "--private-key, --certificate and --ca-cert of the same CA as the server's",
            _ if unknown => "the name of the host as DNS or /etc/hosts has it, or its address",
            Remote::Ssl(_) => {
                "whether the server is running and listens there (`ovsdb-server --remote=pssl:PORT`), and the firewall"
            }
            Remote::Unix(_) => {
                "the path that the server was given with --remote=punix:PATH, as a user who may open it"
            }
            _ => {
                "whether the server is running and listens there (`ovsdb-server --remote=ptcp:PORT`), and the firewall"
            }
        };
        Failure::new(Exit::Connect, cause).try_(advice)
    }

    /// The reason why this server is unfit to serve the database, if it is. Servers before OVS 2.9 have no `_Server` database and no clusters.
    async fn unfit(&self, rpc: &mut Rpc, database: &str) -> Outcome<Option<Unfit>> {
        let named = Clause::new("name", Function::Equal, Atom::String(database.into()));
        let select = Select::new("Database", ["model", "connected", "leader", "cid"]).and([named]);
        let answer: Value = match rpc.select("_Server", &select).await {
            Ok(answer) => serde_json::from_str(answer.get()).unwrap_or_default(),
            Err(RpcError::Refused { .. }) => return Ok(None),
            Err(error) => return Err(failure(error)),
        };
        if !answer.is_array() {
            let told = format!("cannot parse the reply of {} to a transaction: `{answer}`", rpc.remote());
            return Err(Failure::told(Exit::Protocol, told).try_("the address of an OVSDB server"));
        }
        let row = &answer[0]["rows"][0];
        if row.is_null() {
            return Ok(None);
        }
        let (relay, cid) = (row["model"] == "relay", row["cid"][1].as_str());
        // A relay does not report the id of the cluster behind it.
        if let Some(wanted) = self.remotes.cluster_id
            && !relay
            && cid != Some(wanted.to_string().as_str())
        {
            return Ok(Some(Unfit::Elsewhere { wanted, found: cid.map(str::to_owned) }));
        }
        if row["model"] == "standalone" {
            return Ok(None);
        }
        if row["connected"] == Value::Bool(false) {
            return Ok(Some(if relay { Unfit::LoneRelay } else { Unfit::CutOff }));
        }
        if self.leader_only && row["model"] == "clustered" && row["leader"] == Value::Bool(false) {
            return Ok(Some(Unfit::NotLeader));
        }
        Ok(None)
    }
}

/// The reason why a server is unfit to serve a database.
#[derive(Debug, PartialEq, Eq)]
enum Unfit {
    NotLeader,
    CutOff,
    LoneRelay,
    Elsewhere { wanted: Uuid, found: Option<String> },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeader => f.write_str("is not the leader"),
            Self::CutOff => f.write_str("is cut off from its cluster"),
            Self::LoneRelay => f.write_str("is a relay that cannot reach the server behind it"),
            Self::Elsewhere { wanted, found: Some(found) } => {
                write!(f, "belongs to the cluster {found}, not {wanted}")
            }
            Self::Elsewhere { wanted, found: None } => write!(f, "belongs to no cluster, not to {wanted}"),
        }
    }
}

impl Unfit {
    fn advice(&self) -> &'static str {
        match self {
            Self::NotLeader | Self::CutOff => {
                "the remotes of all members with --remote, or --no-leader-only to use any of them"
            }
            Self::LoneRelay => {
                "the server behind the relay with --remote, or `meridian ovsdb watch`, which shows what the relay still has"
            }
            Self::Elsewhere { .. } => "the remotes of the cluster, or another `cid:`",
        }
    }
}

fn tls(config: &config::Ovsdb) -> Outcome<Option<TlsConfig>> {
    let (key, certificate, ca) =
        (&config.private_key.value, &config.certificate.value, &config.ca_cert.value);
    let incomplete = |what: &str| {
        Failure::told(Exit::Usage, what).try_("--private-key, --certificate and --ca-cert together")
    };
    let trusting = |ca| TlsConfig { verify_names: config.verify_names.value, ..TlsConfig::new(ca) };
    match (key, certificate, ca) {
        (None, None, None) => Ok(None),
        (Some(key), Some(certificate), Some(ca)) => Ok(Some(trusting(ca).identity(certificate, key))),
        (None, None, Some(ca)) => Ok(Some(trusting(ca))),
        (_, _, None) => Err(incomplete("without a CA certificate no server can be trusted")),
        (Some(_), None, _) => Err(incomplete("there is a private key and no certificate")),
        (None, Some(_), _) => Err(incomplete("there is a certificate and no private key")),
    }
}

/// Converts an error of a request to a failure of the command.
pub(super) fn failure(error: RpcError) -> Failure {
    let (exit, advice) = match &error {
        RpcError::Unreachable(_) => (Exit::Connect, Some("another --remote")),
        RpcError::Io { .. } | RpcError::Closed { .. } => {
            (Exit::Connect, Some("again; the log of the server says why it closed the connection"))
        }
        RpcError::Timeout { .. } | RpcError::Unanswered { .. } => {
            (Exit::Connect, Some("a longer --timeout, or whether the server hangs"))
        }
        RpcError::Frame { .. } | RpcError::Message { .. } => {
            (Exit::Protocol, Some("the address of an OVSDB server; something else listens at this one"))
        }
        RpcError::Refused { .. } => (Exit::Refused, None),
        _ => (Exit::Protocol, None),
    };
    let failure = Failure::new(exit, error);
    match advice {
        Some(advice) => failure.try_(advice),
        None => failure,
    }
}

/// Fetches the schema of a database. If the database does not exist, the failure names the existing ones.
pub(super) async fn schema(rpc: &mut Rpc, database: &str) -> Outcome<DatabaseSchema> {
    check_database(rpc, database).await?;
    rpc.schema(database).await.map_err(failure)
}

/// Fails if the server does not have the database.
pub(super) async fn check_database(rpc: &mut Rpc, database: &str) -> Outcome {
    let names = rpc.databases().await.map_err(failure)?;
    if names.iter().any(|name| name == database) {
        return Ok(());
    }
    let hint = nearest::hint(database, names.iter().map(String::as_str));
    let failed = format!("{} has no database `{database}`{hint}", rpc.remote());
    Err(Failure::told(Exit::Refused, failed).try_(format!("one of {}", names.join(", "))))
}

/// Finds a table of a schema. If the table does not exist, the failure names the most similar one.
pub(super) fn table<'a>(schema: &'a DatabaseSchema, name: &str) -> Outcome<&'a TableSchema> {
    schema.tables.get(name).ok_or_else(|| {
        let hint = nearest::hint(name, schema.tables.keys().map(|name| name.as_str()));
        Failure::told(Exit::Usage, format!("the database {} has no table `{name}`{hint}", schema.name))
            .try_(format!("`meridian ovsdb schema {}` for the tables it has", schema.name))
    })
}
