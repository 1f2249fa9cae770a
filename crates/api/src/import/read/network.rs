//! Networks.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::{Common, Identity, Objects, or_default, says_something};
use crate::model::{Network, NetworkType, Segment};

#[derive(Debug, Deserialize)]
pub(super) struct Read {
    #[serde(flatten)]
    common: Common,
    admin_state_up: bool,
    #[serde(default, rename = "router:external", deserialize_with = "or_default")]
    external: bool,
    #[serde(default, rename = "provider:network_type")]
    network_type: Option<String>,
    #[serde(default, rename = "provider:physical_network")]
    physical_network: Option<String>,
    #[serde(default, rename = "provider:segmentation_id")]
    segmentation_id: Option<u32>,
    #[serde(default)]
    segments: Value,
    #[serde(default, deserialize_with = "or_default")]
    mtu: u32,
    #[serde(default)]
    port_security_enabled: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    availability_zone_hints: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    dns_domain: String,
    #[serde(default, deserialize_with = "or_default")]
    is_default: bool,
    #[serde(default)]
    qos_policy_id: Value,
}

pub(super) fn network(objects: &mut Objects, read: Read, now: Timestamp) -> Result<Network, String> {
    if says_something(&read.segments) {
        return Err("it has several segments".into());
    }
    let network_type = match read.network_type.as_deref() {
        Some("geneve") => NetworkType::Geneve,
        Some("vxlan") => {
            objects.note(
                "Networks of the type vxlan are shown as geneve from now on. The chassis choose the encapsulation, as before.",
            );
            NetworkType::Geneve
        }
        Some("vlan") => NetworkType::Vlan,
        Some("flat") => NetworkType::Flat,
        Some("local") => NetworkType::Local,
        Some(other) => return Err(format!("its type is {other}")),
        None => return Err("its type is not shown: the credentials are not an administrator's".into()),
    };
    if read.mtu == 0 {
        return Err("its mtu is not shown".into());
    }
    if says_something(&read.qos_policy_id) {
        objects.note("QoS policies are not imported. Their rows in the Northbound stay as they are.");
    }
    let Identity { id, project, name, standard } = read.common.told(now);
    Ok(Network {
        id,
        project,
        name,
        admin_state_up: read.admin_state_up,
        external: read.external,
        // The segment's id is filled in from the Northbound.
        segment: Segment {
            id: Uuid::nil(),
            network_type,
            physical_network: read.physical_network,
            segmentation_id: read.segmentation_id,
        },
        mtu: read.mtu,
        port_security_enabled: read.port_security_enabled.unwrap_or(true),
        availability_zone_hints: read.availability_zone_hints,
        dns_domain: read.dns_domain,
        is_default: read.is_default,
        standard,
    })
}
