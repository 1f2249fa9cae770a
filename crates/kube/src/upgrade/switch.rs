//! The moment at which a node leaves the old topology.
//!
//! The decision follows from the annotations and from the rows that are there, and from nothing that a process remembers: so a process
//! that dies between the transaction and the annotation finds the new rows when it starts again, and goes on from there.

use super::refusal::JoinConflict;
use crate::zone::Topology;

/// How a node switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpgradeMode {
    /// Once no pod of a layer-2 network runs on the node.
    #[default]
    Drained,
    /// At once. Guests are told about their new gateway.
    Live,
    /// Not at all. A node whose mark was removed goes back to the old topology.
    Hold,
}

/// The state of a node before the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchState {
    /// The mode.
    pub mode: UpgradeMode,
    /// Whether the node's annotation says that it has switched.
    pub is_marked_new: bool,
    /// Whether the node has tunnel keys of the old topology.
    pub has_old_keys: bool,
    /// The topology of the rows that are there, if there are any.
    pub rows: Option<Topology>,
    /// Whether the manager has given everything that the new topology needs: numbers of all networks, peer subnets, and keys for the
    /// scaffold.
    pub is_ready: bool,
    /// The number of pods of layer-2 networks that run on the node.
    pub pods: usize,
    /// The first reason against the switch of one of the networks.
    pub conflict: Option<JoinConflict>,
}

/// Why a node stays on the old topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stay {
    /// The operator wants it.
    #[error("upgrade_mode is hold, so the node keeps the old topology")]
    Held,
    /// The manager has not given everything yet.
    #[error(
        "the node keeps the old topology until the manager has numbered it and all networks; see that the new manager runs"
    )]
    NotReady,
    /// Pods run on the node.
    #[error(
        "the node keeps the old topology until its {0} pods of layer-2 networks are gone; drain it, or set upgrade_mode to live"
    )]
    Pods(usize),
    /// A network cannot be upgraded.
    #[error(transparent)]
    Conflict(#[from] JoinConflict),
}

/// The topology that a node is to have now, with the reason if it stays on the old one.
pub fn decide_topology(state: &SwitchState) -> (Topology, Option<Stay>) {
    let stay = |reason| (Topology::Old, Some(reason));
    // Nothing of the old topology is there, and nobody else expects it to be.
    if state.is_marked_new || (!state.has_old_keys && state.rows != Some(Topology::Old)) {
        return (Topology::New, None);
    }
    if state.mode == UpgradeMode::Hold {
        return stay(Stay::Held);
    }
    // The transaction was done; only the annotation is missing.
    if state.rows == Some(Topology::New) {
        return (Topology::New, None);
    }
    if !state.is_ready {
        return stay(Stay::NotReady);
    }
    if let Some(conflict) = &state.conflict {
        return stay(conflict.clone().into());
    }
    match (state.mode, state.pods) {
        (UpgradeMode::Drained, 1..) => stay(Stay::Pods(state.pods)),
        _ => (Topology::New, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(mode: UpgradeMode, rows: Option<Topology>, pods: usize) -> SwitchState {
        SwitchState {
            mode,
            is_marked_new: false,
            has_old_keys: true,
            rows,
            is_ready: true,
            pods,
            conflict: None,
        }
    }

    const OLD: Option<Topology> = Some(Topology::Old);

    #[test]
    fn a_drained_node_switches_without_pods_and_a_live_one_at_once() {
        let stays = |state: &SwitchState| decide_topology(state).1;
        assert_eq!(stays(&state(UpgradeMode::Drained, OLD, 2)), Some(Stay::Pods(2)));
        assert_eq!(decide_topology(&state(UpgradeMode::Drained, OLD, 0)), (Topology::New, None));
        assert_eq!(decide_topology(&state(UpgradeMode::Live, OLD, 2)), (Topology::New, None));
        assert_eq!(stays(&state(UpgradeMode::Hold, OLD, 0)), Some(Stay::Held));
        let unready = SwitchState { is_ready: false, ..state(UpgradeMode::Live, OLD, 0) };
        assert_eq!(stays(&unready), Some(Stay::NotReady));
    }

    #[test]
    fn scenario_42_a_switch_that_was_begun_is_completed() {
        // The rows are new, and the process died before it wrote the annotation. Pods that have come since do not send it back.
        for mode in [UpgradeMode::Drained, UpgradeMode::Live] {
            let begun = SwitchState { is_ready: false, ..state(mode, Some(Topology::New), 3) };
            assert_eq!(decide_topology(&begun), (Topology::New, None));
        }
    }

    #[test]
    fn scenario_43_a_network_without_room_keeps_the_node_old() {
        let conflict = JoinConflict::example();
        let refused = SwitchState { conflict: Some(conflict.clone()), ..state(UpgradeMode::Live, OLD, 0) };
        assert_eq!(decide_topology(&refused), (Topology::Old, Some(Stay::Conflict(conflict))));
    }

    #[test]
    fn a_node_that_never_was_old_is_new_and_a_marked_one_stays_new() {
        let fresh = SwitchState {
            has_old_keys: false,
            rows: None,
            is_ready: false,
            ..state(UpgradeMode::Hold, None, 1)
        };
        assert_eq!(decide_topology(&fresh), (Topology::New, None));
        let marked = SwitchState { is_marked_new: true, ..state(UpgradeMode::Hold, Some(Topology::New), 1) };
        assert_eq!(decide_topology(&marked), (Topology::New, None));
        // Keys may be gone already, but rows of the old topology are still there.
        let rows = SwitchState { has_old_keys: false, ..state(UpgradeMode::Drained, OLD, 1) };
        assert_eq!(decide_topology(&rows).1, Some(Stay::Pods(1)));
    }

    #[test]
    fn hold_sends_a_node_back_whose_mark_was_removed() {
        let returned = state(UpgradeMode::Hold, Some(Topology::New), 1);
        assert_eq!(decide_topology(&returned), (Topology::Old, Some(Stay::Held)));
    }
}
