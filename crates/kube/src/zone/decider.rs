//! The deciders of a zone: the chassis in the Southbound, and the networks in the Northbound. Pure.
//!
//! The Northbound follows the Southbound: a port that stands for a remote node waits for the chassis of that node.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovn::target::{Desired, Part};
use ovsdb::Str;
use reconcile::{Desire, ObjectId, Outcome, Problem};

use super::desired::{ChassisSeen, compile, compile_chassis};
use super::doubt::Doubt;
use super::gather::ZoneContents;
use super::{ZoneNetwork, ZoneSnapshot};

/// The inputs of both deciders at one instant.
#[derive(Clone, Debug)]
pub struct ZoneInputs {
    /// The nodes, the networks and the pods.
    pub gathered: Arc<ZoneContents>,
    /// The chassis in the Southbound.
    pub chassis: ChassisSeen,
    /// The reason to delete nothing, if there is one.
    pub doubt: Option<Doubt>,
}

/// The rows that a zone wants in one database.
#[derive(Clone, Debug, Default)]
pub struct ZoneRows {
    /// The rows.
    pub rows: Desired,
    /// The reason to delete nothing, if there is one.
    pub doubt: Option<Doubt>,
}

/// The sum of parts. Parts that do not change cost nothing.
#[derive(Debug, Default)]
struct PartSum {
    parts: BTreeMap<String, Part>,
    sum: Desired,
}

impl PartSum {
    /// Replaces one part.
    fn set(&mut self, name: &str, mut part: Part) {
        match self.parts.get(name) {
            Some(before) => {
                part.reuse(before);
                self.sum.exchange(before, &part);
            }
            None => self.sum.add(&part),
        }
        self.parts.insert(name.to_owned(), part);
    }

    /// Removes the parts that are not in `names`.
    fn retain(&mut self, names: &BTreeSet<&str>) {
        let sum = &mut self.sum;
        self.parts.retain(|name, part| {
            let stays = names.contains(name.as_str());
            if !stays {
                sum.remove(part);
            }
            stays
        });
    }
}

/// Decides the chassis of remote nodes.
#[derive(Debug)]
pub struct ChassisDecider {
    owner: Str,
    sum: PartSum,
}

impl ChassisDecider {
    /// A decider that marks its rows with a name.
    pub fn new(owner: Str) -> ChassisDecider {
        ChassisDecider { owner, sum: PartSum::default() }
    }
}

impl Desire for ChassisDecider {
    type Snapshot = ZoneInputs;
    type Desired = ZoneRows;

    fn desire(&mut self, inputs: &ZoneInputs) -> Outcome<ZoneRows> {
        let zone = &inputs.gathered.zone;
        let mut out = compile_chassis(zone, &inputs.chassis, &self.owner);
        let parts = std::mem::take(&mut out.value);
        self.sum.retain(&parts.keys().map(|name| name.as_str()).collect());
        parts.into_iter().for_each(|(name, part)| self.sum.set(&name, part));
        if !zone.nodes.contains_key(&zone.local) {
            // Nobody knows which chassis is the own one.
            out.keep.extend(inputs.chassis.own.values().map(|name| ObjectId::new("chassis", name.as_str())));
        }
        out.map(|_| ZoneRows { rows: self.sum.sum.clone(), doubt: inputs.doubt.clone() })
    }

    fn forget(&mut self) {
        self.sum = PartSum::default();
    }
}

/// The result of compiling one network, and what it follows from.
#[derive(Debug)]
struct CompiledNetwork {
    network: ZoneNetwork,
    problems: Vec<Problem>,
    keep: BTreeSet<ObjectId>,
}

/// Decides the rows of all networks.
#[derive(Debug)]
pub struct NetworkDecider {
    owner: Str,
    zone: Option<ZoneSnapshot>,
    compiled: BTreeMap<String, CompiledNetwork>,
    sum: PartSum,
}

impl NetworkDecider {
    /// A decider that marks its rows with a name.
    pub fn new(owner: Str) -> NetworkDecider {
        NetworkDecider { owner, zone: None, compiled: BTreeMap::new(), sum: PartSum::default() }
    }
}

impl Desire for NetworkDecider {
    type Snapshot = ZoneInputs;
    type Desired = ZoneRows;

    fn desire(&mut self, inputs: &ZoneInputs) -> Outcome<ZoneRows> {
        let ZoneContents { zone, networks, problems, keep, .. } = &*inputs.gathered;
        if self.zone.as_ref() != Some(zone) {
            self.compiled.clear();
            self.zone = Some(zone.clone());
        }
        let names: BTreeSet<&str> = networks.iter().map(|it| it.network.name.as_str()).collect();
        self.sum.retain(&names);
        self.compiled.retain(|name, _| names.contains(name.as_str()));
        let mut out = Outcome { value: (), problems: problems.clone(), keep: keep.clone() };
        for network in networks {
            let name = network.network.name.as_str();
            if self.compiled.get(name).is_none_or(|before| before.network != *network) {
                let Outcome { value, problems, keep } = compile(zone, network, &self.owner);
                self.sum.set(name, value);
                let compiled = CompiledNetwork { network: network.clone(), problems, keep };
                self.compiled.insert(name.to_owned(), compiled);
            }
            let compiled = self.compiled.get(name).into_iter();
            for CompiledNetwork { problems, keep, .. } in compiled {
                out.problems.extend(problems.iter().cloned());
                out.keep.extend(keep.iter().cloned());
            }
        }
        out.map(|()| ZoneRows { rows: self.sum.sum.clone(), doubt: inputs.doubt.clone() })
    }

    fn forget(&mut self) {
        *self = NetworkDecider::new(self.owner.clone());
    }
}
