//! The flags of a dry run, which `meridian node` and `meridian bgp-agent` share.

use crate::output::Said;

/// Flags that preview the changes of an agent.
#[derive(Debug, clap::Args)]
pub(super) struct DryRunFlags {
    /// Print the changes that the agent would make, and exit; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// With --dry-run: keep running, log each further change, and answer `meridian status`, `plan` and `explain`
    #[arg(long, requires = "dry_run")]
    pub(super) watch: bool,
    /// Format of the printed changes
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text", requires = "dry_run")]
    pub(super) output: Said,
}

impl DryRunFlags {
    /// The format of the plan, if the command prints a plan and exits.
    ///
    /// The option `dry_run` in a configuration file does not make the agent exit. Otherwise systemd would restart such a unit again and
    /// again.
    pub(super) fn preview(&self) -> Option<Said> {
        (self.dry_run && !self.watch).then_some(self.output)
    }
}
