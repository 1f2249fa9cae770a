//! The conditions of the Southbound's tables: the agent requests only rows that may affect this node's decisions.
//!
//! A large cloud has a hundred thousand port bindings, of which a node needs its own, the routers' and a few kinds more.
//! Clauses are alternatives, so what is held may be more than what is asked for; deciding does not rely on rows being absent.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use ovn::PortType;
use ovn::sb::{Chassis, DatapathBinding, PortBinding};
use ovsdb::{Condition, Function, Ref, Str, Table, Uuid, Weak};

/// The inputs of the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The node's name as a chassis.
    pub system_id: Str,
    /// Our row in `Chassis`, once known.
    pub me: Option<Uuid>,
    /// Switches of which every port matters.
    pub switches: BTreeSet<Uuid>,
    /// Whether load balancers matter.
    pub balancers: bool,
}

/// Kinds of ports that matter wherever they are: networks, routers, and addresses that move.
const KINDS: [PortType; 5] =
    [PortType::Localnet, PortType::Patch, PortType::L3Gateway, PortType::ChassisRedirect, PortType::Virtual];

impl Conditions {
    /// For `Chassis`.
    pub fn chassis(&self) -> Condition<Chassis> {
        Condition::column(Chassis::NAME, Function::Equal, &self.system_id)
    }

    /// For `Port_Binding`.
    pub fn ports(&self) -> Condition<PortBinding> {
        let on_chassis = |chassis: Option<Weak<Chassis>>| {
            Condition::column(PortBinding::CHASSIS, Function::Equal, &chassis)
        };
        // Ports of load balancers are bound nowhere.
        let mut all = on_chassis(None);
        for kind in KINDS {
            all = all.or(Condition::column(PortBinding::KIND, Function::Equal, &kind));
        }
        if let Some(me) = self.me {
            all = all.or(on_chassis(Some(Weak::new(me))));
        }
        for switch in &self.switches {
            let switch = Ref::<DatapathBinding>::new(*switch);
            all = all.or(Condition::column(PortBinding::DATAPATH, Function::Equal, &switch));
        }
        all
    }

    /// For `Load_Balancer` and `Logical_DP_Group`.
    pub fn balancers<T: Table>(&self) -> Condition<T> {
        if self.balancers { Condition::all() } else { Condition::none() }
    }
}

#[cfg(test)]
mod tests {
    use ovn::sb::LoadBalancer;
    use ovsdb::AnyCondition;

    use super::*;

    fn shown(condition: impl Into<AnyCondition>) -> Vec<String> {
        match condition.into() {
            AnyCondition::Any(clauses) => clauses.iter().map(ToString::to_string).collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn clauses_follow_what_is_known() {
        let mut conditions = Conditions { system_id: "ch-a".into(), ..Default::default() };
        assert_eq!(shown(conditions.chassis()).len(), 1);
        assert_eq!(shown(conditions.ports()).len(), 6);
        assert_eq!(conditions.balancers::<LoadBalancer>(), Condition::none());
        conditions.me = Some(Uuid::from_u128(1));
        conditions.switches = [Uuid::from_u128(2), Uuid::from_u128(3)].into();
        conditions.balancers = true;
        assert_eq!(shown(conditions.ports()).len(), 9);
        assert_eq!(conditions.balancers::<LoadBalancer>(), Condition::all());
    }
}
