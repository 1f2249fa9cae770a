//! A copy of the API's objects, kept by one watch per kind.
//!
//! The answers to our own writes enter the copy as well, so that the next decision sees them. An event that is older than the
//! copy is dropped: the watch may be behind an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::stream::StreamExt;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::decode::{Part, decode};
use super::kind::{Kind, Reader, SLICES};
use super::snapshot::{Described, ObjectName, Objects, Snapshot};
use crate::annotation::{Annotation, NetworkNameAnnotation};

/// The most remembered ends.
const WITNESSED: usize = 10_000;
/// The time between two attempts to learn the versions of the server.
const DISCOVERY: Duration = Duration::from_secs(1);

/// The copy, and the kinds that it lacks.
#[derive(Clone, Debug, Default)]
pub struct ClusterCopy {
    /// The objects.
    pub snapshot: Snapshot,
    /// The kinds whose list has not arrived, with the last error.
    pub missing: BTreeMap<Kind, String>,
    /// Nodes and networks whose end a watch has shown, by name. All others that are gone vanished while nobody watched: they may
    /// be missing from a restored API.
    pub witnessed: BTreeSet<(Kind, String)>,
    /// A number that differs whenever the objects do.
    pub revision: u64,
    /// The version of endpoint slices that the server has.
    slice_version: Option<&'static str>,
}

/// The copy that watches keep.
#[derive(Clone, Debug)]
pub struct Inventory {
    reader: Reader,
    copy: watch::Sender<ClusterCopy>,
}

impl Inventory {
    /// An empty copy that lacks everything that a program reads.
    pub fn new(reader: Reader) -> Inventory {
        let missing = reader.kinds().iter().map(|kind| (*kind, "no answer yet".to_owned())).collect();
        Inventory { reader, copy: watch::Sender::new(ClusterCopy { missing, ..ClusterCopy::default() }) }
    }

    /// Starts the watches. They end with the set.
    pub fn start(&self, client: &Client) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        for kind in self.reader.kinds() {
            watches.spawn(self.clone().follow(client.clone(), *kind));
        }
        watches
    }

    /// The copy, now and later.
    pub fn subscribe(&self) -> watch::Receiver<ClusterCopy> {
        self.copy.subscribe()
    }

    /// The objects as they are now.
    pub fn snapshot(&self) -> Snapshot {
        self.copy.borrow().snapshot.clone()
    }

    /// The kind's resource in the API.
    pub(super) fn resource(&self, kind: Kind) -> ApiResource {
        let slices = self.copy.borrow().slice_version;
        let version = slices.filter(|_| kind == Kind::EndpointSlice).unwrap_or(kind.api_version());
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let kind_of = GroupVersionKind::gvk(group, version, kind.as_str());
        ApiResource::from_gvk_with_plural(&kind_of, kind.plural())
    }

    /// Takes in an answer to one of our changes of an object.
    ///
    /// The watch may have shown the object's end in the meantime. Without the check, the answer would bring the object back for
    /// as long as the process lives.
    pub(super) fn take_answer(&self, kind: Kind, object: DynamicObject) {
        let (name, uid) = (name_of(&object), object.metadata.uid.clone().unwrap_or_default());
        if let Some(part) = decode(self.reader, kind, object) {
            self.change(|snapshot| {
                snapshot.meta(kind, &name).is_some_and(|meta| meta.uid == uid) && store(snapshot, part)
            });
        }
    }

    /// Learns which version of endpoint slices the server has.
    async fn learn_slice_version(&self, client: &Client) {
        loop {
            match client.list_api_groups().await {
                Ok(groups) => {
                    let slices = groups.groups.iter().find(|group| group.name == SLICES);
                    let versions = slices.iter().flat_map(|group| &group.versions);
                    let is_stable = versions.map(|it| it.version.as_str()).any(|version| version == "v1");
                    let version = if is_stable { "discovery.k8s.io/v1" } else { "discovery.k8s.io/v1beta1" };
                    self.copy.send_modify(|copy| copy.slice_version = Some(version));
                    return;
                }
                Err(error) => {
                    warn!(%error, "cannot read the API's groups");
                    self.note_missing(Kind::EndpointSlice, &error.to_string());
                    tokio::time::sleep(DISCOVERY).await;
                }
            }
        }
    }

    /// Notes why a list has not arrived.
    fn note_missing(&self, kind: Kind, error: &str) {
        self.copy.send_if_modified(|copy| match copy.missing.get_mut(&kind) {
            Some(cause) => {
                *cause = error.to_owned();
                true
            }
            None => false,
        });
    }

    /// Changes the objects, if the function does.
    fn change(&self, change: impl FnOnce(&mut Snapshot) -> bool) -> bool {
        self.copy.send_if_modified(|copy| {
            let is_changed = change(&mut copy.snapshot);
            copy.revision += u64::from(is_changed);
            is_changed
        })
    }

    /// Watches a kind for as long as the process lives.
    async fn follow(self, client: Client, kind: Kind) {
        if kind == Kind::EndpointSlice {
            self.learn_slice_version(&client).await;
        }
        let api: Api<DynamicObject> = Api::all_with(client, &self.resource(kind));
        let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
        let mut listed = Vec::new();
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => listed.clear(),
                Ok(Some(Event::InitApply(object))) => listed.extend(decode(self.reader, kind, object)),
                Ok(Some(Event::InitDone)) => {
                    let parts = std::mem::take(&mut listed);
                    debug!(kind = kind.as_str(), objects = parts.len(), "listed");
                    self.copy.send_modify(|copy| {
                        copy.revision += 1;
                        replace(&mut copy.snapshot, kind, parts);
                        copy.missing.remove(&kind);
                    });
                }
                Ok(Some(Event::Apply(object))) => {
                    let name = name_of(&object);
                    let _ = match decode(self.reader, kind, object) {
                        Some(part) => self.change(|snapshot| store(snapshot, part)),
                        // It was one of ours and is none any more.
                        None => self.change(|snapshot| remove(snapshot, kind, &name)),
                    };
                }
                Ok(Some(Event::Delete(object))) => {
                    let name = name_of(&object);
                    let end = witnessed_end(kind, &object);
                    self.copy.send_if_modified(|copy| {
                        if copy.witnessed.len() >= WITNESSED {
                            copy.witnessed.clear();
                        }
                        copy.witnessed.extend(end);
                        copy.revision += 1;
                        remove(&mut copy.snapshot, kind, &name)
                    });
                }
                Ok(None) => return,
                Err(error) => {
                    warn!(kind = kind.as_str(), %error, "cannot watch; the watch is started again");
                    self.note_missing(kind, &error.to_string());
                }
            }
        }
    }
}

/// The node or the network that ends with an object.
fn witnessed_end(kind: Kind, object: &DynamicObject) -> Option<(Kind, String)> {
    match kind {
        Kind::Node => Some((kind, object.metadata.name.clone()?)),
        Kind::Attachment => {
            let name = object.metadata.annotations.as_ref()?.get(NetworkNameAnnotation::KEY)?;
            Some((kind, name.clone()))
        }
        _ => None,
    }
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
        Part::EgressIp(object) => put(&mut snapshot.egress_ips, object),
        Part::Service(object) => put(&mut snapshot.services, object),
        Part::Slice(object) => put(&mut snapshot.slices, object),
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
        Kind::EgressIp => snapshot.egress_ips.remove(name).is_some(),
        Kind::Service => snapshot.services.remove(name).is_some(),
        Kind::EndpointSlice => snapshot.slices.remove(name).is_some(),
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
        Kind::EgressIp => snapshot.egress_ips.clear(),
        Kind::Service => snapshot.services.clear(),
        Kind::EndpointSlice => snapshot.slices.clear(),
    }
    for part in parts {
        store(snapshot, part);
    }
}
