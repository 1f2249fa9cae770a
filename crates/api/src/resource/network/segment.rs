//! The segment of a new network: the requested type and number, or the next free tunnel key or VLAN.

use crate::model::{NetworkType, Segment};
use crate::resource::Checked;
use crate::world::Link;
use crate::{Fault, Txn, World};

/// The largest VLAN tag.
const LAST_VLAN: u32 = 4094;

/// The requested segment, or the operator's default if none is requested; free and complete.
pub(super) fn choose(txn: &mut Txn, new: &Checked) -> Result<Segment, Fault> {
    let network_type = match new.text("provider:network_type") {
        None if new.get("provider:physical_network").is_some()
            || new.get("provider:segmentation_id").is_some() =>
        {
            return Err(invalid("network_type required"));
        }
        None => return unasked(txn),
        Some("geneve") => NetworkType::Geneve,
        Some("vlan") => NetworkType::Vlan,
        Some("flat") => NetworkType::Flat,
        Some(_) => NetworkType::Local,
    };
    let physical_network = new.text("provider:physical_network").map(str::to_owned);
    let asked: Option<u32> = new.integer("provider:segmentation_id");
    let word = network_type.as_str();
    let physical = match network_type {
        NetworkType::Vlan | NetworkType::Flat => match physical_network.as_deref() {
            Some(name) if !name.is_empty() => Some(name),
            _ => return Err(invalid(format!("physical_network required for {word} provider network"))),
        },
        NetworkType::Geneve | NetworkType::Local if physical_network.is_some() => {
            return Err(invalid(format!(
                "provider:physical_network specified for {word} network: such a network has none"
            )));
        }
        NetworkType::Geneve | NetworkType::Local => None,
    };
    let segmentation_id = match network_type {
        NetworkType::Flat | NetworkType::Local if asked.is_some() => {
            return Err(invalid(format!(
                "provider:segmentation_id specified for {word} network: such a network has none"
            )));
        }
        NetworkType::Local => None,
        NetworkType::Flat => {
            let name = physical.unwrap_or_default();
            if is_taken(txn, NetworkType::Flat, physical, None) {
                return Err(Fault::conflict(
                    "FlatNetworkInUse",
                    format!("Unable to create the flat network. Physical network {name} is in use."),
                ));
            }
            None
        }
        NetworkType::Vlan | NetworkType::Geneve => Some(match asked {
            Some(tag) => {
                check_free(txn, network_type, physical, tag)?;
                tag
            }
            None => next_free(txn, network_type, physical)?,
        }),
    };
    Ok(Segment { id: txn.new_id(), network_type, physical_network, segmentation_id })
}

/// The first of the operator's network types that has a free number.
fn unasked(txn: &mut Txn) -> Result<Segment, Fault> {
    let outside = txn.outside();
    for network_type in &outside.settings.tenant_network_types {
        let places: Vec<Option<&str>> = match network_type {
            NetworkType::Vlan => {
                outside.settings.network_vlan_ranges.keys().map(|name| Some(name.as_str())).collect()
            }
            _ => vec![None],
        };
        for physical in places {
            let segmentation_id = match network_type {
                NetworkType::Vlan | NetworkType::Geneve => match next_free(txn, *network_type, physical) {
                    Ok(tag) => Some(tag),
                    Err(_) => continue,
                },
                NetworkType::Flat | NetworkType::Local => None,
            };
            let physical_network = physical.map(str::to_owned);
            return Ok(Segment {
                id: txn.new_id(),
                network_type: *network_type,
                physical_network,
                segmentation_id,
            });
        }
    }
    Err(no_network())
}

/// Changes the VLAN tag or tunnel key of a network.
pub(super) fn renumber(world: &World, segment: &mut Segment, tag: u32) -> Result<(), Fault> {
    if segment.segmentation_id == Some(tag) {
        return Ok(());
    }
    match segment.network_type {
        NetworkType::Vlan | NetworkType::Geneve => {
            check_free(world, segment.network_type, segment.physical_network.as_deref(), tag)?;
            segment.segmentation_id = Some(tag);
            Ok(())
        }
        kind => Err(invalid(format!("a {} network has no segmentation_id", kind.as_str()))),
    }
}

fn check_free(world: &World, kind: NetworkType, physical: Option<&str>, tag: u32) -> Result<(), Fault> {
    if kind == NetworkType::Vlan && !(1..=LAST_VLAN).contains(&tag) {
        return Err(invalid(format!("segmentation_id out of range (1 through {LAST_VLAN})")));
    }
    if !is_taken(world, kind, physical, Some(tag)) {
        return Ok(());
    }
    Err(match kind {
        NetworkType::Vlan => Fault::conflict(
            "VlanIdInUse",
            format!(
                "Unable to create the network. The VLAN {tag} on physical network {} is in use.",
                physical.unwrap_or_default()
            ),
        ),
        _ => Fault::conflict(
            "TunnelIdInUse",
            format!("Unable to create the network. The tunnel ID {tag} is in use."),
        ),
    })
}

fn is_taken(world: &World, kind: NetworkType, physical: Option<&str>, tag: Option<u32>) -> bool {
    world.has_linked(Link::NetworkOfSegment(kind, physical.unwrap_or_default().into(), tag))
}

/// A free number from the operator's ranges. Random at first, so that a released number is not used again at once; if the ranges are nearly
/// full, the first free one.
fn next_free(txn: &mut Txn, kind: NetworkType, physical: Option<&str>) -> Result<u32, Fault> {
    let outside = txn.outside();
    let tunnel = [outside.settings.vni_range];
    let ranges: &[(u32, u32)] = match (kind, physical) {
        (NetworkType::Vlan, Some(name)) => {
            outside.settings.network_vlan_ranges.get(name).map_or(&[], Vec::as_slice)
        }
        _ => &tunnel,
    };
    for (first, last) in ranges.iter().filter(|(first, last)| first <= last) {
        for _ in 0..8 {
            let tag = txn.chance().u32(*first..=*last);
            if !is_taken(txn, kind, physical, Some(tag)) {
                return Ok(tag);
            }
        }
    }
    let mut all = ranges.iter().flat_map(|(first, last)| *first..=*last);
    all.find(|tag| !is_taken(txn, kind, physical, Some(*tag))).ok_or_else(no_network)
}

fn no_network() -> Fault {
    let text = "Unable to create the network. No number is free in the ranges of the operator; name a segmentation_id.";
    Fault::conflict("NoNetworkAvailable", text)
}

fn invalid(text: impl std::fmt::Display) -> Fault {
    Fault::new(400, "InvalidInput", format!("Invalid input for operation: {text}."))
}
