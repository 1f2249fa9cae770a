//! Agents: the programs that report from the chassis, and the routers that each may host.
//!
//! Agents are read from the Southbound; the store holds only what an administrator set on one ([`AgentSetting`]). A deletion is such a
//! setting too: lists omit the agent, and the Southbound's writer removes the rows of [`removed`] chassis.

mod hosting;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Action, Attribute, Checked, Computed, Method, Scene, Shape, Verb};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::AgentSetting;
use crate::report::{Agent, AgentKind, Report};
use crate::world::{Txn, World};

pub use hosting::{of_router, rebalance};

/// The noun `agent`.
#[derive(Debug)]
pub struct Agents;

const TIME: Shape = Shape::Text { max: 255 };

static ATTRIBUTES: &[Attribute] = &[
    Attribute::new("id", Shape::Text { max: 255 }, "The name of its chassis, or what it registered."),
    Attribute::new("agent_type", Shape::Text { max: 255 }, "What it is."),
    Attribute::new("binary", Shape::Text { max: 255 }, "The program."),
    Attribute::new("host", Shape::Text { max: 255 }, "Where it runs."),
    Attribute::new("topic", Shape::Text { max: 255 }, "Always n/a."),
    Attribute::new("admin_state_up", Shape::Bool, "A note for people.").update(),
    Attribute::new("availability_zone", Shape::Text { max: 4096 }, "The zones of its chassis."),
    Attribute::new("configurations", Shape::Free, "What it says of itself."),
    Attribute::new("resources_synced", Shape::Nullable(&Shape::Bool), "Always null."),
    Attribute::new("created_at", TIME, "When it last reported; older times are not kept."),
    Attribute::new("started_at", TIME, "When it last reported; older times are not kept."),
    Attribute::new("heartbeat_timestamp", TIME, "When it last reported."),
    Attribute::new("alive", Shape::Bool, "Whether that is recent enough."),
    Attribute::new("description", Shape::Text { max: 255 }, "A note for people.").update(),
];

static ACTIONS: &[Action] = &[
    Action::get("l3-routers", "The routers that it may host.", hosting::routers).rule("get_l3-routers"),
    Action::put("l3-routers", "Pins a router to it.", hosting::pin)
        .with(Method::Post, 201)
        .rule("create_l3-router")
        .body(hosting::PIN),
    Action::put("l3-routers/*", "Sets the priority of a router's gateways on it.", hosting::prioritise)
        .rule("update_l3-router")
        .body(hosting::PRIORITY),
    Action::put("l3-routers/*", "Takes a router off it, as far as others can host it.", hosting::unpin)
        .with(Method::Delete, 204)
        .rule("delete_l3-router"),
];

impl Computed for Agents {
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "agent";
    const COLLECTION: &'static str = "agents";
    const PATH: &'static str = "agents";
    const KEY: Option<&'static str> = Some("id");
    const ABSENT: (&'static str, &'static str) = ("AgentNotFound", "Agent");
    const VERBS: &'static [Verb] = &[Verb::Update, Verb::Delete];

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn actions() -> &'static [Action] {
        ACTIONS
    }

    fn rows(scene: &Scene<'_>) -> Vec<Map<String, Value>> {
        if !scene.caller.admin {
            return Vec::new();
        }
        shown_agents(scene.world, scene.report).map(|(agent, setting)| row(agent, setting)).collect()
    }

    fn update(
        txn: &mut Txn,
        _caller: &Caller,
        row: &Map<String, Value>,
        change: &Checked,
    ) -> Result<(), Fault> {
        let mut setting = setting_of(txn, row);
        change.set_bool("admin_state_up", &mut setting.admin_state_up);
        change.set_text("description", &mut setting.description);
        txn.put(setting);
        Ok(())
    }

    fn delete(txn: &mut Txn, _caller: &Caller, row: &Map<String, Value>) -> Result<(), Fault> {
        let mut setting = setting_of(txn, row);
        if row.get("alive") == Some(&Value::Bool(true)) {
            let text = format!("Agent {} is alive: stop it before deleting it.", setting.agent);
            return Err(Fault::conflict("AgentInUse", text));
        }
        setting.removed_at = Some(txn.now());
        txn.put(setting);
        Ok(())
    }
}

/// The deleted agents whose rows should leave the Southbound, because they have not reported again.
pub fn removed<'r>(world: &World, report: &'r Report) -> Vec<&'r Agent> {
    if world.table::<AgentSetting>().is_empty() {
        return Vec::new();
    }
    let controller = |agent: &&Agent| matches!(agent.kind, AgentKind::Controller | AgentKind::Gateway);
    let gone = |agent: &&Agent| is_removed(agent, world.get::<AgentSetting>(&agent.id).map(|it| &**it));
    report.agents().iter().filter(controller).filter(gone).collect()
}

/// The agents that are not deleted, with their settings.
fn shown_agents<'a>(
    world: &'a World,
    report: &'a Report,
) -> impl Iterator<Item = (&'a Agent, Option<&'a AgentSetting>)> {
    report
        .agents()
        .iter()
        .map(|agent| (agent, world.get::<AgentSetting>(&agent.id).map(|setting| &**setting)))
        .filter(|(agent, setting)| !is_removed(agent, *setting))
}

/// Whether an agent is deleted. One that reports again after its deletion is not.
fn is_removed(agent: &Agent, setting: Option<&AgentSetting>) -> bool {
    let removed_at = setting.and_then(|setting| setting.removed_at);
    removed_at.is_some_and(|at| !agent.alive && agent.heartbeat <= at)
}

fn row(agent: &Agent, setting: Option<&AgentSetting>) -> Map<String, Value> {
    let zones: Vec<&str> = agent.zones.iter().map(String::as_str).collect();
    let heartbeat = time(agent.heartbeat);
    let description = match setting {
        Some(setting) => &setting.description,
        None => &agent.description,
    };
    let row = json!({
        "id": agent.id,
        "agent_type": agent.kind.agent_type(),
        "binary": agent.kind.binary(),
        "host": agent.host,
        "topic": "n/a",
        "admin_state_up": setting.is_none_or(|setting| setting.admin_state_up),
        "availability_zone": zones.join(", "),
        "configurations": {
            "chassis_name": agent.chassis,
            "bridge-mappings": agent.bridge_mappings,
        },
        "resources_synced": null,
        "created_at": heartbeat,
        "started_at": heartbeat,
        "heartbeat_timestamp": heartbeat,
        "alive": agent.alive,
        "description": description,
    });
    match row {
        Value::Object(row) => row,
        _ => Map::new(),
    }
}

/// A time in the format of the agents API.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The settings of an agent, ready for a change.
fn setting_of(world: &World, row: &Map<String, Value>) -> AgentSetting {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let agent = text("id");
    match world.get::<AgentSetting>(&agent) {
        Some(setting) => AgentSetting::clone(setting),
        None => {
            AgentSetting { agent, admin_state_up: true, description: text("description"), removed_at: None }
        }
    }
}

#[cfg(test)]
mod tests;
