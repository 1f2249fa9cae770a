//! The mark with which a node tells the others that it has the transit router.
//!
//! Other nodes send traffic for this node to its new port only after they have seen the mark. So it comes after the rows.

use std::collections::{BTreeMap, BTreeSet};

use reconcile::{Applied, Desire, ObjectId, Outcome, Plan, Scope, Target, TargetError};

use crate::annotation::{Annotation, TopologyVersion};
use crate::cluster::ApiWriter;
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{NodeObject, Snapshot};
use crate::cluster::write::{ObjectRef, Write, annotate};

/// The name under which the API records our writes.
pub(super) const PROGRAM: &str = "meridian-kube-node";

/// Decides the annotations of the node.
pub(super) struct AnnouncementDecider;

/// The node, once all of its rows are in place.
pub(super) struct SettledNode(pub(super) Option<NodeObject>);

impl Desire for AnnouncementDecider {
    type Snapshot = SettledNode;
    type Desired = BTreeMap<ObjectRef, BTreeMap<&'static str, String>>;

    fn desire(&mut self, SettledNode(node): &SettledNode) -> Outcome<Self::Desired> {
        let mut out: Outcome<Self::Desired> = Outcome::default();
        // The mark may be added, and never changed to another version.
        if let Some(node) = node.as_ref().filter(|it| !it.meta.annotations.contains_key(TopologyVersion::KEY))
        {
            let values = [(TopologyVersion::KEY, TopologyVersion.format())].into();
            out.value.insert(ObjectRef::new(Kind::Node, &node.meta), values);
        }
        out
    }
}

/// The node's object as a target.
pub(super) struct NodeTarget(pub(super) ApiWriter);

impl Target for NodeTarget {
    type Desired = BTreeMap<ObjectRef, BTreeMap<&'static str, String>>;
    type Observed = Snapshot;
    type Op = Write;

    fn plan(&mut self, want: &Self::Desired, _keep: &BTreeSet<ObjectId>, have: &Snapshot) -> Plan<Write> {
        let writes: Vec<_> = want.iter().filter_map(|(node, values)| annotate(node, values, have)).collect();
        let mut plan = Plan::new(want.len(), want.len().saturating_sub(writes.len()));
        writes.into_iter().for_each(|(object, write)| plan.push(object, write));
        plan
    }

    async fn observe(&mut self, _scope: Scope) -> Result<Snapshot, TargetError> {
        Ok(self.0.inventory().snapshot())
    }

    async fn apply(&mut self, plan: &Plan<Write>) -> Result<Applied, TargetError> {
        Ok(self.0.apply(plan).await)
    }
}
