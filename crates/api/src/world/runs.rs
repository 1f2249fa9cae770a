//! The used addresses of a subnet, as ranges without gaps.
//!
//! Allocation takes the lowest free address, so a subnet with 50,000 ports is a handful of ranges. "The first free address from here on" is
//! one lookup in a map, however full the subnet is and whatever was released in between. A remembered "lowest possibly free" address would
//! require a new search after each release of a low address, and random probing gets slow in full pools.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use imbl::OrdMap;
use uuid::Uuid;

/// Ranges of used addresses: from the subnet and the first address to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(OrdMap<(Uuid, IpAddr), IpAddr>);

impl Runs {
    /// The last address of the range that contains `address`; none if it is free.
    pub(super) fn last_taken(&self, subnet: Uuid, address: IpAddr) -> Option<IpAddr> {
        self.around(subnet, address).map(|(_, last)| last)
    }

    /// The ranges of a subnet, in order.
    pub(super) fn of(&self, subnet: Uuid) -> impl Iterator<Item = (IpAddr, IpAddr)> + '_ {
        let lowest = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        self.0
            .range((subnet, lowest)..)
            .take_while(move |((of, _), _)| *of == subnet)
            .map(|((_, first), last)| (*first, *last))
    }

    pub(super) fn take(&mut self, subnet: Uuid, address: IpAddr) {
        if self.around(subnet, address).is_some() {
            return;
        }
        let below = before(address).and_then(|neighbour| self.around(subnet, neighbour));
        let above = after(address).and_then(|neighbour| self.0.remove(&(subnet, neighbour)));
        let first = below.map_or(address, |(first, _)| first);
        self.0.insert((subnet, first), above.unwrap_or(address));
    }

    pub(super) fn free(&mut self, subnet: Uuid, address: IpAddr) {
        let Some((first, last)) = self.around(subnet, address) else { return };
        self.0.remove(&(subnet, first));
        if let Some(end) = before(address).filter(|_| first != address) {
            self.0.insert((subnet, first), end);
        }
        if let Some(start) = after(address).filter(|_| last != address) {
            self.0.insert((subnet, start), last);
        }
    }

    fn around(&self, subnet: Uuid, address: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let ((of, first), last) = self.0.range(..=(subnet, address)).next_back()?;
        (*of == subnet && address <= *last && first.is_ipv4() == address.is_ipv4()).then_some((*first, *last))
    }
}

/// The next address, unless this is the last.
pub fn after(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4).checked_add(1)?)),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6).checked_add(1)?)),
    })
}

/// The previous address, unless this is the first.
pub fn before(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4).checked_sub(1)?)),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6).checked_sub(1)?)),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn v4(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(n))
    }

    #[test]
    fn the_ends_of_the_address_space_are_no_trap() {
        let subnet = Uuid::from_u128(1);
        let mut runs = Runs::default();
        for address in
            [v4(u32::MAX), v4(0), IpAddr::V6(Ipv6Addr::from(u128::MAX)), IpAddr::V6(Ipv6Addr::from(0))]
        {
            runs.take(subnet, address);
            assert_eq!(runs.last_taken(subnet, address), Some(address));
        }
        assert_eq!(runs.of(subnet).count(), 4);
    }

    proptest! {
        #[test]
        fn runs_are_those_of_the_set(steps in proptest::collection::vec((any::<bool>(), 1..3u128, 0..24u32), 0..200)) {
            let mut runs = Runs::default();
            let mut set = BTreeSet::new();
            for (take, subnet, n) in steps {
                if take {
                    set.insert((subnet, n));
                    runs.take(Uuid::from_u128(subnet), v4(n));
                } else {
                    set.remove(&(subnet, n));
                    runs.free(Uuid::from_u128(subnet), v4(n));
                }
            }
            for subnet in 1..3 {
                let mut found = Vec::new();
                let mut last_end = None;
                for (first, last) in runs.of(Uuid::from_u128(subnet)) {
                    let (IpAddr::V4(first), IpAddr::V4(last)) = (first, last) else { panic!("another family") };
                    let (first, last) = (u32::from(first), u32::from(last));
                    prop_assert!(last_end.is_none_or(|end| first > end + 1), "runs that touch are one run");
                    last_end = Some(last);
                    found.extend(first..=last);
                }
                let truth: Vec<_> = set.iter().filter(|(of, _)| *of == subnet).map(|(_, n)| *n).collect();
                prop_assert_eq!(&found, &truth);
                for n in 0..25 {
                    let mut end = n;
                    while truth.contains(&end) { end += 1; }
                    let want = (end > n).then(|| v4(end - 1));
                    prop_assert_eq!(runs.last_taken(Uuid::from_u128(subnet), v4(n)), want);
                }
            }
        }
    }
}
