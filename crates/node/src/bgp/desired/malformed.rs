//! Descriptions of columns of a port's row that do not parse.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::PortType;
use ovn::sb::PortBinding;
use ovn::text::neutron::{self, key};
use ovn::text::{PortAddresses, Text};

/// The error in a port's `mac`, if any.
pub(super) fn malformed(port: &PortBinding) -> Option<String> {
    let (text, error) = port.mac.iter().find_map(|text| Some((text, text.parsed().err()?)))?;
    let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
    Some(format!(
        "its addresses {:?} do not parse: {error}{cause}; correct them in the Northbound database",
        text.to_string()
    ))
}

/// The error in the addresses that the cloud's management wrote beside a port's `mac`. The agent reads these for a virtual port, and for
/// a port whose `mac` has no address.
pub(super) fn malformed_cidrs(port: &PortBinding) -> Option<String> {
    let text = port.external_ids.get(key::CIDRS)?;
    let mut known = port.mac.iter().filter_map(Text::value).flat_map(PortAddresses::ips);
    if port.kind != PortType::Virtual && known.next().is_some() {
        return None;
    }
    let bad = text.split_ascii_whitespace().zip(neutron::cidrs(text)).find(|(_, read)| read.is_err());
    bad.map(|(item, _)| {
        format!("{item:?} in its {} does not parse; expected addresses such as 172.24.4.10/24", key::CIDRS)
    })
}
