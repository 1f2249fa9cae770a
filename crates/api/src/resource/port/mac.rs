//! MAC addresses of ports: unique in their network, random after the operator's prefix.

use ovn::MacAddr;
use uuid::Uuid;

use crate::fault::Fault;
use crate::world::{Link, Txn};

/// The number of random draws after which the network counts as full. With 50,000 ports, one draw in 335 hits a used MAC.
const DRAWS: usize = 64;

/// The requested MAC if it is free, or a new one.
pub fn choose(txn: &mut Txn, network: Uuid, wanted: Option<MacAddr>) -> Result<MacAddr, Fault> {
    match wanted {
        Some(mac) if txn.has_linked(Link::PortWithMac(network, mac)) => Err(in_use(network, mac)),
        Some(mac) => Ok(mac),
        None => generate(txn, network),
    }
}

/// A random MAC that no port of the network uses.
pub fn generate(txn: &mut Txn, network: Uuid) -> Result<MacAddr, Fault> {
    let base = txn.outside().settings.base_mac;
    for _ in 0..DRAWS {
        let mac = random(txn.chance(), base);
        if !txn.has_linked(Link::PortWithMac(network, mac)) {
            return Ok(mac);
        }
    }
    let message = format!("Unable to generate unique mac on network {network}.");
    Err(Fault::unavailable(message))
}

/// Three bytes of the base (four if the fourth is not zero), then random ones.
pub fn random(chance: &mut fastrand::Rng, base: MacAddr) -> MacAddr {
    let mut bytes = base.octets();
    let kept = if bytes[3] == 0 { 3 } else { 4 };
    chance.fill(&mut bytes[kept..]);
    MacAddr(bytes)
}

/// The fault for a MAC in use in the network: 409.
pub fn in_use(network: Uuid, mac: MacAddr) -> Fault {
    let message =
        format!("Unable to complete operation for network {network}. The mac address {mac} is in use.");
    Fault::conflict("MacAddressInUse", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_of_four_bytes_is_kept_whole() {
        let mut chance = fastrand::Rng::with_seed(1);
        for _ in 0..20 {
            assert_eq!(
                random(&mut chance, MacAddr([0xfa, 0x16, 0x3e, 0, 0, 0])).octets()[..3],
                [0xfa, 0x16, 0x3e]
            );
            assert_eq!(random(&mut chance, MacAddr([2, 0, 0, 7, 0, 0])).octets()[..4], [2, 0, 0, 7]);
        }
        let drawn: std::collections::BTreeSet<_> =
            (0..100).map(|_| random(&mut chance, MacAddr([0xfa, 0x16, 0x3e, 0, 0, 0]))).collect();
        assert!(drawn.len() > 95);
    }
}
