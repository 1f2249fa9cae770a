//! Agents: what each chassis reports of itself, as the API lists it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use ovn::sb::{Chassis, ChassisPrivate};
use ovn::text::neutron::key;
use ovsdb::{Snapshot, Str};

use crate::fleet::{self, Fleet};

/// What kind of agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentKind {
    /// ovn-controller.
    Controller,
    /// ovn-controller on a chassis that carries gateways.
    Gateway,
    /// The metadata agent beside it.
    Metadata,
    /// Neutron's agent for further tasks beside it.
    Neutron,
}

impl AgentKind {
    /// What `agent_type` shows.
    pub fn agent_type(self) -> &'static str {
        match self {
            AgentKind::Controller => "OVN Controller agent",
            AgentKind::Gateway => "OVN Controller Gateway agent",
            AgentKind::Metadata => "OVN Metadata agent",
            AgentKind::Neutron => "OVN Neutron agent",
        }
    }

    /// What `binary` shows.
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
    /// The chassis' name for controllers; what the others registered.
    pub id: String,
    /// What it is.
    pub kind: AgentKind,
    /// Its host; empty once the chassis row is gone.
    pub host: String,
    /// Its chassis.
    pub chassis: String,
    /// Zones of the chassis.
    pub zones: BTreeSet<String>,
    /// `ovn-bridge-mappings` of the chassis, as it says.
    pub bridge_mappings: String,
    /// The newest `nb_cfg` that it says to have carried out.
    pub nb_cfg: i64,
    /// When it last reported.
    pub heartbeat: Timestamp,
    /// Whether that is recent enough.
    pub alive: bool,
    /// What it says of itself.
    pub description: String,
}

/// When and by what standard agents are judged.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    /// The time.
    pub now: Timestamp,
    /// `NB_Global.nb_cfg`: what everybody should have carried out.
    pub nb_cfg: i64,
    /// Seconds of silence that are forgiven.
    pub agent_down_time: u32,
}

impl Judgement {
    /// Alive is who has carried out the newest or the one before, or said something lately.
    fn alive(&self, nb_cfg: i64, at: Timestamp) -> bool {
        let silence = self.now.as_millisecond().saturating_sub(at.as_millisecond());
        self.nb_cfg.saturating_sub(nb_cfg) <= 1 || silence < i64::from(self.agent_down_time) * 1000
    }
}

/// Every agent that the Southbound tells of, in order of id. `known` are those of the look before.
///
/// A controller writes down when it reports. Those beside it write only what they have carried out, so that when they did is
/// when that was seen to change. Of one that is seen for the first time nobody knows; it is believed to be as fresh as its
/// controller, and from then on it has to report itself.
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
            // A chassis that is gone is dead at once, however short ago it was heard.
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

/// The chassis as the scheduler and bindings see them.
pub fn fleet(sb: &Snapshot, agents: &[Agent]) -> Fleet {
    // A chassis that no agent speaks for has not been heard to be dead.
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
