//! Failures of commands: the error, its causes, the advice, and the exit code.

use std::fmt::{self, Write as _};
use std::io;

/// The exit codes. They never change, because scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The server rejected a request, or a schema does not fit.
    Refused = 1,
    /// The command line or the configuration is invalid.
    Usage = 2,
    /// No server was reachable, or none answered in time.
    Connect = 3,
    /// The peer violated the protocol.
    Protocol = 4,
    /// A local file or stream could not be read or written.
    Local = 5,
    /// A task of the program has panicked, which is a bug.
    Bug = 6,
}

/// The exit codes in `--help` and the man page.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  refused by the server, or a mismatch
  2  invalid command line or configuration
  3  no server could be reached, or none replied in time
  4  the peer violates the protocol
  5  a local file or stream could not be read or written
  6  a part of the program ended, which is a bug";

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: anyhow::Error,
    advice: Option<String>,
    quiet: bool,
}

/// The result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure from an error with its causes.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), advice: None, quiet: false }
    }

    /// A failure that consists of one line, without causes.
    pub(crate) fn told(exit: Exit, what: impl fmt::Display) -> Self {
        Self::new(exit, anyhow::anyhow!("{what}"))
    }

    /// Adds the attempted action above the causes.
    pub(crate) fn while_(mut self, what: impl fmt::Display) -> Self {
        self.error = self.error.context(what.to_string());
        self
    }

    /// Sets the advice.
    pub(crate) fn try_(mut self, advice: impl fmt::Display) -> Self {
        self.advice = Some(advice.to_string());
        self
    }

    /// Adds an alternative to the advice.
    pub(crate) fn or_try(mut self, advice: impl fmt::Display) -> Self {
        self.advice = Some(match self.advice {
            Some(before) => format!("{before}; or {advice}"),
            None => advice.to_string(),
        });
        self
    }

    /// The output could not be written. If the reader closed the pipe (`| head`), that is no failure.
    pub(crate) fn output(error: io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        let mut failure = Self::new(Exit::Local, error).while_("cannot write the output");
        failure.quiet = quiet;
        failure
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        if self.quiet { 0 } else { self.exit as u8 }
    }

    /// The report on standard error: one line with the error, one per cause, one with the advice.
    pub(crate) fn report(&self) -> Option<String> {
        if self.quiet {
            return None;
        }
        let mut text = format!("error: {}\n", self.error);
        let mut said = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            // Some libraries already include the cause in their own message.
            if !said.ends_with(&cause) {
                let _ = writeln!(text, "  cause: {cause}");
            }
            said = cause;
        }
        if let Some(advice) = &self.advice {
            let _ = writeln!(text, "  try: {advice}");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_event_the_causes_and_the_advice() {
        let failure = Failure::new(Exit::Connect, io::Error::other("no route"))
            .while_("cannot connect to tcp:1.2.3.4:6641")
            .try_("another remote");
        assert_eq!(
            failure.report().unwrap(),
            "error: cannot connect to tcp:1.2.3.4:6641\n  cause: no route\n  try: another remote\n"
        );
        assert_eq!(failure.code(), 3);
    }

    #[test]
    fn a_reader_that_went_away_is_quiet() {
        let failure = Failure::output(io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.report(), failure.code()), (None, 0));
        let failure = Failure::output(io::ErrorKind::StorageFull.into());
        assert_eq!(failure.code(), 5);
        assert!(failure.report().unwrap().starts_with("error: cannot write the output\n  cause: "));
    }

    #[test]
    fn the_codes_are_those_in_the_help() {
        for exit in [Exit::Refused, Exit::Usage, Exit::Connect, Exit::Protocol, Exit::Local, Exit::Bug] {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", exit as u8)), "{exit:?}");
        }
    }
}
