//! `DNS`: names of a network's ports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovn::ident::{name, row_uuid};
use ovn::nb::{Dns, LogicalSwitch};
use ovn::target::Part;
use ovn::text::neutron::{Spaced, key};
use ovsdb::Str;
use uuid::Uuid;

use super::look::Look;
use super::{map, object, switch, text, word};

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Part) {
    let ports = look.named_ports(id);
    let (Some(network), false) = (look.network(id), ports.is_empty()) else { return };
    let domains = [look.settings().dns_domain.as_str(), network.dns_domain.as_str()];
    let domains = domains.map(|domain| domain.trim_end_matches('.').to_ascii_lowercase());
    let mut records: BTreeMap<String, Str> = BTreeMap::new();
    for port in ports {
        let host = port.dns_name.trim_end_matches('.').to_ascii_lowercase();
        let addresses: Vec<IpAddr> = port.fixed_ips.iter().map(|fixed| fixed.ip_address).collect();
        if addresses.is_empty() {
            continue;
        }
        let full: Vec<String> = domains
            .iter()
            .filter(|domain| !domain.is_empty())
            .map(|domain| format!("{host}.{domain}"))
            .collect();
        for name in full.iter().chain([&host]) {
            records.insert(name.clone(), text(Spaced(&addresses)));
        }
        for address in &addresses {
            records.insert(reverse(*address), text(full.first().unwrap_or(&host)));
        }
    }
    let options = look.ability().dns_options.then(|| ("ovn-owned", word(true)));
    let dns = Dns {
        records: map(records),
        options: map(options),
        external_ids: map([(key::DNS_SWITCH, text(name::switch(id)))]),
    };
    let (object, row) = (object("network", id), look.row(row_uuid("network", &id.to_string(), "dns")));
    to.own(object.clone(), row, dns);
    to.member::<LogicalSwitch>(object, switch::row(look, id), LogicalSwitch::DNS_RECORDS, row);
}

/// The name under which an address is asked for.
fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits = ip.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            let labels: String = digits.map(|digit| format!("{digit:x}.")).collect();
            format!("{labels}ip6.arpa")
        }
    }
}
