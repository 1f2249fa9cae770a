//! Changes the flows of bridges.

use std::path::Path;
use std::sync::Arc;

use super::connection::FlowError;
use super::observe::{Connections, Flows, lock};
use super::state::{BridgeFlows, NormalFlow, Op, Seen, SeenFlow};
use crate::cause::chain;
use crate::kernel::Dev;

impl Connections {
    /// Changes a bridge.
    pub(super) async fn apply(
        &mut self,
        rundir: &Path,
        bridge: &Dev,
        ops: &[&Op],
    ) -> Result<Vec<Result<(), FlowError>>, FlowError> {
        let known = self.0.contains_key(bridge);
        let first = self.get(rundir, bridge).await?.apply(ops).await;
        match first {
            Err(FlowError::Broken(_)) if known => {
                self.0.remove(bridge);
                self.get(rundir, bridge).await?.apply(ops).await
            }
            other => other,
        }
        .inspect_err(|_| drop(self.0.remove(bridge)))
    }
}

impl Flows {
    /// Carries out ops on one bridge.
    pub async fn apply(
        &mut self,
        bridge: &Dev,
        ops: &[&Op],
    ) -> Result<Vec<Result<(), FlowError>>, FlowError> {
        lock(&self.shared).writes += 1;
        let results = self.connections.apply(&self.rundir, bridge, ops).await;
        let mut shared = lock(&self.shared);
        shared.writes += 1;
        let seen = Arc::make_mut(&mut shared.seen);
        match (&results, seen.get_mut(bridge)) {
            (Ok(results), Some(Seen::Flows(flows))) => remember(flows, ops, results),
            (Ok(results), _) => {
                let mut flows = BridgeFlows::default();
                remember(&mut flows, ops, results);
                seen.insert(bridge.clone(), Seen::Flows(flows));
                // There may be others.
                self.changed.send_modify(|n| *n += 1);
            }
            // Nobody knows what was done: it is read again.
            (Err(error), _) => drop(seen.insert(bridge.clone(), Seen::Silent(chain(error)))),
        }
        results
    }
}

fn remember(flows: &mut BridgeFlows, ops: &[&Op], results: &[Result<(), FlowError>]) {
    for (op, _) in ops.iter().zip(results).filter(|(_, result)| result.is_ok()) {
        match op {
            Op::Add { flow, .. } => {
                flows.retain(|seen| {
                    seen.flow.is_none_or(|f| (f.in_port, f.family) != (flow.in_port, flow.family))
                });
                flows.insert(SeenFlow::plain(*flow));
            }
            Op::AddNormal { .. } => flows.normal = NormalFlow::There,
            Op::Delete { seen, .. } => drop(flows.remove(seen)),
        }
    }
}
