//! Whether the agent does what it is for, and if not, why.
//!
//! A row that cannot be read or an address that the kernel refuses is that object's problem: it is reported, and the node is as
//! good as the rest of it. What counts here is what keeps all of the node, or all of a network, from being announced.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use reconcile::{Problem, Severity, State, Status};

use super::desired::Silence;

/// Why the agent does not do what it is for; nothing while it does.
pub fn trouble(status: &Status, silence: Option<Silence>) -> Vec<String> {
    let wide = status.problems.iter().filter(|problem| is_wide(problem, silence));
    let mut why: Vec<String> = wide.map(ToString::to_string).collect();
    if let Some(what) = &status.waiting_for {
        why.push(format!("the agent waits for {what}"));
    } else if status.state == State::Starting && why.is_empty() {
        why.push("the agent has not looked at everything yet".into());
    }
    if status.state == State::Stopped {
        why.push("the agent is stopped".into());
    }
    why
}

/// Whether a problem is one of everything, or of everything that stands on a device.
fn is_wide(problem: &Problem, silence: Option<Silence>) -> bool {
    problem.severity == Severity::Error
        && match problem.object.kind.as_str() {
            "component" | "device" | "flows" | "frr" | "process" => true,
            // For a while nothing is withdrawn.
            "chassis" => silence == Some(Silence::ChassisGone),
            _ => false,
        }
}
