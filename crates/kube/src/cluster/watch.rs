//! A copy of the API's objects, kept by one watch per kind.
//!
//! The answers to our own writes enter the copy as well, so that the next decision sees them. An event that is older than the
//! copy is dropped: the watch may be behind an answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::TryStreamExt;
use futures_util::stream::StreamExt;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::decode::{Part, decode};
use super::snapshot::{Described, Kind, ObjectName, Objects, Snapshot};

/// The kinds that are watched.
pub(super) const KINDS: [Kind; 7] = [
    Kind::Node,
    Kind::Namespace,
    Kind::Pod,
    Kind::UserDefinedNetwork,
    Kind::ClusterUserDefinedNetwork,
    Kind::Attachment,
    Kind::Claim,
];

/// The copy, and the kinds that it lacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Copy {
    pub(super) snapshot: Snapshot,
    /// The kinds whose list has not arrived, with the last error.
    pub(super) missing: BTreeMap<Kind, String>,
}

/// The copy that watches keep.
#[derive(Clone, Debug)]
pub(super) struct Inventory {
    copy: watch::Sender<Copy>,
}

impl Inventory {
    /// An empty copy that lacks everything.
    pub(super) fn new() -> Inventory {
        let missing = KINDS.into_iter().map(|kind| (kind, "no answer yet".to_owned())).collect();
        Inventory { copy: watch::Sender::new(Copy { snapshot: Snapshot::default(), missing }) }
    }

    /// The copy, now and later.
    pub(super) fn subscribe(&self) -> watch::Receiver<Copy> {
        self.copy.subscribe()
    }

    /// The objects as they are now.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.copy.borrow().snapshot.clone()
    }

    /// Takes in an answer to one of our changes of an object.
    ///
    /// The watch may have shown the object's end in the meantime. Without the check, the answer would bring the object back for
    /// as long as the process lives.
    pub(super) fn take_answer(&self, kind: Kind, object: DynamicObject) {
        let (name, uid) = (name_of(&object), object.metadata.uid.clone().unwrap_or_default());
        if let Some(part) = decode(kind, object) {
            self.copy.send_if_modified(|copy| {
                let snapshot = &mut copy.snapshot;
                snapshot.meta(kind, &name).is_some_and(|meta| meta.uid == uid) && store(snapshot, part)
            });
        }
    }

    /// Watches a kind for as long as the process lives.
    pub(super) async fn follow(self, client: Client, kind: Kind) {
        let api: Api<DynamicObject> = Api::all_with(client, &resource(kind));
        let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
        let mut listed = Vec::new();
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => listed.clear(),
                Ok(Some(Event::InitApply(object))) => listed.extend(decode(kind, object)),
                Ok(Some(Event::InitDone)) => {
                    let parts = std::mem::take(&mut listed);
                    debug!(kind = kind.as_str(), objects = parts.len(), "listed");
                    self.copy.send_modify(|copy| {
                        replace(&mut copy.snapshot, kind, parts);
                        copy.missing.remove(&kind);
                    });
                }
                Ok(Some(Event::Apply(object))) => {
                    let name = name_of(&object);
                    let _ = match decode(kind, object) {
                        Some(part) => self.copy.send_if_modified(|copy| store(&mut copy.snapshot, part)),
                        // It was one of ours and is none any more.
                        None => self.copy.send_if_modified(|copy| remove(&mut copy.snapshot, kind, &name)),
                    };
                }
                Ok(Some(Event::Delete(object))) => {
                    let name = name_of(&object);
                    self.copy.send_if_modified(|copy| remove(&mut copy.snapshot, kind, &name));
                }
                Ok(None) => return,
                Err(error) => {
                    warn!(kind = kind.as_str(), %error, "cannot watch; the watch is started again");
                    self.copy.send_if_modified(|copy| match copy.missing.get_mut(&kind) {
                        Some(cause) => {
                            *cause = error.to_string();
                            true
                        }
                        None => false,
                    });
                }
            }
        }
    }
}

/// The kind's resource in the API.
pub(super) fn resource(kind: Kind) -> ApiResource {
    let (group, version) = kind.api_version().rsplit_once('/').unwrap_or(("", kind.api_version()));
    let plural = match kind {
        Kind::Node => "nodes",
        Kind::Namespace => "namespaces",
        Kind::Pod => "pods",
        Kind::UserDefinedNetwork => "userdefinednetworks",
        Kind::ClusterUserDefinedNetwork => "clusteruserdefinednetworks",
        Kind::Attachment => "network-attachment-definitions",
        Kind::Claim => "ipamclaims",
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.as_str()), plural)
}

fn name_of(object: &DynamicObject) -> ObjectName {
    ObjectName {
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}

/// Puts a part into its place. False if the copy has a newer one.
fn store(snapshot: &mut Snapshot, part: Part) -> bool {
    fn put<T: Described + PartialEq>(objects: &mut Objects<T>, object: T) -> bool {
        let name = object.meta().object_name();
        if objects.get(&name).is_some_and(|had| had.meta().version >= object.meta().version) {
            return false;
        }
        objects.insert(name, Arc::new(object));
        true
    }
    match part {
        Part::Node(object) => put(&mut snapshot.nodes, object),
        Part::Namespace(object) => put(&mut snapshot.namespaces, object),
        Part::Pod(object) => put(&mut snapshot.pods, object),
        Part::Network(object) => put(&mut snapshot.networks, object),
        Part::ClusterNetwork(object) => put(&mut snapshot.cluster_networks, object),
        Part::Attachment(object) => put(&mut snapshot.attachments, object),
        Part::Claim(object) => put(&mut snapshot.claims, object),
    }
}

fn remove(snapshot: &mut Snapshot, kind: Kind, name: &ObjectName) -> bool {
    match kind {
        Kind::Node => snapshot.nodes.remove(name).is_some(),
        Kind::Namespace => snapshot.namespaces.remove(name).is_some(),
        Kind::Pod => snapshot.pods.remove(name).is_some(),
        Kind::UserDefinedNetwork => snapshot.networks.remove(name).is_some(),
        Kind::ClusterUserDefinedNetwork => snapshot.cluster_networks.remove(name).is_some(),
        Kind::Attachment => snapshot.attachments.remove(name).is_some(),
        Kind::Claim => snapshot.claims.remove(name).is_some(),
    }
}

/// Replaces all objects of a kind by a new list. The list may come from an etcd that was restored from a backup, so its objects
/// win even if they are older.
fn replace(snapshot: &mut Snapshot, kind: Kind, parts: Vec<Part>) {
    match kind {
        Kind::Node => snapshot.nodes.clear(),
        Kind::Namespace => snapshot.namespaces.clear(),
        Kind::Pod => snapshot.pods.clear(),
        Kind::UserDefinedNetwork => snapshot.networks.clear(),
        Kind::ClusterUserDefinedNetwork => snapshot.cluster_networks.clear(),
        Kind::Attachment => snapshot.attachments.clear(),
        Kind::Claim => snapshot.claims.clear(),
    }
    for part in parts {
        store(snapshot, part);
    }
}
