//! Port bindings: the host of a port, the details for plugging it there, and the hosts that the port may move to.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::text::chassis::ChassisName;
use serde_json::{Map, Value, json};

use super::engine::unwrap;
use super::{Action, ActionCall, Checked, Field, Method, Reply, Resource, Scene, Shape, network, port};
use crate::fault::Fault;
use crate::fleet::{Chassis, Fleet};
use crate::model::{Binding, InactiveBinding, Network, Port, VifType};
use crate::policy;
use crate::report::Report;
use crate::world::Txn;

/// The known kinds of interface.
pub const VNIC_TYPES: &[&str] = &[
    "normal",
    "direct",
    "macvtap",
    "baremetal",
    "direct-physical",
    "virtio-forwarder",
    "smart-nic",
    "vdpa",
    "accelerator-direct",
    "accelerator-direct-physical",
    "remote-managed",
];

/// A host name, or an empty string.
pub const HOST: Shape = Shape::Word { format: "hostname", parse: parse_host };

/// Parses a host name. A comma is refused: in a list of chassis it would begin another name.
fn parse_host(text: &str) -> Result<String, String> {
    if text.chars().count() > 255 {
        return Err(format!("'{text}' exceeds maximum length of 255"));
    }
    if !text.is_empty() {
        ChassisName::new(text).map_err(|error| error.to_string())?;
    }
    Ok(text.to_owned())
}

/// The maximum length of a profile, as JSON.
const LONGEST_PROFILE: usize = 4095;

/// The actions on the bindings of a port.
pub const ACTIONS: &[Action] = &[
    Action::get("bindings", "The hosts that the port is bound to or may move to.", list)
        .by(policy::ADMIN_OR_SERVICE)
        .rule("get_port_binding"),
    Action::get("bindings/*", "One host that the port is bound to or may move to.", show)
        .by(policy::ADMIN_OR_SERVICE)
        .rule("get_port_binding"),
    Action::put("bindings", "Prepares the port to move to a host.", prepare)
        .by(policy::SERVICE)
        .rule("create_port_binding")
        .with(Method::Post, 201)
        .body(Shape::Object(&[Field::required("binding", Shape::Object(BINDING))])),
    Action::put("bindings/*/activate", "Moves the port to a host that is prepared.", activate)
        .by(policy::SERVICE)
        .rule("activate"),
    Action::put("bindings/*", "Ends the preparation of a host.", forget)
        .by(policy::SERVICE)
        .rule("delete_port_binding")
        .with(Method::Delete, 204),
];

/// Applies the binding attributes of a request. Chooses the VIF type again if the request names the host or changes the VNIC type.
pub fn set(binding: &mut Binding, request: &Checked, fleet: &Fleet, network: &Network) -> Result<(), Fault> {
    let before = (binding.host_id.clone(), binding.vnic_type.clone());
    if request.has("binding:host_id") {
        request.text("binding:host_id").unwrap_or_default().clone_into(&mut binding.host_id);
    }
    request.set_text("binding:vnic_type", &mut binding.vnic_type);
    if request.has("binding:profile") {
        binding.profile = checked_profile(request.get("binding:profile"))?;
    }
    // A caller names the same host again to retry the binding.
    if request.named("binding:host_id") || before != (binding.host_id.clone(), binding.vnic_type.clone()) {
        binding.vif_type = choose(fleet, network, &binding.host_id, &binding.vnic_type, &binding.profile);
    }
    Ok(())
}

/// Whether an instance has plugged the port.
pub fn is_plugged(binding: &Binding) -> bool {
    !matches!(
        binding.vif_type,
        VifType::Unbound | VifType::BindingFailed | VifType::Other | VifType::HostdevPhysical
    )
}

/// The host of a port. For a gateway it is the chassis that OVN chose for this very port.
pub fn host<'a>(port: &'a Port, report: &'a Report) -> &'a str {
    if port.is_gateway() { report.gateway_host(port.id).unwrap_or_default() } else { &port.binding.host_id }
}

/// The VIF type of a port: how the host plugs it.
pub fn vif_type(port: &Port, report: &Report) -> VifType {
    match (port.is_gateway(), report.gateway_host(port.id)) {
        (true, Some(_)) => VifType::Ovs,
        (true, None) => VifType::Unbound,
        (false, _) => port.binding.vif_type,
    }
}

/// The details that the host needs to plug a port.
pub fn vif_details(port: &Port, scene: &Scene<'_>) -> Value {
    details(port, vif_type(port, scene.report), scene)
}

fn details(port: &Port, vif_type: VifType, scene: &Scene<'_>) -> Value {
    let bound = json!({"0": "ovn"});
    let socket = |mode: &str| {
        let id = port.id.to_string();
        json!({
            "port_filter": true,
            "connectivity": "l2",
            "bridge_name": "br-int",
            "datapath_type": "netdev",
            "vhostuser_mode": mode,
            "vhostuser_ovs_plug": true,
            "vhostuser_socket": format!("{}/vhu{}", scene.outside.settings.vhost_sock_dir, &id[..11]),
            "bound_drivers": bound,
        })
    };
    match vif_type {
        VifType::Unbound | VifType::BindingFailed => json!({}),
        VifType::Ovs => json!({
            "port_filter": true,
            "connectivity": "l2",
            "bridge_name": "br-int",
            "datapath_type": "system",
            "ovs_create_tap": true,
            "bound_drivers": bound,
        }),
        VifType::VhostUser => socket("client"),
        VifType::VhostUserClient => socket("server"),
        VifType::HwVeb | VifType::HostdevPhysical => {
            let tag =
                network::found(scene.world, port.network_id).ok().and_then(|it| it.segment.segmentation_id);
            let tag = tag.map(|tag| tag.to_string());
            json!({"port_filter": false, "connectivity": "l2", "vlan": tag, "bound_drivers": bound})
        }
        VifType::Other => json!({"port_filter": false, "connectivity": "l2", "bound_drivers": bound}),
    }
}

fn choose(
    fleet: &Fleet,
    network: &Network,
    host: &str,
    vnic_type: &str,
    profile: &Map<String, Value>,
) -> VifType {
    if host.is_empty() {
        return VifType::Unbound;
    }
    if vnic_type == "baremetal" {
        // The machine is not a chassis.
        return VifType::Other;
    }
    let reaches = |chassis: &&Chassis| match &network.segment.physical_network {
        Some(physical) => chassis.physical_networks.contains(physical),
        None => true,
    };
    let mut there = fleet.chassis.iter().filter(|chassis| chassis.hostname == host && chassis.alive);
    let Some(chassis) = there.find(reaches) else { return VifType::BindingFailed };
    let capabilities = profile.get("capabilities").and_then(Value::as_array);
    let offloaded = capabilities.is_some_and(|all| all.iter().any(|it| it == "switchdev"));
    match vnic_type {
        "direct" | "macvtap" | "accelerator-direct" if !offloaded => VifType::HwVeb,
        "direct-physical" | "accelerator-direct-physical" => VifType::HostdevPhysical,
        "normal" if chassis.datapath_type == "netdev" => {
            let can = |kind: &str| chassis.interface_types.contains(kind);
            if can("dpdkvhostuserclient") {
                VifType::VhostUserClient
            } else if can("dpdkvhostuser") {
                VifType::VhostUser
            } else {
                VifType::Ovs
            }
        }
        _ => VifType::Ovs,
    }
}

fn checked_profile(value: Option<&Value>) -> Result<Map<String, Value>, Fault> {
    let profile = value.and_then(Value::as_object).cloned().unwrap_or_default();
    if value.is_some_and(|value| value.to_string().len() > LONGEST_PROFILE) {
        return Err(Fault::input(format!(
            "binding:profile value too large: {LONGEST_PROFILE} bytes are the most"
        )));
    }
    Ok(profile)
}

fn list(scene: &Scene<'_>, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let port = port::found(scene.world, call.id)?;
    Ok(Reply::Value(json!({"bindings": all(port, scene)})))
}

fn show(scene: &Scene<'_>, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let port = port::found(scene.world, call.id)?;
    let host = call.args.first().copied().unwrap_or_default();
    let found = all(port, scene).into_iter().find(|binding| binding["host"] == host);
    Ok(Reply::Value(json!({"binding": found.ok_or_else(|| absent(port, host))?})))
}

/// The active binding, then the prepared ones.
fn all(port: &Port, scene: &Scene<'_>) -> Vec<Value> {
    let mut found = Vec::new();
    if !port.binding.host_id.is_empty() {
        let own = &port.binding;
        let details = details(port, own.vif_type, scene);
        found.push(shown(port, &own.host_id, &own.vnic_type, &own.profile, own.vif_type, details, "ACTIVE"));
    }
    for it in &port.binding.inactive {
        let details = details(port, it.vif_type, scene);
        found.push(shown(port, &it.host_id, &it.vnic_type, &it.profile, it.vif_type, details, "INACTIVE"));
    }
    found
}

fn shown(
    port: &Port,
    host: &str,
    vnic_type: &str,
    profile: &Map<String, Value>,
    vif_type: VifType,
    vif_details: Value,
    status: &str,
) -> Value {
    json!({
        "host": host,
        "vnic_type": vnic_type,
        "profile": profile,
        "vif_type": vif_type.as_str(),
        "vif_details": vif_details,
        "status": status,
        "project_id": port.project,
    })
}

/// The body of a request to prepare a host.
const BINDING: &[Field] = &[
    Field::required("host", HOST),
    Field::new("vnic_type", Shape::Nullable(&Shape::OneOf(VNIC_TYPES))),
    Field::new("profile", Shape::Nullable(&Shape::Free)),
    Field::new("project_id", Shape::Nullable(&Shape::Text { max: 255 })),
];

fn checked_body(body: &Value) -> Result<Map<String, Value>, Fault> {
    let mut checked = Map::new();
    for (key, value) in unwrap("binding", body).map_err(port::Ports::refuse)? {
        let field = BINDING.iter().find(|field| field.name == key);
        let field = field.ok_or_else(|| Fault::bad(format!("Unrecognized attribute(s) '{key}'")))?;
        checked.insert(
            key.clone(),
            field.shape.check(value).map_err(|reason| Fault::invalid(field.name, reason))?,
        );
    }
    Ok(checked)
}

fn prepare(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let port = port::found(txn, call.id)?.clone();
    // Only what can migrate gets a second binding: instances, and servers of shared file systems.
    if !["compute:", "manila:"].iter().any(|prefix| port.device_owner.starts_with(prefix)) {
        let message =
            format!("Invalid port {}. Operation only valid on compute and shared filesystem ports", port.id);
        return Err(Fault::senseless("port", message));
    }
    let body = checked_body(call.body)?;
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let host = text("host")
        .filter(|host| !host.is_empty())
        .ok_or_else(|| Fault::bad("Failed to parse request. Required attribute 'host' not specified"))?;
    let vnic_type = text("vnic_type").unwrap_or("normal");
    let profile = checked_profile(body.get("profile"))?;
    let known = port.binding.inactive.iter().any(|it| it.host_id == host);
    if known || port.binding.host_id == host {
        let message = format!("Binding for port {} on host {host} already exists.", port.id);
        return Err(Fault::conflict("PortBindingAlreadyExists", message));
    }
    let outside = txn.outside();
    let network = network::found(txn, port.network_id)?;
    let vif_type = choose(&outside.fleet, network, host, vnic_type, &profile);
    if vif_type == VifType::BindingFailed {
        let message = format!(
            "Binding for port {} on host {host} could not be created: no such chassis can carry it.",
            port.id
        );
        return Err(Fault::new(400, "PortBindingError", message));
    }
    let new = InactiveBinding { host_id: host.into(), vnic_type: vnic_type.into(), profile, vif_type };
    txn.edit::<Port>(&port.id, |port| port.binding.inactive.push(new));
    answer(txn, call, host)
}

fn activate(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let port = port::found(txn, call.id)?.clone();
    let host = call.args.first().copied().unwrap_or_default();
    if port.binding.host_id == host {
        let message = format!("Binding for port {} on host {host} is already active.", port.id);
        return Err(Fault::conflict("PortBindingAlreadyActive", message));
    }
    let at =
        port.binding.inactive.iter().position(|it| it.host_id == host).ok_or_else(|| absent(&port, host))?;
    txn.edit::<Port>(&port.id, |port| {
        let next = port.binding.inactive.remove(at);
        let before = InactiveBinding {
            host_id: std::mem::replace(&mut port.binding.host_id, next.host_id),
            vnic_type: std::mem::replace(&mut port.binding.vnic_type, next.vnic_type),
            profile: std::mem::replace(&mut port.binding.profile, next.profile),
            vif_type: std::mem::replace(&mut port.binding.vif_type, next.vif_type),
        };
        if !before.host_id.is_empty() {
            port.binding.inactive.push(before);
        }
    });
    answer(txn, call, host)
}

fn forget(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let port = port::found(txn, call.id)?.clone();
    let host = call.args.first().copied().unwrap_or_default();
    if port.binding.host_id == host && !host.is_empty() {
        txn.edit::<Port>(&port.id, |port| {
            port.binding.host_id.clear();
            port.binding.vif_type = VifType::Unbound;
        });
        return Ok(Reply::Nothing);
    }
    let at =
        port.binding.inactive.iter().position(|it| it.host_id == host).ok_or_else(|| absent(&port, host))?;
    txn.edit::<Port>(&port.id, |port| drop(port.binding.inactive.remove(at)));
    Ok(Reply::Nothing)
}

fn answer(txn: &Txn, call: &ActionCall<'_>, host: &str) -> Result<Reply, Fault> {
    let outside = txn.outside();
    let scene = Scene {
        world: txn,
        report: &Report::default(),
        outside: &outside,
        caller: call.caller,
        now: txn.now(),
        parent: None,
    };
    let port = port::found(txn, call.id)?;
    let found = all(port, &scene).into_iter().find(|binding| binding["host"] == host);
    Ok(Reply::Value(json!({"binding": found})))
}

fn absent(port: &Port, host: &str) -> Fault {
    let message = format!("Binding for port {} for host {host} could not be found.", port.id);
    Fault::new(404, "PortBindingNotFound", message)
}

#[cfg(test)]
mod tests;
