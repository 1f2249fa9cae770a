//! The command line: its commands and global flags. Each command has a module with a `run`.

mod allow_deletions;
mod backup;
mod bgp_agent;
mod completions;
mod dry_run;
mod explain;
mod import;
mod ini_files;
mod kube_manager;
mod man;
mod metadata_agent;
mod node;
mod ovsdb;
mod plan;
mod restore;
mod server;
mod status;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::Builder;

use crate::config::{Colour, Config, Level, LogFormat, Origin, Override, Setting, Sources};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::output::Said;
use crate::roles::{self, LoadedNode};
use crate::telemetry::{self, LogControl};

/// The north-south control plane for OVN
#[derive(Debug, Parser)]
#[command(name = "meridian", version, propagate_version = true, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The flags of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "General options")]
struct Global {
    /// Read this configuration file [env: MERIDIAN_CONFIG] [default: /etc/meridian/meridian.toml, which need not exist]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Print the configuration in effect with the origin of each value, and exit
    #[arg(long, global = true)]
    print_config: bool,
    /// Raise the log level by one; repeat to raise it further
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    /// Log at this level
    #[arg(long, value_name = "LEVEL", global = true)]
    log_level: Option<Level>,
    /// Log by these directives, e.g. ovsdb=debug,info [env: MERIDIAN_LOG]
    #[arg(long, value_name = "DIRECTIVES", global = true)]
    log_filter: Option<String>,
    /// Write log lines in this format
    #[arg(long, value_name = "FORMAT", global = true)]
    log_format: Option<LogFormat>,
    /// Colour the log and the tables
    #[arg(long, value_name = "WHEN", global = true)]
    color: Option<Colour>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Server(Box<server::Args>),
    Import(import::Args),
    Node(node::Args),
    BgpAgent(bgp_agent::Args),
    MetadataAgent(metadata_agent::AgentArgs),
    MetadataProxy(metadata_agent::ProxyArgs),
    KubeManager(kube_manager::Args),
    Status(status::Args),
    Plan(plan::Args),
    AllowDeletions(allow_deletions::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Explain(explain::Args),
    Ovsdb(Box<ovsdb::Args>),
    Completions(completions::Args),
    Man(man::Args),
}

/// An override of a key by a flag, if the flag was given.
fn given(key: &'static str, flag: &'static str, text: Option<impl Into<String>>) -> Option<Override> {
    text.map(|text| Override { key, text: text.into(), flag })
}

impl Global {
    fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("log.level", "--log-level", self.log_level.map(Level::word)),
            given("log.filter", "--log-filter", self.log_filter.clone()),
            given("log.format", "--log-format", self.log_format.map(LogFormat::word)),
            given("log.color", "--color", self.color.map(Colour::word)),
        ];
        flags.into_iter().flatten().collect()
    }
}

impl Command {
    fn overrides(&self) -> Vec<Override> {
        match self {
            Self::Ovsdb(args) => args.overrides(),
            Self::Server(args) => args.overrides(),
            Self::Import(args) => args.overrides(),
            Self::Node(args) => args.overrides(),
            Self::KubeManager(args) => args.overrides(),
            Self::Status(args) => args.overrides(),
            Self::Plan(args) => args.overrides(),
            Self::AllowDeletions(args) => args.overrides(),
            Self::Backup(args) => args.overrides(),
            Self::Restore(args) => args.overrides(),
            Self::Explain(args) => args.overrides(),
            Self::BgpAgent(_)
            | Self::MetadataAgent(_)
            | Self::MetadataProxy(_)
            | Self::Completions(_)
            | Self::Man(_) => Vec::new(),
        }
    }
}

/// Parses the command line, runs the command and reports its failure.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no failure. A reader that closed the pipe is no failure either.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage as u8 } else { 0 });
        }
    };
    task::end_on_panic();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(report) = failure.report() {
                let _ = std::io::stderr().write_all(report.as_bytes());
            }
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: Cli) -> Outcome {
    let Cli { global, command } = cli;
    let mut flags = global.overrides();
    flags.extend(command.iter().flat_map(Command::overrides));
    let sources = Sources::read(global.config.as_deref(), flags);
    let loaded = sources.and_then(|sources| sources.load()).map_err(|error| {
        Failure::new(Exit::Usage, error).try_("`meridian --print-config` with it corrected")
    })?;
    let mut config = loaded.config;
    raise(&mut config, global.verbose);
    if global.print_config {
        print(&config.to_toml())?;
        // A node refuses to start with an invalid configuration, so printing it fails as well and reports the reason.
        config.bgp.load().map_err(|error| Failure::new(Exit::Usage, error))?;
        return config.metadata.load().map(drop).map_err(|error| Failure::new(Exit::Usage, error));
    }
    let Some(command) = command else {
        let _ = Cli::command().print_help();
        return Err(Failure::told(Exit::Usage, "no command was given").try_("one of the commands above"));
    };
    let node = match &command {
        Command::Node(args) => Some(args.load(&config)?),
        Command::BgpAgent(args) => Some(args.load()?),
        Command::MetadataAgent(args) => Some(args.load()?),
        _ => None,
    };
    let proxy = match &command {
        Command::MetadataProxy(args) => Some(args.load(&config)?),
        _ => None,
    };
    let file = node.as_ref().and_then(|node| node.config.log_path());
    let debug = node.as_ref().is_some_and(|node| node.config.is_debug())
        || proxy.as_ref().is_some_and(|proxy| proxy.config.debug);
    if debug && config.log.level.origin == Origin::Default {
        config.log.level.value = Level::Debug;
    }
    let control = telemetry::start(&config.log, file.as_deref())?;
    let warnings = node.iter().flat_map(|node| &node.warnings);
    for warning in loaded.warnings.iter().chain(warnings) {
        tracing::warn!("{warning}");
    }
    let ignored = node.iter().flat_map(|node| &node.ignored);
    let ignored: Vec<&str> =
        ignored.chain(proxy.iter().flat_map(|proxy| &proxy.ignored)).map(String::as_str).collect();
    if !ignored.is_empty() {
        tracing::info!("these options have no effect: {}", ignored.join(", "));
    }
    match command {
        Command::Server(args) => block_on(server::run(&args, &config, control)),
        Command::Import(args) => block_on(import::run(&args, &config)),
        Command::Node(args) => with_roles("node", node, control, args.dry_run.preview()),
        Command::BgpAgent(args) => with_roles("bgp-agent", node, control, args.dry_run.preview()),
        Command::MetadataAgent(_) => match node.as_ref().and_then(|node| node.config.metadata.as_ref()) {
            Some(metadata) if !metadata.is_enabled => block_on_one_thread(crate::metadata_proxy::idle()),
            _ => with_roles("metadata-agent", node, control, None),
        },
        Command::MetadataProxy(_) => match proxy {
            Some(proxy) => block_on(crate::metadata_proxy::run(proxy.config)),
            None => Ok(()),
        },
        Command::KubeManager(_) => block_on_one_thread(crate::kube::run_manager(&config, control)),
        Command::Status(args) => block_on(status::run(&args, &config)),
        Command::Plan(args) => block_on(plan::run(&args, &config)),
        Command::AllowDeletions(args) => block_on(allow_deletions::run(&args, &config)),
        Command::Backup(args) => backup::run(&args, &config),
        Command::Restore(args) => restore::run(&args, &config),
        Command::Explain(args) => block_on(explain::run(&args, &config)),
        Command::Ovsdb(args) => ovsdb::run(&args, &config, control),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Runs the roles of a node, or only prints their plans in the format `preview`.
fn with_roles(
    command: &'static str,
    node: Option<LoadedNode>,
    log: LogControl,
    preview: Option<Said>,
) -> Outcome {
    match (node, preview) {
        (Some(node), None) => block_on_one_thread(roles::run(command, node.config, log)),
        (Some(node), Some(format)) => block_on_one_thread(async {
            let plans = roles::preview(node.config).await?;
            plan::show(&plans, format)
        }),
        (None, _) => Ok(()),
    }
}

/// Applies `-v`: raises the level in effect. It overrides a filter from the file or the environment.
fn raise(config: &mut Config, steps: u8) {
    if steps == 0 {
        return;
    }
    let origin = Origin::Flag("-v".into());
    config.log.level = Setting { value: config.log.level.value.raised(steps), origin: origin.clone() };
    if !matches!(config.log.filter.origin, Origin::Flag(_)) {
        config.log.filter = Setting { value: None, origin };
    }
}

/// Writes text to standard output.
fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)
}

/// Runs a command that mostly waits for other processes, on two threads: one for the command, one for admin and metrics requests.
fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    run_in(Builder::new_multi_thread().worker_threads(1), command)
}

/// Runs a command that reacts to each change at once and computes little. On one thread, because handing the work to another thread would
/// take longer than the work itself.
fn block_on_one_thread(command: impl Future<Output = Outcome>) -> Outcome {
    run_in(&mut Builder::new_current_thread(), command)
}

fn run_in(runtime: &mut Builder, command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Local, error).while_("cannot start"))?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = command => outcome,
            reason = task::failed() => Err(Failure::told(Exit::Bug, reason)
                .try_("the log above; systemd starts a unit of the package again")),
        }
    });
    // A name lookup may hang in a thread of its own. The process does not wait for it.
    runtime.shutdown_background();
    outcome
}

/// Serialises one of Meridian's own types as JSON.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("our own types have string keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
