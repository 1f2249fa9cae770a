//! What a build shows while it runs: a bar on a terminal, a line per step elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How many steps a build has: lists, download, unpack, finish.
const STEPS: u64 = 4;

pub(super) struct Progress {
    bar: ProgressBar,
    step: String,
    begin: Instant,
}

impl Progress {
    pub(super) fn begin(what: &str) -> Progress {
        let bar = ProgressBar::new(STEPS);
        bar.set_style(
            ProgressStyle::with_template("{spinner:.cyan} {prefix} [{bar:24.cyan}] {wide_msg} {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        if bar.is_hidden() {
            eprintln!("{what}");
        }
        Progress { bar, step: String::new(), begin: Instant::now() }
    }

    /// The next step begins.
    pub(super) fn step(&mut self, name: &str) {
        if !self.step.is_empty() {
            self.bar.inc(1);
        }
        name.clone_into(&mut self.step);
        self.bar.set_message(name.to_owned());
        if self.bar.is_hidden() {
            eprintln!("  {:>3} s  {name}", self.begin.elapsed().as_secs());
        }
    }

    /// How far the step is.
    pub(super) fn note(&self, text: &str) {
        self.bar.set_message(format!("{}: {text}", self.step));
    }

    /// All is done; `text` says what came of it.
    pub(super) fn done(self, text: &str) {
        let seconds = self.begin.elapsed().as_secs();
        self.bar.finish_and_clear();
        eprintln!("{text} ({seconds} s)");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
