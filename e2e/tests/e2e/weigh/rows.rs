//! The rows that OVN would write for ports of a flat provider network, bound to our chassis.

use std::net::Ipv4Addr;

use anyhow::Result;
use lab::rpc::Rpc;
use serde_json::{Value, json};

/// The number of ports that are unbound at first.
pub(super) const SPARES: usize = 16;
/// The number of rows per transaction.
const BATCH: usize = 500;
const DATABASE: &str = "OVN_Southbound";

fn address(n: usize) -> Ipv4Addr {
    let n = u32::try_from(n).unwrap_or(u32::MAX);
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 25, 0, 1)).saturating_add(n))
}

/// The addresses of the ports that are bound from the start.
pub(crate) fn ports(count: usize) -> impl Iterator<Item = Ipv4Addr> {
    (SPARES..SPARES + count).map(address)
}

/// The address of a port that is not.
pub(super) fn spare(n: usize) -> Ipv4Addr {
    address(n)
}

/// Writes a provider network with `count` ports bound to a chassis, others bound to another one, and the spare ports.
pub(crate) fn fill(southbound: &mut Rpc, count: usize, elsewhere: usize, chassis: &str) -> Result<()> {
    let switch = "3c1f6b7a-0000-4000-8000-000000000001";
    let datapath = json!({
        "op": "insert", "table": "Datapath_Binding", "uuid": switch,
        "row": { "tunnel_key": 4711, "external_ids": map(&[("name", "neutron-pub"), ("logical-switch", switch)]) },
    });
    let localnet = json!({
        "op": "insert", "table": "Port_Binding",
        "row": {
            "logical_port": "provnet-1", "type": "localnet", "datapath": ["uuid", switch], "tunnel_key": 1,
            "mac": "unknown", "options": map(&[("network_name", "physnet")]),
        },
    });
    let other = "3c1f6b7a-0000-4000-8000-000000000002";
    let encap = json!({
        "op": "insert", "table": "Encap", "uuid-name": "encap",
        "row": { "type": "geneve", "ip": "10.10.0.99", "chassis_name": "elsewhere" },
    });
    let neighbour = json!({
        "op": "insert", "table": "Chassis", "uuid": other,
        "row": { "name": "elsewhere", "hostname": "elsewhere", "encaps": ["named-uuid", "encap"] },
    });
    southbound.transact(DATABASE, vec![datapath, localnet, encap, neighbour])?;
    let ours = SPARES + count;
    let bound = |n: usize| match n {
        _ if n < SPARES => None,
        _ if n < ours => Some(chassis),
        _ => Some(other),
    };
    let rows: Vec<Value> = (0..ours + elsewhere).map(|n| port(n, switch, bound(n))).collect();
    for batch in rows.chunks(BATCH) {
        southbound.transact(DATABASE, batch.to_vec())?;
    }
    Ok(())
}

fn port(n: usize, switch: &str, chassis: Option<&str>) -> Value {
    let (ip, mac) = (address(n), format!("fa:16:3e:00:{:02x}:{:02x}", n / 256 % 256, n % 256));
    let cidr = format!("{ip}/16");
    json!({
        "op": "insert", "table": "Port_Binding",
        "row": {
            "logical_port": name(n), "datapath": ["uuid", switch], "tunnel_key": n + 2, "mac": format!("{mac} {ip}"),
            "chassis": reference(chassis), "up": chassis.is_some(),
            "external_ids": map(&[
                ("neutron:cidrs", &cidr), ("neutron:port_name", ""), ("neutron:device_owner", "compute:nova"),
                ("neutron:network_name", "neutron-pub"), ("neutron:host_id", "hv1"), ("neutron:revision_number", "4"),
            ]),
        },
    })
}

/// The parameters of a `monitor` call for the bindings of ports.
pub(super) fn watch() -> Value {
    json!([DATABASE, "floor", { "Port_Binding": [{ "columns": ["chassis", "up"] }] }])
}

/// The parameters of a transaction that binds, or unbinds, a port.
pub(super) fn bind(n: usize, chassis: Option<&String>) -> Value {
    let row = json!({ "chassis": reference(chassis.map(|text| text.as_str())), "up": chassis.is_some() });
    json!([DATABASE, { "op": "update", "table": "Port_Binding", "where": [["logical_port", "==", name(n)]], "row": row }])
}

fn name(n: usize) -> String {
    format!("0f1e2d3c-4b5a-4000-8000-{n:012x}")
}

fn reference(chassis: Option<&str>) -> Value {
    chassis.map_or(json!(["set", []]), |uuid| json!(["uuid", uuid]))
}

fn map(pairs: &[(&str, &str)]) -> Value {
    json!(["map", pairs])
}
