//! An API server, objects in it, and managers on it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client, Config, CustomResourceExt, ResourceExt};
use kubernetes::crd::{self, ClusterUserDefinedNetwork, NetworkAttachmentDefinition, UserDefinedNetwork};
use kubernetes::manager::state::NAMESPACE_LABEL;
use kubernetes::manager::{LeaseSettings, ManagerError, ManagerParts, ManagerSettings, run};
use kubernetes::network::ClusterNetwork;
use lab::kubernetes::{ADMIN, ApiServer};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Time for anything on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(90);

pub(crate) const NODE_ID: &str = "k8s.ovn.org/node-id";
pub(crate) const PEERS: &str = "k8s.ovn.org/node-transit-peer-ports-subnet";
pub(crate) const NETWORK_ID: &str = "k8s.ovn.org/network-id";
pub(crate) const TUNNEL_KEYS: &str = "k8s.ovn.org/tunnel-keys";
pub(crate) const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    _dir: tempfile::TempDir,
}

impl Cluster {
    /// A server with the definitions of our resources.
    pub(crate) async fn start() -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let server = ApiServer::start(dir.path()).unwrap();
        let client = client(&server).await;
        let cluster = Cluster { server, client, _dir: dir };
        for definition in crd::definitions() {
            cluster.server.apply(&serde_json::to_string(&definition).unwrap()).unwrap();
        }
        let names = ["udn", "cudn", "net-attach-def", "ipamclaims", "egressips"];
        for name in names {
            until(&format!("{name} is served"), || async {
                cluster.server.kubectl(&["get", name, "-A"]).is_ok()
            })
            .await;
        }
        cluster
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.nodes().get(name).await.unwrap()
    }

    pub(crate) async fn create_node(&self, name: &str, annotations: &[(&str, &str)]) {
        let node = json!({ "metadata": { "name": name, "annotations": map(annotations) } });
        self.nodes().create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }

    /// Waits for an annotation of a node.
    pub(crate) async fn node_has(&self, name: &str, key: &str, value: &str) {
        until(&format!("node {name} has {key}={value}"), || async {
            self.node(name).await.annotations().get(key).is_some_and(|it| it == value)
        })
        .await;
    }

    pub(crate) async fn annotate_node(&self, name: &str, key: &str, value: Value) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn create_namespace(&self, name: &str, labels: &[(&str, &str)]) {
        let namespace = json!({ "metadata": { "name": name, "labels": map(labels) } });
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    }

    /// A namespace that may have a primary network.
    pub(crate) async fn create_primary_namespace(&self, name: &str) {
        self.create_namespace(name, &[(NAMESPACE_LABEL, "")]).await;
    }

    pub(crate) async fn label_namespace(&self, name: &str, label: &str, value: Value) {
        let patch = json!({ "metadata": { "labels": { label: value } } });
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Objects of one of our kinds, of any content.
    pub(crate) fn objects<K: CustomResourceExt>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource: ApiResource = K::api_resource();
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            _ => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    pub(crate) async fn create<K: CustomResourceExt>(&self, namespace: &str, name: &str, spec: Value) {
        let resource = K::api_resource();
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": { "name": name }, "spec": spec,
        });
        let api = self.objects::<K>(namespace);
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// A primary layer-2 network of a namespace.
    pub(crate) async fn create_network(&self, namespace: &str, name: &str, subnets: &[&str]) {
        let layer2 = json!({ "role": "Primary", "subnets": subnets });
        let spec = json!({ "topology": "Layer2", "layer2": layer2 });
        self.create::<UserDefinedNetwork>(namespace, name, spec).await;
    }

    /// Waits for the condition of a network: status, reason, and words of the message.
    pub(crate) async fn condition<K: CustomResourceExt>(
        &self,
        namespace: &str,
        name: &str,
        want: (&str, &str),
        words: &str,
    ) {
        let api = self.objects::<K>(namespace);
        let mut last = Value::Null;
        let begin = Instant::now();
        while begin.elapsed() < LONG {
            let object = api.get(name).await.unwrap();
            let conditions = object.data.pointer("/status/conditions").and_then(|it| it.as_array()).cloned();
            let found = conditions.into_iter().flatten().find(|it| it["type"] == "NetworkCreated");
            if let Some(found) = found {
                let message = found["message"].as_str().unwrap_or_default().to_owned();
                if (found["status"].as_str(), found["reason"].as_str()) == (Some(want.0), Some(want.1))
                    && message.contains(words)
                {
                    return;
                }
                last = found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("network {namespace}/{name} has the condition {last}, not {want:?} with {words:?}");
    }

    pub(crate) async fn attachment(&self, namespace: &str, name: &str) -> Option<DynamicObject> {
        self.objects::<NetworkAttachmentDefinition>(namespace).get_opt(name).await.unwrap()
    }

    /// Waits for a definition with id and keys.
    pub(crate) async fn numbered_attachment(&self, namespace: &str, name: &str) -> DynamicObject {
        until(&format!("definition {namespace}/{name} has an id"), || async {
            let found = self.attachment(namespace, name).await;
            found.is_some_and(|it| it.annotations().contains_key(TUNNEL_KEYS))
        })
        .await;
        self.attachment(namespace, name).await.unwrap()
    }

    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) async fn create_pod(&self, namespace: &str, name: &str, annotations: &[(&str, &str)]) {
        let pod = json!({
            "metadata": { "name": name, "annotations": map(annotations) },
            "spec": { "nodeName": "node1", "containers": [{ "name": "main", "image": "none" }] },
        });
        self.pods(namespace)
            .create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap();
    }

    /// Deletes a pod at once, as its kubelet would after a while.
    pub(crate) async fn delete_pod(&self, namespace: &str, name: &str) {
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods(namespace).delete(name, &params).await.unwrap();
    }

    /// The entry of a pod in a network.
    pub(crate) async fn entry(&self, namespace: &str, name: &str, key: &str) -> Option<Value> {
        let pod = self.pods(namespace).get(name).await.unwrap();
        let networks: Value = serde_json::from_str(pod.annotations().get(POD_NETWORKS)?).ok()?;
        networks.get(key).cloned()
    }

    /// Waits for the entry of a pod in a network.
    pub(crate) async fn awaited_entry(&self, namespace: &str, name: &str, key: &str) -> Value {
        until(&format!("pod {name} has addresses"), || async {
            self.entry(namespace, name, key).await.is_some()
        })
        .await;
        self.entry(namespace, name, key).await.unwrap()
    }

    /// Waits for an event about an object; returns its message.
    pub(crate) async fn event(&self, about: &str, reason: &str) -> String {
        let api: Api<Event> = Api::all(self.client.clone());
        let find = || async {
            let events = api.list(&ListParams::default()).await.unwrap();
            events.into_iter().find(|it| {
                it.reason.as_deref() == Some(reason) && it.involved_object.name.as_deref() == Some(about)
            })
        };
        until(&format!("event {reason} about {about}"), || async { find().await.is_some() }).await;
        find().await.unwrap().message.unwrap_or_default()
    }

    /// The number of writes to a node since a version of it.
    pub(crate) async fn writes_to_node(&self, name: &str, since: &str) -> usize {
        use futures_util::TryStreamExt;
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(2);
        let events = self.nodes().watch(&params, since).await.unwrap();
        let events: Vec<WatchEvent<Node>> = events.try_collect().await.unwrap();
        events.iter().filter(|event| matches!(event, WatchEvent::Modified(_))).count()
    }

    /// A manager with settings.
    pub(crate) fn manager(&self, settings: ManagerSettings) -> Manager {
        Manager::start(self.client.clone(), settings, LeaseSettings::new("default", "manager", unique()))
    }
}

pub(crate) async fn client(server: &ApiServer) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig(ADMIN)).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// A name that no other manager has.
pub(crate) fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("manager-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The settings of the tests: those of the specification's example.
pub(crate) fn settings() -> ManagerSettings {
    let cluster = ClusterNetwork {
        pod_subnets: vec!["10.244.0.0/16".parse().unwrap(), "fd00:10:244::/48".parse().unwrap()],
        service_subnets: vec!["10.96.0.0/16".parse().unwrap(), "fd00:10:96::/112".parse().unwrap()],
        ..ClusterNetwork::default()
    };
    ManagerSettings { cluster, ..ManagerSettings::default() }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A manager that runs as a task.
pub(crate) struct Manager {
    task: JoinHandle<Result<(), ManagerError>>,
    stop: Option<oneshot::Sender<()>>,
    handle: watch::Receiver<Option<reconcile::Handle>>,
}

impl Manager {
    pub(crate) fn start(client: Client, settings: ManagerSettings, lease: LeaseSettings) -> Manager {
        let (stop, stopped) = oneshot::channel::<()>();
        let (handle, handles) = watch::channel(None);
        let parts = ManagerParts { client, settings, lease, metrics: reconcile::Metrics::default(), handle };
        let task = tokio::spawn(run(parts, async {
            let _ = stopped.await;
        }));
        Manager { task, stop: Some(stop), handle: handles }
    }

    /// Whether it has the lease.
    pub(crate) fn is_active(&self) -> bool {
        self.handle.borrow().is_some()
    }

    /// Waits until it has found nothing to do.
    pub(crate) async fn converged(&self) {
        let mut handles = self.handle.clone();
        let handle =
            tokio::time::timeout(LONG, handles.wait_for(|it| it.is_some())).await.unwrap().unwrap().clone();
        let mut status = handle.unwrap().status();
        let done = status.wait_for(|it| it.state == reconcile::State::Converged);
        drop(tokio::time::timeout(LONG, done).await.expect("the manager converges"));
    }

    /// Waits until it ends because it has lost the lease.
    pub(crate) async fn lost_the_lease(mut self) {
        let result = tokio::time::timeout(LONG, &mut self.task).await.unwrap().unwrap();
        assert_eq!(result, Err(ManagerError::LeaseLost));
    }

    /// Stops it as an operator does.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(LONG, &mut self.task).await.unwrap().unwrap().unwrap();
    }

    /// Ends it wherever it waits.
    pub(crate) async fn kill(self) {
        if let Some(handle) = self.handle.borrow().as_ref() {
            handle.stop();
        }
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Waits for a condition.
pub(crate) async fn until<F: Future<Output = bool>>(what: impl Display, mut holds: impl FnMut() -> F) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < LONG, "{what}: not within {LONG:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The resources, to name them briefly.
pub(crate) type Udn = UserDefinedNetwork;
pub(crate) type Cudn = ClusterUserDefinedNetwork;

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for daemon in [self.server.server(), self.server.etcd()] {
                let said = daemon.said();
                let lines: Vec<&str> = said.lines().collect();
                let last = lines[lines.len().saturating_sub(25)..].join("\n");
                eprintln!("{} is alive: {}; its last lines:\n{last}", daemon.name(), daemon.alive());
            }
        }
    }
}
