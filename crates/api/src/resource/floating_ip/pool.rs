//! The pools of floating IPs: the IPv4 subnets of external networks.

use serde_json::{Map, Value, json};

use crate::dialect::{Dialect, Neutron};
use crate::model::{Network, Subnet};
use crate::resource::network::Networks;
use crate::resource::{Attribute, Computed, Resource, Scene, Shape, attribute};
use crate::world::Link;

/// The noun `floatingip_pool`.
#[derive(Debug)]
pub struct FloatingIpPools;

static ATTRIBUTES: &[Attribute] = &[
    Attribute::new("subnet_id", Shape::Uuid, "The subnet."),
    Attribute::new("subnet_name", Shape::Text { max: 255 }, "Its name."),
    Attribute::new("cidr", Shape::Cidr, "Its prefix."),
    Attribute::new("network_id", Shape::Uuid, "Its network."),
    attribute::TENANT_ID,
    attribute::PROJECT_ID,
];

impl Computed for FloatingIpPools {
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "floatingip_pool";
    const COLLECTION: &'static str = "floatingip_pools";
    const PATH: &'static str = "floatingip_pools";
    const KEY: Option<&'static str> = None;
    const ABSENT: (&'static str, &'static str) = ("FloatingIPPoolNotFound", "Floating IP pool");

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn rows(scene: &Scene<'_>) -> Vec<Map<String, Value>> {
        let open =
            |network: &Network| network.external && Networks::visible(network, scene.world, scene.caller);
        let external = scene.world.table::<Network>().iter().filter(|network| open(network));
        let subnets =
            external.flat_map(|network| scene.world.linked::<Subnet>(Link::SubnetsOfNetwork(network.id)));
        let pools = subnets.filter(|subnet| subnet.ip_version() == 4).map(|subnet| {
            json!({
                "subnet_id": subnet.id,
                "subnet_name": subnet.name,
                "cidr": subnet.cidr,
                "network_id": subnet.network_id,
                "project_id": subnet.project,
                "tenant_id": subnet.project,
            })
        });
        pools.filter_map(|pool| pool.as_object().cloned()).collect()
    }
}
