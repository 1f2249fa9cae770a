//! Networks.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod segment;

use uuid::Uuid;

use super::{
    Attribute, Audience, Checked, Filters, Preset, Resource, Scene, Shape, View, absent, attribute,
    metadata_port, port, quota, rbac_policy, security_group,
};
use crate::dialect::{Dialect, Neutron};
use crate::fleet::Fleet;
use crate::model::{
    FloatingIp, Network, NetworkType, Port, RbacAction, RbacObject, Standard, Subnet, SubnetPool, owner,
};
use crate::policy::{self, Party, PolicyTarget, Rule, Term};
use crate::settings::Settings;
use crate::world::{Kind, Link};
use crate::{Caller, Fault, Txn, World};

/// The noun `network`.
#[derive(Debug)]
pub struct Networks;

const ZONE: Shape = Shape::Text { max: 255 };
const IDS: Shape = Shape::List { of: &Shape::Uuid, max: usize::MAX, unique: true };
const ZONES: Shape = Shape::List { of: &ZONE, max: 64, unique: true };
const DOMAIN: Shape = Shape::Word { format: "fqdn", parse: domain };
const TYPES: Shape = Shape::Nullable(&Shape::OneOf(&["geneve", "vlan", "flat", "local"]));
const PHYSICAL: Shape = Shape::Nullable(&Shape::Text { max: 64 });
/// Tunnel keys have 24 bits. VLAN tags are checked once the type is known.
const SEGMENT: Shape = Shape::Nullable(&Shape::Integer { min: 1, max: (1 << 24) - 1 });

static ATTRIBUTES: &[Attribute] = &[
    attribute::ID,
    attribute::TENANT_ID,
    attribute::PROJECT_ID,
    attribute::NAME,
    attribute::ADMIN_STATE_UP,
    Attribute::new("status", Shape::OneOf(&["ACTIVE"]), "Always ACTIVE."),
    Attribute::new("subnets", IDS, "The subnets of the network."),
    Attribute::new("shared", Shape::Bool, "Whether every project may use it.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Bool(false)),
    Attribute::new("router:external", Shape::Bool, "Whether routers may have gateways on it.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Bool(false)),
    Attribute::new("provider:network_type", TYPES, "How its frames go from chassis to chassis.")
        .create_by(policy::ADMIN)
        .shown(Audience::Admin),
    Attribute::new("provider:physical_network", PHYSICAL, "The physical network, of flat and VLAN ones.")
        .create_by(policy::ADMIN)
        .shown(Audience::Admin),
    Attribute::new("provider:segmentation_id", SEGMENT, "The VLAN tag or tunnel key.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .shown(Audience::Admin),
    Attribute::new("mtu", Shape::Integer { min: 0, max: 65_535 }, "Bytes; 0 asks for the largest that fits.")
        .create()
        .update()
        .preset(Preset::Integer(0)),
    Attribute::new("port_security_enabled", Shape::Bool, "What new ports start with.")
        .create_by(policy::MEMBER)
        .update_by(policy::MEMBER)
        .preset(Preset::Bool(true)),
    Attribute::new("availability_zone_hints", ZONES, "Where it should be.").create().preset(Preset::List),
    Attribute::new("availability_zones", ZONES, "Where it is: the hints."),
    Attribute::new("ipv4_address_scope", Shape::Nullable(&Shape::Uuid), "Address scope of its IPv4 subnets."),
    Attribute::new("ipv6_address_scope", Shape::Nullable(&Shape::Uuid), "Address scope of its IPv6 subnets."),
    Attribute::new("dns_domain", DOMAIN, "The domain of its ports, with a dot at the end.")
        .create()
        .update()
        .preset(Preset::Text("")),
    Attribute::new("is_default", Shape::Bool, "Whether it is the external network taken if none is named.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Bool(false)),
    attribute::DESCRIPTION,
    attribute::TAGS,
    attribute::REVISION_NUMBER,
    attribute::CREATED_AT,
    attribute::UPDATED_AT,
];

impl Resource for Networks {
    type Entity = Network;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "network";
    const COLLECTION: &'static str = "networks";
    const PATH: &'static str = "networks";
    const ABSENT: (&'static str, &'static str) = ("NetworkNotFound", "Network");
    const GET: Rule =
        Rule(&[Term::Admin, Term::Service, Term::Reader(Party::Owner), Term::Shared, Term::External]);

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(entity: &Network) -> &str {
        &entity.project
    }

    fn standard(entity: &Network) -> Option<&Standard> {
        Some(&entity.standard)
    }

    fn standard_mut(entity: &mut Network) -> Option<&mut Standard> {
        Some(&mut entity.standard)
    }

    fn target<'w>(entity: &'w Network, world: &'w World) -> PolicyTarget<'w> {
        PolicyTarget::on(&entity.project, world, entity)
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        let physical = filters.values("provider:physical_network")?;
        // An empty value selects networks without a physical network.
        let all = physical.iter().all(|name| !name.is_empty());
        all.then(|| physical.iter().map(|name| Link::NetworksOnPhysical(name.into())).collect())
    }

    fn view(entity: &Network, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(entity.id, &entity.project);
        view.text("name", entity.name.as_str());
        view.put("admin_state_up", entity.admin_state_up);
        view.text("status", "ACTIVE");
        let subnets = || scene.world.linked::<Subnet>(Link::SubnetsOfNetwork(entity.id));
        view.put_with("subnets", || subnets().map(|subnet| subnet.id).collect::<Vec<_>>());
        view.put_with("shared", || is_shared_with(scene.world, entity.id, scene.caller));
        view.put("router:external", entity.external);
        view.text("provider:network_type", entity.segment.network_type.as_str());
        view.optional("provider:physical_network", entity.segment.physical_network.as_ref());
        view.put("provider:segmentation_id", entity.segment.segmentation_id);
        view.put("mtu", entity.mtu);
        view.put("port_security_enabled", entity.port_security_enabled);
        view.texts("availability_zone_hints", &entity.availability_zone_hints);
        view.texts("availability_zones", &entity.availability_zone_hints);
        let scope = |version| {
            let pools =
                subnets().filter(|subnet| subnet.ip_version() == version).filter_map(|s| s.subnetpool_id);
            let mut scopes = pools.filter_map(|id| scene.world.get::<SubnetPool>(&id)?.address_scope_id);
            scopes.next()
        };
        view.put_with("ipv4_address_scope", || scope(4));
        view.put_with("ipv6_address_scope", || scope(6));
        view.text("dns_domain", entity.dns_domain.as_str());
        view.put("is_default", entity.is_default);
        view.standard(&entity.standard);
    }

    fn create(txn: &mut Txn, _caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let outside = txn.outside();
        let project = new.project().to_owned();
        quota::check(txn, Kind::Network, &project, 1)?;
        let hints: Vec<String> = new.read("availability_zone_hints").unwrap_or_default();
        check_zones(&outside.fleet, &hints)?;
        let segment = segment::choose(txn, new)?;
        let network = Network {
            id: txn.new_id(),
            project,
            name: new.text("name").unwrap_or_default().to_owned(),
            admin_state_up: new.bool("admin_state_up").unwrap_or(true),
            external: new.bool("router:external").unwrap_or(false),
            mtu: mtu(&outside.settings, segment.network_type, new.integer("mtu").unwrap_or(0))?,
            segment,
            port_security_enabled: new.bool("port_security_enabled").unwrap_or(true),
            availability_zone_hints: hints,
            dns_domain: new.text("dns_domain").unwrap_or_default().to_owned(),
            is_default: new.bool("is_default").unwrap_or(false),
            standard: new.standard(txn.now()),
        };
        check_default(txn, &network)?;
        let (id, external) = (network.id, network.external);
        txn.put(network);
        rbac_policy::set_external(txn, id, new.project(), external);
        set_shared(txn, id, new.bool("shared").unwrap_or(false))?;
        security_group::ensure_default(txn, new.project());
        metadata_port::keep(txn, id)?;
        Ok(id)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let outside = txn.outside();
        let mut network = found(txn, id)?.clone();
        change.set_text("name", &mut network.name);
        change.set_bool("admin_state_up", &mut network.admin_state_up);
        change.set_bool("port_security_enabled", &mut network.port_security_enabled);
        change.set_text("dns_domain", &mut network.dns_domain);
        change.set_bool("is_default", &mut network.is_default);
        if change.bool("router:external") == Some(false) && network.external {
            check_not_external(txn, id)?;
        }
        change.set_bool("router:external", &mut network.external);
        if let Some(tag) = change.integer("provider:segmentation_id") {
            segment::renumber(txn, &mut network.segment, tag)?;
        }
        if let Some(bytes) = change.integer("mtu") {
            network.mtu = mtu(&outside.settings, network.segment.network_type, bytes)?;
            let subnets = txn.linked::<Subnet>(Link::SubnetsOfNetwork(id));
            check_mtu(&network, subnets.map(|subnet| subnet.ip_version()))?;
        }
        check_default(txn, &network)?;
        let (project, external) = (network.project.clone(), network.external);
        let was_external = found(txn, id)?.external;
        txn.edit::<Network>(&id, |slot| *slot = network);
        if was_external != external {
            rbac_policy::set_external(txn, id, &project, external);
        }
        if let Some(shared) = change.bool("shared") {
            let was = rbac_policy::open_to_all(txn, id, RbacAction::AccessAsShared);
            set_shared(txn, id, shared)?;
            if was != shared {
                super::touch::<Networks>(txn, id);
            }
        }
        Ok(())
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        // The network's own ports are deleted with it, and so are floating IPs without an association.
        let unused: Vec<_> = txn
            .linked::<FloatingIp>(Link::FloatingIpsOfNetwork(id))
            .filter(|floating| floating.port_id.is_none())
            .map(|floating| (floating.id, floating.floating_port_id))
            .collect();
        let goes =
            |port: &Port| is_own(&port.device_owner) || unused.iter().any(|(_, holder)| *holder == port.id);
        let ports: Vec<_> =
            txn.linked::<Port>(Link::PortsOfNetwork(id)).map(|port| (port.id, goes(port))).collect();
        if ports.iter().any(|(_, own)| !own) {
            return Err(Fault::conflict(
                "NetworkInUse",
                format!(
                    "Unable to complete operation on network {id}. There are one or more ports still in use on the network."
                ),
            ));
        }
        let subnets: Vec<_> =
            txn.linked::<Subnet>(Link::SubnetsOfNetwork(id)).map(|subnet| subnet.id).collect();
        for (floating, _) in unused {
            txn.remove::<FloatingIp>(&floating);
        }
        for (port, _) in ports {
            port::remove(txn, port);
        }
        for subnet in subnets {
            txn.remove::<Subnet>(&subnet);
        }
        rbac_policy::forget(txn, id);
        txn.remove::<Network>(&id);
        Ok(())
    }
}

/// The network with this id.
pub fn found(world: &World, id: Uuid) -> Result<&Network, Fault> {
    world.get::<Network>(&id).map(|network| &**network).ok_or_else(|| absent::<Networks>(id))
}

/// The network with this id, if the caller may see it.
pub fn visible<'w>(world: &'w World, caller: &Caller, id: Uuid) -> Result<&'w Network, Fault> {
    found(world, id)
        .ok()
        .filter(|network| Networks::visible(network, world, caller))
        .ok_or_else(|| absent::<Networks>(id))
}

/// Whether a network is shared with the caller's project.
pub fn is_shared_with(world: &World, id: Uuid, caller: &Caller) -> bool {
    rbac_policy::permits(world, id, RbacAction::AccessAsShared, &caller.project)
}

/// Creates or removes the RBAC policy behind the `shared` flag. Removing it fails while another project uses the network.
fn set_shared(txn: &mut Txn, id: Uuid, shared: bool) -> Result<(), Fault> {
    let (project, name) = {
        let network = found(txn, id)?;
        (network.project.clone(), network.name.clone())
    };
    rbac_policy::set_open_to_all(txn, RbacObject::Network, id, RbacAction::AccessAsShared, &project, shared);
    if rbac_policy::foreign_users(txn, RbacObject::Network, id, &project).next().is_some() {
        let text = format!(
            "Unable to reconfigure sharing settings for network {name}. Multiple tenants are using it."
        );
        return Err(Fault::conflict("InvalidSharedSetting", text));
    }
    Ok(())
}

/// Checks that no gateway and no floating IP needs the network to be external.
pub(super) fn check_not_external(world: &World, id: Uuid) -> Result<(), Fault> {
    let used = |port: &Port| matches!(port.device_owner.as_str(), owner::ROUTER_GATEWAY | owner::FLOATING_IP);
    if world.linked::<Port>(Link::PortsOfNetwork(id)).any(|port| used(port)) {
        return Err(Fault::conflict(
            "ExternalNetworkInUse",
            format!(
                "External network {id} cannot be updated to be made non-external, since it has existing gateway ports."
            ),
        ));
    }
    Ok(())
}

/// Checks that there is at most one default external network.
fn check_default(world: &World, network: &Network) -> Result<(), Fault> {
    if !network.is_default {
        return Ok(());
    }
    if !network.external {
        return Err(Fault::invalid("is_default", "only an external network can be the default one"));
    }
    match world.table::<Network>().iter().find(|it| it.is_default && it.id != network.id) {
        Some(other) => Err(Fault::conflict(
            "DefaultExternalNetworkExists",
            format!("A default external network already exists: {}.", other.id),
        )),
        None => Ok(()),
    }
}

/// Whether a port exists only because its network does.
fn is_own(device_owner: &str) -> bool {
    matches!(device_owner, owner::DISTRIBUTED | owner::DHCP)
}

/// Checks that every zone is one of a gateway chassis.
pub fn check_zones(fleet: &Fleet, zones: &[String]) -> Result<(), Fault> {
    let known = fleet.gateway_zones();
    match zones.iter().find(|zone| !known.contains(zone.as_str())) {
        Some(zone) => Err(Fault::absent("AvailabilityZoneNotFound", "AvailabilityZone", zone)),
        None => Ok(()),
    }
}

/// The MTU of a network of a type; zero requests the maximum.
fn mtu(settings: &Settings, kind: NetworkType, asked: u32) -> Result<u32, Fault> {
    let most = match kind {
        NetworkType::Geneve => settings.global_physnet_mtu.saturating_sub(settings.geneve_overhead()),
        NetworkType::Vlan | NetworkType::Flat | NetworkType::Local => settings.global_physnet_mtu,
    };
    match asked {
        0 => Ok(most),
        _ if asked > most => {
            let text = format!("Invalid input for operation: Requested MTU is too big, maximum is {most}.");
            Err(Fault::new(400, "InvalidInput", text))
        }
        _ => Ok(asked),
    }
}

/// Checks that the MTU of a network suffices for the families of its subnets (RFC 791, RFC 8200). A network without subnets may have any.
pub(super) fn check_mtu(network: &Network, families: impl IntoIterator<Item = u8>) -> Result<(), Fault> {
    let least = |family| if family == 4 { 68 } else { 1280 };
    match families.into_iter().map(least).find(|least| network.mtu < *least) {
        Some(least) => Err(Fault::conflict(
            "NetworkMTUSubnetConflict",
            format!("The MTU of network {} is less than {least}, the minimum of its subnets.", network.id),
        )),
        None => Ok(()),
    }
}

/// Parses a domain name, which ends with a dot, or an empty string.
pub(super) fn domain(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let Some(labels) = text.strip_suffix('.') else {
        return Err(format!("'{text}' does not end with a dot"));
    };
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if text.len() > 255 || !labels.split('.').all(label) {
        return Err(format!("'{text}' is not a valid domain name"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
