//! When a node's program does not trust that objects are gone.
//!
//! Rows go when the API does not have their network or their node any more. After etcd was restored from an old backup or came up
//! empty, the API has lost them by mistake, and a zone that follows it at once interrupts every pod of the node. So the program
//! trusts the ends that a watch has shown it, and few others.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use ovn::nb::LogicalSwitch;
use ovn::text::neutron::key::OWNER;
use ovsdb::Snapshot;

use super::desired::identity::NETWORK;
use crate::cluster::ClusterCopy;
use crate::cluster::kind::Kind;

/// A reason to delete nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What is missing, and what to do.
    pub reason: String,
    /// The missing objects.
    missing: BTreeSet<String>,
}

/// What the databases of a zone know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownObjects {
    /// The networks with rows of ours in the Northbound.
    pub networks: BTreeSet<String>,
    /// The nodes with a chassis of ours in the Southbound.
    pub nodes: BTreeSet<String>,
}

/// The networks with a switch of ours.
pub fn known_networks(northbound: &Snapshot, owner: &str) -> BTreeSet<String> {
    let ours = northbound.table::<LogicalSwitch>().iter().map(|(_, row)| &row.external_ids);
    let ours = ours.filter(|ids| ids.get(OWNER).is_some_and(|it| it == owner));
    ours.filter_map(|ids| ids.get(NETWORK)).map(|name| name.to_string()).collect()
}

/// The reason to delete nothing, if there is one. `is_ready` says that the zone's own node has an id and a chassis, `named` are the
/// networks that the API has.
pub fn doubt(
    copy: &ClusterCopy,
    is_ready: bool,
    named: &BTreeSet<String>,
    known: &KnownObjects,
) -> Option<Doubt> {
    if known.networks.is_empty() && known.nodes.is_empty() {
        return None;
    }
    let gone = |kind: Kind, all: &BTreeSet<String>, is_there: &dyn Fn(&String) -> bool| -> BTreeSet<String> {
        let gone = all.iter().filter(|name| !is_there(name));
        gone.filter(|name| !copy.witnessed.contains(&(kind, (*name).clone()))).cloned().collect()
    };
    let networks = gone(Kind::Attachment, &known.networks, &|name| named.contains(name));
    let names: BTreeSet<&String> = copy.snapshot.nodes.keys().map(|name| &name.name).collect();
    let nodes = gone(Kind::Node, &known.nodes, &|name| names.contains(name));
    let missing: BTreeSet<String> = networks.iter().chain(&nodes).cloned().collect();
    let are_many = |gone: &BTreeSet<String>, all: &BTreeSet<String>| gone.len() * 5 > all.len();
    let reason = if missing.is_empty() {
        return None;
    } else if !is_ready {
        "the API has no id or no chassis of this node".to_owned()
    } else if are_many(&networks, &known.networks)
        && (networks.len() > 1 || networks.len() == known.networks.len())
    {
        format!(
            "{} of {} networks vanished from the API while nobody watched",
            networks.len(),
            known.networks.len()
        )
    } else if are_many(&nodes, &known.nodes) && nodes.len() > 1 {
        format!("{} of {} nodes vanished from the API while nobody watched", nodes.len(), known.nodes.len())
    } else {
        return None;
    };
    Some(Doubt { reason, missing })
}

/// The doubts of a program, and those that an operator has dispelled. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Doubts(Arc<Mutex<(Option<Doubt>, Option<Doubt>)>>);

impl Doubts {
    /// Notes the present doubt; returns it unless an operator has dispelled it.
    pub fn note(&self, now: Option<Doubt>) -> Option<Doubt> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (present, dispelled) = &mut *state;
        present.clone_from(&now);
        now.filter(|doubt| Some(doubt) != dispelled.as_ref())
    }

    /// Dispels the present doubt. False if there is none.
    pub fn dispel(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = state.0.clone();
        state.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::snapshot::{Meta, NodeObject, ObjectName};

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    fn copy(nodes: &[&str]) -> ClusterCopy {
        let mut copy = ClusterCopy::default();
        for name in nodes {
            let meta = Meta { name: (*name).to_owned(), ..Meta::default() };
            let name = ObjectName { namespace: String::new(), name: (*name).to_owned() };
            copy.snapshot.nodes.insert(name, Arc::new(NodeObject { meta, ..NodeObject::default() }));
        }
        copy
    }

    #[test]
    fn what_vanishes_unseen_is_doubted_and_what_a_watch_shows_is_not() {
        let known = KnownObjects { networks: names(&["a", "b", "c", "d"]), nodes: names(&["n2", "n3"]) };
        let all = copy(&["n1", "n2", "n3"]);
        let doubtful = |copy: &ClusterCopy, is_ready, named: &[&str]| {
            doubt(copy, is_ready, &names(named), &known).map(|it| it.reason)
        };
        assert_eq!(doubtful(&all, true, &["a", "b", "c", "d"]), None);
        assert_eq!(doubtful(&all, true, &["a", "b", "c"]), None, "one is not many");
        assert!(doubtful(&all, true, &["a", "b"]).unwrap().contains("2 of 4 networks"));
        assert!(doubtful(&all, true, &[]).unwrap().contains("4 of 4 networks"));
        assert!(doubtful(&all, false, &["a", "b", "c"]).unwrap().contains("this node"));
        assert!(doubtful(&copy(&["n1"]), true, &["a", "b", "c", "d"]).unwrap().contains("2 of 2 nodes"));
        let mut watched = all.clone();
        for name in ["a", "b", "c", "d"] {
            watched.witnessed.insert((Kind::Attachment, name.to_owned()));
        }
        assert_eq!(doubtful(&watched, true, &[]), None);
        assert_eq!(doubt(&copy(&[]), false, &names(&[]), &KnownObjects::default()), None, "nothing to lose");
    }

    #[test]
    fn an_operator_dispels_this_doubt_and_no_later_one() {
        let doubts = Doubts::default();
        assert!(!doubts.dispel());
        let of = |name: &str| Some(Doubt { reason: "r".to_owned(), missing: names(&[name]) });
        assert_eq!(doubts.note(of("a")), of("a"));
        assert!(doubts.dispel());
        assert_eq!(doubts.note(of("a")), None);
        assert_eq!(doubts.note(of("b")), of("b"));
    }
}
