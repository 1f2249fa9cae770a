//! The codes of the problems that the loop itself reports, each with its row of the troubleshooting guide.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use smol_str::SmolStr;

/// The code of a problem that the loop reports, whatever the component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopCode {
    /// A step failed.
    ApplyFailed,
    /// The target could not be observed.
    ObserveFailed,
    /// A run panicked.
    Panicked,
    /// Incremental and full compilation differ.
    IncrementalMismatch,
    /// Another program undoes the steps.
    UndoneAgain,
    /// The steps of an object succeed, and are planned again each time.
    DoesNotConverge,
}

impl LoopCode {
    /// All codes.
    pub const ALL: [LoopCode; 6] = [
        LoopCode::ApplyFailed,
        LoopCode::ObserveFailed,
        LoopCode::Panicked,
        LoopCode::IncrementalMismatch,
        LoopCode::UndoneAgain,
        LoopCode::DoesNotConverge,
    ];

    /// The code as the status, the log and the metrics show it.
    pub fn as_str(self) -> &'static str {
        match self {
            LoopCode::ApplyFailed => "apply-failed",
            LoopCode::ObserveFailed => "observe-failed",
            LoopCode::Panicked => "panicked",
            LoopCode::IncrementalMismatch => "incremental-mismatch",
            LoopCode::UndoneAgain => "undone-again",
            LoopCode::DoesNotConverge => "does-not-converge",
        }
    }

    /// The meaning, and what to do: the guide's text.
    pub fn guide(self) -> &'static str {
        match self {
            LoopCode::ApplyFailed | LoopCode::ObserveFailed => {
                "the kernel, the switch or FRR refused an operation; the message gives the operation and the cause. The agent \
                 retries at growing intervals. `Operation not permitted`: the agent lacks `CAP_NET_ADMIN`"
            }
            LoopCode::Panicked | LoopCode::IncrementalMismatch => {
                "a bug in Meridian; the agent continues with the other objects. Please report it with the log"
            }
            LoopCode::UndoneAgain => {
                "another program keeps undoing the agent's changes to the object; find it: a script, a network manager, an \
                 ovn-bgp-agent"
            }
            LoopCode::DoesNotConverge => {
                "steps succeed, and another program undoes them each time; find it, for example an ovn-bgp-agent"
            }
        }
    }
}

impl From<LoopCode> for SmolStr {
    fn from(code: LoopCode) -> Self {
        SmolStr::new_static(code.as_str())
    }
}

impl PartialEq<LoopCode> for SmolStr {
    fn eq(&self, code: &LoopCode) -> bool {
        self.as_str() == code.as_str()
    }
}
