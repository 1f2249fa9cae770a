//! Allowed address pairs: further addresses that a port may send from.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::MacAddr;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::model::{AddressPair, Port};
use crate::resource::metadata_port;
use crate::world::World;

#[derive(Deserialize)]
struct ActionRequest {
    ip_address: String,
    mac_address: Option<MacAddr>,
}

/// Parses an address or prefix.
pub(super) fn parse_address(text: &str) -> Result<String, String> {
    read(text)
        .map(|prefix| shown(&prefix))
        .ok_or_else(|| format!("'{text}' is not a valid IP address or subnet"))
}

/// The pairs of a request, in its order.
pub(super) fn read_all(value: &Value, most: usize) -> Result<Vec<AddressPair>, Fault> {
    let asked: Vec<ActionRequest> = Vec::deserialize(value).unwrap_or_default();
    if asked.len() > most {
        let message = format!("The number of allowed address pair exceeds the maximum {most}.");
        return Err(Fault::new(400, "AddressPairsExhausted", message));
    }
    let mut pairs: Vec<AddressPair> = Vec::with_capacity(asked.len());
    for ActionRequest { ip_address, mac_address } in asked {
        let refused = |reason: String| Fault::invalid("allowed_address_pairs", reason);
        let ip =
            read(&ip_address).ok_or_else(|| refused(format!("'{ip_address}' is not a valid IP address")))?;
        if ip.addr().is_multicast() {
            return Err(refused(format!("'{ip_address}' is a multicast address, which no port sends with")));
        }
        if let Some(mac) = mac_address.filter(|mac| mac.is_multicast()) {
            return Err(refused(format!("'{mac}' is a multicast address, which no port sends with")));
        }
        let pair = AddressPair { ip_address: ip, mac_address };
        if pairs.contains(&pair) {
            let mac = mac_address.map_or_else(|| "None".to_owned(), |mac| mac.to_string());
            let message = format!(
                "Request contains duplicate address pair: mac_address {mac} ip_address {ip_address}."
            );
            return Err(Fault::new(400, "DuplicateAddressPairInRequest", message));
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

/// Refuses pairs with an address of the network's metadata port: their owner could serve false metadata on other chassis.
pub(super) fn check(world: &World, port: &Port) -> Result<(), Fault> {
    let Some(metadata) = metadata_port::of(world, port.network_id) else { return Ok(()) };
    let is_taken = |pair: &&AddressPair| {
        metadata.fixed_ips.iter().any(|fixed| pair.ip_address == IpNet::from(fixed.ip_address))
    };
    match port.allowed_address_pairs.iter().find(is_taken).filter(|_| port.id != metadata.id) {
        Some(pair) => {
            let text = format!("'{}' is the address of the network's metadata port", pair.ip_address.addr());
            Err(Fault::invalid("allowed_address_pairs", text))
        }
        None => Ok(()),
    }
}

/// The pairs as JSON, for responses. A pair without a MAC has the port's.
pub(super) fn show(port: &Port) -> Value {
    let pair = |pair: &AddressPair| {
        let mac = pair.mac_address.unwrap_or(port.mac);
        json!({"ip_address": shown(&pair.ip_address), "mac_address": mac})
    };
    port.allowed_address_pairs.iter().map(pair).collect()
}

fn read(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn shown(prefix: &IpNet) -> String {
    if prefix.prefix_len() == prefix.max_prefix_len() {
        prefix.addr().to_string()
    } else {
        prefix.to_string()
    }
}
