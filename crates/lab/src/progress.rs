//! The progress of a build (of a root file system, of a Python environment): a bar on a terminal, a line per step elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Progress {
    bar: ProgressBar,
    step: String,
    begin: Instant,
}

impl Progress {
    /// Begins the display of a build with this number of steps.
    pub(crate) fn begin(what: &str, steps: u64) -> Progress {
        let bar = ProgressBar::new(steps);
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
    pub(crate) fn step(&mut self, name: &str) {
        if !self.step.is_empty() {
            self.bar.inc(1);
        }
        name.clone_into(&mut self.step);
        self.bar.set_message(name.to_owned());
        if self.bar.is_hidden() {
            eprintln!("  {:>3} s  {name}", self.begin.elapsed().as_secs());
        }
    }

    /// Shows the progress of the step.
    pub(crate) fn note(&self, text: &str) {
        self.bar.set_message(format!("{}: {text}", self.step));
    }

    /// Ends the progress display with a summary in `text`.
    pub(crate) fn done(self, text: &str) {
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
