//! Service providers: OVN provides all services.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value, json};

use super::{Attribute, Computed, Scene, Shape};
use crate::dialect::{Dialect, Neutron};

/// The noun `service_provider`.
#[derive(Debug)]
pub struct ServiceProviders;

static ATTRIBUTES: &[Attribute] = &[
    Attribute::new("service_type", Shape::Text { max: 255 }, "The service."),
    Attribute::new("name", Shape::Text { max: 255 }, "Who provides it."),
    Attribute::new("default", Shape::Bool, "Whether it is taken if nobody is named."),
];

impl Computed for ServiceProviders {
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "service_provider";
    const COLLECTION: &'static str = "service_providers";
    const PATH: &'static str = "service-providers";
    const KEY: Option<&'static str> = None;
    const ABSENT: (&'static str, &'static str) = ("ServiceProviderNotFound", "Service provider");

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn rows(_scene: &Scene<'_>) -> Vec<Map<String, Value>> {
        let router =
            [("service_type", json!("L3_ROUTER_NAT")), ("name", json!("ovn")), ("default", json!(true))];
        vec![router.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()]
    }
}
