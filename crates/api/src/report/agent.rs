//! Agents: the self-reports of each chassis, as the API lists them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use ovn::sb::{Chassis, ChassisPrivate};
use ovn::text::neutron::key;
use ovsdb::{Snapshot, Str};

use crate::fleet::{self, Fleet};

/// A kind of agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentKind {
    /// ovn-controller.
    Controller,
    /// ovn-controller on a gateway-capable chassis.
    Gateway,
    /// The metadata agent on the chassis.
    Metadata,
    /// Neutron's OVN agent on the chassis.
    Neutron,
}

impl AgentKind {
    /// The value of `agent_type`.
    pub fn agent_type(self) -> &'static str {
        match self {
            AgentKind::Controller => "OVN Controller agent",
            AgentKind::Gateway => "OVN Controller Gateway agent",
            AgentKind::Metadata => "OVN Metadata agent",
            AgentKind::Neutron => "OVN Neutron agent",
        }
    }

    /// The value of `binary`.
    pub fn binary(self) -> &'static str {
        match self {
            AgentKind::Controller | AgentKind::Gateway => "ovn-controller",
            AgentKind::Metadata => "neutron-ovn-metadata-agent",
            AgentKind::Neutron => "neutron-ovn-agent",
        }
    }
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The chassis name for controllers; the registered id for the others.
    pub id: String,
    /// The kind.
    pub kind: AgentKind,
    /// Its host; empty once the chassis row is gone.
    pub host: String,
    /// Its chassis.
    pub chassis: String,
    /// The availability zones of the chassis.
    pub zones: BTreeSet<String>,
    /// The `ovn-bridge-mappings` of the chassis.
    pub bridge_mappings: String,
    /// The newest `nb_cfg` that the agent has applied, as it reports.
    pub nb_cfg: i64,
    /// The time of its last report.
    pub heartbeat: Timestamp,
    /// Whether the agent counts as alive.
    pub alive: bool,
    /// Its description of itself.
    pub description: String,
}

/// The criteria for an agent's liveness.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    /// The present time.
    pub now: Timestamp,
    /// `NB_Global.nb_cfg`, which all agents should have applied.
    pub nb_cfg: i64,
    /// The seconds without a report after which an agent counts as dead.
    pub agent_down_time: u32,
}

impl Judgement {
    /// Whether an agent has applied the newest `nb_cfg` or the one before, or has reported recently.
    fn alive(&self, nb_cfg: i64, at: Timestamp) -> bool {
        let silence = self.now.as_millisecond().saturating_sub(at.as_millisecond());
        self.nb_cfg.saturating_sub(nb_cfg) <= 1 || silence < i64::from(self.agent_down_time) * 1000
    }
}

/// All agents in the Southbound, sorted by id. `known` are the agents of the previous call.
///
/// A controller records the time of its report. The agents beside it record only the `nb_cfg` that they have applied, so their report's
/// time is the time at which this server saw that value change. For an agent that is seen for the first time, the time is unknown. It gets
/// its controller's, and has to report by itself from then on.
pub fn agents(sb: &Snapshot, judge: Judgement, known: &[Agent]) -> Vec<Agent> {
    let mut all = Vec::new();
    for (_, private) in sb.table::<ChassisPrivate>().iter() {
        let chassis = private.chassis.and_then(|chassis| sb.get::<Chassis>(chassis.uuid()));
        let heartbeat = Timestamp::from_millisecond(private.nb_cfg_timestamp).unwrap_or_default();
        let gateway = chassis.is_some_and(|chassis| chassis.cms_options().is_gateway());
        let said = |key: &str| private.external_ids.get(key).map_or("", Str::as_str);
        let controller = Agent {
            id: private.name.to_string(),
            kind: if gateway { AgentKind::Gateway } else { AgentKind::Controller },
            host: chassis.map(|chassis| chassis.hostname.to_string()).unwrap_or_default(),
            chassis: private.name.to_string(),
            zones: chassis.map(zones).unwrap_or_default(),
            bridge_mappings: chassis
                .and_then(|chassis| chassis.setting("ovn-bridge-mappings"))
                .unwrap_or("")
                .to_owned(),
            nb_cfg: private.nb_cfg,
            heartbeat,
            // A chassis without a row is dead at once, however recent its last report is.
            alive: chassis.is_some() && judge.alive(private.nb_cfg, heartbeat),
            description: said("neutron:description").to_owned(),
        };
        let beside = [
            (
                AgentKind::Metadata,
                key::METADATA_AGENT_ID,
                key::METADATA_AGENT_SB_CFG,
                key::METADATA_AGENT_DESCRIPTION,
            ),
            (
                AgentKind::Neutron,
                "neutron:ovn-neutron-agent-id",
                "neutron:ovn-neutron-agent-sb-cfg",
                "neutron:description-neutron-agent",
            ),
        ];
        for (kind, id, sb_cfg, description) in beside {
            if said(id).is_empty() {
                continue;
            }
            let nb_cfg = said(sb_cfg).parse().unwrap_or(i64::MIN);
            let before = known.binary_search_by(|agent| agent.id.as_str().cmp(said(id)));
            let heartbeat = match before.ok().map(|at| &known[at]) {
                Some(before) if before.nb_cfg == nb_cfg => before.heartbeat,
                Some(_) => judge.now,
                None => heartbeat.min(judge.now),
            };
            all.push(Agent {
                id: said(id).to_owned(),
                kind,
                nb_cfg,
                heartbeat,
                alive: chassis.is_some() && judge.alive(nb_cfg, heartbeat),
                description: said(description).to_owned(),
                ..controller.clone()
            });
        }
        all.push(controller);
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

/// The chassis, for the scheduler and bindings.
pub fn fleet(sb: &Snapshot, agents: &[Agent]) -> Fleet {
    // A chassis without an agent has not been reported dead.
    let dead: BTreeSet<&str> = agents
        .iter()
        .filter(|agent| !agent.alive && matches!(agent.kind, AgentKind::Controller | AgentKind::Gateway))
        .map(|agent| agent.chassis.as_str())
        .collect();
    let chassis = sb.table::<Chassis>().iter().filter(|(_, chassis)| !chassis.is_remote());
    let mut chassis: Vec<fleet::Chassis> = chassis
        .map(|(_, chassis)| fleet::Chassis {
            name: chassis.name.to_string(),
            hostname: chassis.hostname.to_string(),
            gateway: chassis.cms_options().is_gateway(),
            external_ports: chassis.cms_options().hosts_external_ports(),
            physical_networks: chassis
                .bridge_mappings()
                .entries
                .iter()
                .map(|entry| entry.physnet.to_string())
                .collect(),
            datapath_type: chassis.setting("datapath-type").unwrap_or_default().to_owned(),
            interface_types: chassis
                .setting("iface-types")
                .unwrap_or_default()
                .split(',')
                .filter(|kind| !kind.is_empty())
                .map(str::to_owned)
                .collect(),
            zones: zones(chassis),
            alive: !dead.contains(chassis.name.as_str()),
        })
        .collect();
    chassis.sort_by(|a, b| a.name.cmp(&b.name));
    Fleet { chassis }
}

fn zones(chassis: &Chassis) -> BTreeSet<String> {
    chassis.cms_options().availability_zones().map(str::to_owned).collect()
}
