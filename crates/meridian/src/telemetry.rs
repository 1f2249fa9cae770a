//! Logging to standard error or to a file, as text or JSON, with a level that can change at run time.

mod cut;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Colour, Log, LogFormat};
use crate::failure::{Exit, Failure, Outcome};
use cut::CutLines;

/// Changes the log directives at run time.
#[derive(Clone, Debug)]
pub(crate) struct LogControl(reload::Handle<EnvFilter, Registry>);

impl LogControl {
    /// Applies other directives, such as `debug` or `ovsdb=trace,info`.
    pub(crate) fn set(&self, directives: &str) -> Result<(), String> {
        let filter = parse(directives)?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }

    /// The current directives.
    pub(crate) fn current(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }
}

fn parse(directives: &str) -> Result<EnvFilter, String> {
    // `EnvFilter` would silently take an empty string for "errors only".
    if directives.trim().is_empty() {
        return Err(
            "not a log level; expected off, error, warn, info, debug, trace, or directives such as ovsdb=debug,info".into()
        );
    }
    EnvFilter::try_new(directives).map_err(|error| format!("`{directives}`: {error}"))
}

/// Starts logging, to a file if one is named. Called once.
pub(crate) fn start(log: &Log, file: Option<&Path>) -> Outcome<LogControl> {
    let directives = log.filter.value.as_deref().unwrap_or(log.level.value.word());
    let origin = if log.filter.value.is_some() { &log.filter.origin } else { &log.level.origin };
    let filter = parse(directives)
        .map_err(|why| Failure::told(Exit::Usage, format!("invalid log filter from {origin}: {why}")))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    let (writer, colours) = match file {
        None => (BoxMakeWriter::new(io::stderr), coloured(log.color.value, &io::stderr())),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
                Failure::new(Exit::Local, error).while_(format!("cannot log to {}", path.display()))
            })?;
            (BoxMakeWriter::new(Mutex::new(file)), log.color.value == Colour::Always)
        }
    };
    let writer = CutLines { to: writer, json: log.format.value == LogFormat::Json };
    let started = match log.format.value {
        LogFormat::Human => registry.with(fmt::layer().with_writer(writer).with_ansi(colours)).try_init(),
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(writer)).try_init()
        }
    };
    started.map_err(|error| Failure::new(Exit::Local, error).while_("cannot start logging"))?;
    Ok(LogControl(handle))
}

/// Whether to colour a stream: in `Auto`, if it is a terminal and `NO_COLOR` is not set.
pub(crate) fn coloured(choice: Colour, stream: &impl IsTerminal) -> bool {
    match choice {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}
