//! Availability zones: the zones of the gateway chassis.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value};

use super::{Attribute, Computed, Scene, Shape};
use crate::dialect::{Dialect, Neutron};

/// The noun `availability_zone`.
#[derive(Debug)]
pub struct AvailabilityZones;

static ATTRIBUTES: &[Attribute] = &[
    Attribute::new("name", Shape::Text { max: 255 }, "The name of the zone."),
    Attribute::new("resource", Shape::OneOf(&["router"]), "What can be put into it."),
    Attribute::new("state", Shape::OneOf(&["available", "unavailable"]), "Whether a chassis in it is alive."),
];

impl Computed for AvailabilityZones {
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "availability_zone";
    const COLLECTION: &'static str = "availability_zones";
    const PATH: &'static str = "availability_zones";
    const KEY: Option<&'static str> = None;
    const ABSENT: (&'static str, &'static str) = ("AvailabilityZoneNotFound", "AvailabilityZone");

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn rows(scene: &Scene<'_>) -> Vec<Map<String, Value>> {
        let fleet = &scene.outside.fleet;
        let alive = |zone: &str| {
            fleet
                .chassis
                .iter()
                .any(|chassis| chassis.gateway && chassis.alive && chassis.zones.contains(zone))
        };
        let row = |zone: &str| {
            let state = if alive(zone) { "available" } else { "unavailable" };
            [("name", zone), ("resource", "router"), ("state", state)]
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect()
        };
        fleet.gateway_zones().into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Chassis;
    use crate::report::Report;
    use crate::resource::{Noun, computed};
    use crate::world::Outside;
    use crate::{Caller, World};

    #[test]
    fn zones_are_those_of_gateway_chassis() {
        let chassis = |name: &str, gateway, alive, zones: &[&str]| Chassis {
            name: name.into(),
            gateway,
            alive,
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            ..Chassis::default()
        };
        let mut outside = Outside::default();
        outside.fleet.chassis = vec![
            chassis("a", true, true, &["az1", "az2"]),
            chassis("b", true, false, &["az2", "az3"]),
            chassis("c", false, true, &["az4"]),
        ];
        let (world, report, caller) = (World::default(), Report::default(), Caller::member("p"));
        let scene = Scene {
            world: &world,
            report: &report,
            outside: &outside,
            caller: &caller,
            now: jiff::Timestamp::UNIX_EPOCH,
            parent: None,
        };
        let noun: &dyn Noun = computed::of::<AvailabilityZones>();
        let list = |query: &[(&str, &str)]| {
            let pairs = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let page = noun.list(&scene, &noun.query(pairs).unwrap()).unwrap();
            let text = |object: &serde_json::Value, name| object[name].as_str().unwrap().to_owned();
            let objects = page.items.iter().map(super::super::RenderedObject::into_value);
            objects.map(|it| (text(&it, "name"), text(&it, "state"))).collect::<Vec<_>>()
        };
        let all = [("az1", "available"), ("az2", "available"), ("az3", "unavailable")];
        assert_eq!(list(&[]), all.map(|(name, state)| (name.to_owned(), state.to_owned())));
        assert_eq!(list(&[("state", "unavailable")]).len(), 1);
        assert_eq!(list(&[("limit", "1"), ("marker", "az1")])[0].0, "az2");
    }
}
