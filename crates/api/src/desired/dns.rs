//! `DNS`: the names of a network's ports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovn::ident::{name, row_uuid};
use ovn::nb::{Dns, LogicalSwitch};
use ovn::text::domain_name::{DomainName, DomainNameError};
use ovn::text::neutron::{Spaced, key};
use ovsdb::Str;
use reconcile::{Class, ObjectId, Problem};
use uuid::Uuid;

use super::look::Look;
use super::{Compiled, map, object, switch, text, word};

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let ports = look.named_ports(id);
    let (Some(network), false) = (look.network(id), ports.is_empty()) else { return };
    let mut refuse = |of: ObjectId, code: &'static str, error: DomainNameError| {
        to.problems.push(Problem::error(of, Class::Refused, code, format!("it has no DNS record: {error}")));
    };
    let mut domains = Vec::new();
    for domain in [&look.settings().dns_domain, &network.dns_domain].into_iter().filter(|it| !it.is_empty()) {
        match domain.parse::<DomainName>() {
            Ok(domain) => domains.push(domain),
            Err(error) => refuse(object("network", id), "dns-domain", error),
        }
    }
    let mut records: BTreeMap<String, Str> = BTreeMap::new();
    for port in ports {
        let addresses: Vec<IpAddr> = port.fixed_ips.iter().map(|fixed| fixed.ip_address).collect();
        if addresses.is_empty() {
            continue;
        }
        let host = match port.dns_name.parse::<DomainName>() {
            Ok(host) => host,
            Err(error) => {
                refuse(object("port", port.id), "dns-name", error);
                continue;
            }
        };
        // A name that is too long in one domain may fit in the other.
        let full: Vec<DomainName> = domains.iter().filter_map(|domain| host.within(domain).ok()).collect();
        for name in full.iter().chain([&host]) {
            records.insert(name.to_lowercase().to_string(), text(Spaced(&addresses)));
        }
        for address in &addresses {
            records.insert(reverse(*address), text(full.first().unwrap_or(&host).to_lowercase()));
        }
    }
    // All names may be invalid.
    if records.is_empty() {
        return;
    }
    let options = look.ability().dns_options.then(|| ("ovn-owned", word(true)));
    let dns = Dns {
        records: map(records),
        options: map(options),
        external_ids: map([(key::DNS_SWITCH, text(name::switch(id)))]),
    };
    let (object, row) = (object("network", id), look.row(row_uuid("network", &id.to_string(), "dns")));
    to.part.own(object.clone(), row, dns);
    to.part.member::<LogicalSwitch>(object, switch::row(look, id), LogicalSwitch::DNS_RECORDS, row);
}

/// The name of an address for reverse lookups.
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
