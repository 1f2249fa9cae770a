//! Sends the requests of a plan.
//!
//! The requests of one object go one after another; objects do not wait for each other. No request outlives the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, Client};
use reconcile::{Applied, Class, ObjectId, Plan, StepResult, TargetError};
use serde_json::json;

use super::watch::Inventory;
use super::write::{Change, Notice, PatchOp, Write};

/// The number of objects that are written at once.
const AT_ONCE: usize = 16;
/// Timeout of one request.
const REQUEST: Duration = Duration::from_secs(8);
/// The requests of one run. The rest follows in the next, which sees what came in between.
const MOST: usize = 1000;
/// The most events that are remembered as written.
const EVENTS: usize = 20_000;

/// The right of a process to write.
pub trait Permission: Send + Sync {
    /// The time that is left for a write. `None` if this process may not write.
    fn remaining(&self) -> Option<Duration>;
}

/// The permission of the only writer of what it writes.
#[derive(Clone, Copy, Debug)]
pub struct SoleWriter;

impl Permission for SoleWriter {
    fn remaining(&self) -> Option<Duration> {
        Some(Duration::MAX)
    }
}

/// Writes to the API in the name of a program.
pub struct ApiWriter {
    client: Client,
    inventory: Inventory,
    permission: Box<dyn Permission>,
    /// The name under which the API records the writes.
    program: &'static str,
    events: BTreeSet<String>,
}

impl ApiWriter {
    /// A writer whose answers enter a copy.
    pub fn new(
        client: Client,
        inventory: Inventory,
        permission: impl Permission + 'static,
        program: &'static str,
    ) -> ApiWriter {
        ApiWriter { client, inventory, permission: Box::new(permission), program, events: BTreeSet::new() }
    }

    /// The copy.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The names of written events.
    pub fn events(&self) -> &BTreeSet<String> {
        &self.events
    }

    /// Sends one request, if this process may still write.
    async fn send(&self, write: &Write) -> Result<(), TargetError> {
        let tried = || TargetError::new(Class::Transient, format!("cannot {write}"));
        let Some(left) = self.permission.remaining() else {
            return Err(tried().because("the lease of this process has ended"));
        };
        match tokio::time::timeout(left.min(REQUEST), self.request(write)).await {
            Ok(result) => result.map_err(|error| explain(write, error)),
            // Nobody knows whether it was done: observe again.
            Err(_) => {
                Err(TargetError::new(Class::Conflict, format!("cannot {write}")).because("no answer in time"))
            }
        }
    }

    async fn request(&self, write: &Write) -> Result<(), kube::Error> {
        let resource = self.inventory.resource(write.kind);
        let api: Api<DynamicObject> = match write.name.namespace.as_str() {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        };
        let (name, params) = (write.name.name.as_str(), PatchParams::default());
        let answer = match &write.change {
            Change::Create { object } => {
                let object = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
                let params =
                    PostParams { field_manager: Some(self.program.to_owned()), ..PostParams::default() };
                // The watch shows it. An answer that came after the object's end would bring it back.
                return api.create(&params, &object).await.map(drop);
            }
            Change::Patch { ops, .. } => api.patch(name, &params, &json_patch(ops)?).await?,
            Change::PatchStatus { ops, .. } => api.patch_status(name, &params, &json_patch(ops)?).await?,
            Change::SetCondition { version, conditions, changed, .. } => {
                let mut conditions = conditions.clone();
                for condition in conditions.iter_mut().filter(|it| Some(&it.type_) == changed.as_ref()) {
                    // The API keeps whole seconds.
                    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
                    condition.last_transition_time = Time(now);
                }
                let patch = json!({
                    "metadata": { "resourceVersion": version.to_string() },
                    "status": { "conditions": conditions },
                });
                api.patch_status(name, &params, &Patch::Merge(patch)).await?
            }
            Change::Delete { uid } => {
                let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                match api.delete(name, &params).await {
                    // It waits for its finalizers.
                    Ok(either) => match either.left() {
                        Some(object) => object,
                        None => return Ok(()),
                    },
                    Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            Change::Notify { event, notice } => return self.write_event(event, notice).await,
        };
        self.inventory.take_answer(write.kind, answer);
        Ok(())
    }

    /// Sends the requests of a plan.
    pub async fn apply(&mut self, plan: &Plan<Write>) -> Applied {
        let mut by_object: BTreeMap<&ObjectId, Vec<usize>> = BTreeMap::new();
        for (n, step) in plan.steps.iter().enumerate().take(MOST) {
            by_object.entry(&step.object).or_default().push(n);
        }
        // In the order of the plan: numbers before what needs them.
        let mut groups: Vec<Vec<usize>> = by_object.into_values().collect();
        groups.sort_by_key(|steps| steps.first().copied());
        let writer = &*self;
        let sent: Vec<Vec<(usize, Result<(), TargetError>)>> = futures_util::stream::iter(groups)
            .map(|steps| async move {
                let mut results = Vec::new();
                for n in steps {
                    let Some(step) = plan.steps.get(n) else { break };
                    let result = writer.send(&step.op).await;
                    let failed = result.is_err();
                    results.push((n, result));
                    if failed {
                        break;
                    }
                }
                results
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut results: Vec<StepResult> = plan.steps.iter().map(|_| StepResult::Skipped).collect();
        for (n, result) in sent.into_iter().flatten() {
            let step = plan.steps.get(n).map(|step| &step.op.change);
            if let (Ok(()), Some(Change::Notify { event, .. })) = (&result, step) {
                if self.events.len() >= EVENTS {
                    self.events.clear();
                }
                self.events.insert(event.clone());
            }
            if let Some(place) = results.get_mut(n) {
                *place = match result {
                    Ok(()) => StepResult::Done,
                    Err(error) => StepResult::Failed(error),
                };
            }
        }
        Applied { results }
    }

    async fn write_event(&self, event: &str, notice: &Notice) -> Result<(), kube::Error> {
        let about = &notice.about;
        // Events about cluster-wide objects have their place.
        let namespace =
            if about.name.namespace.is_empty() { "default" } else { about.name.namespace.as_str() };
        let now = Time(Timestamp::now());
        let object = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "namespace": namespace, "name": event },
            "involvedObject": {
                "apiVersion": about.kind.api_version(),
                "kind": about.kind.as_str(),
                "namespace": about.name.namespace,
                "name": about.name.name,
                "uid": about.uid,
            },
            "type": "Warning",
            "reason": notice.reason,
            "message": notice.message.chars().take(1000).collect::<String>(),
            "source": { "component": self.program },
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let kind = kube::core::GroupVersionKind::gvk("", "v1", "Event");
        let resource = kube::discovery::ApiResource::from_gvk_with_plural(&kind, "events");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        match api.create(&PostParams::default(), &object).await {
            // A process before this one has written it.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map(drop),
        }
    }
}

fn json_patch(ops: &[PatchOp]) -> Result<Patch<()>, kube::Error> {
    let ops = serde_json::to_value(ops).and_then(serde_json::from_value);
    ops.map(Patch::Json).map_err(kube::Error::SerdeError)
}

/// Why a request failed, and what that means for the next one.
fn explain(write: &Write, error: kube::Error) -> TargetError {
    let class = match &error {
        // 409: somebody was faster. 422: the same, if a patch tested the old value. 404: the object is gone.
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => Class::Conflict,
        kube::Error::Api(status) if status.code == 422 => match write.change {
            Change::Patch { .. } | Change::PatchStatus { .. } => Class::Conflict,
            _ => Class::Refused,
        },
        kube::Error::Api(status) if matches!(status.code, 400 | 403 | 405 | 413) => Class::Refused,
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => Class::Bug,
        _ => Class::Transient,
    };
    TargetError::new(class, format!("cannot {write}")).because(error)
}
