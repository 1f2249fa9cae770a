//! The backends of a VIP: members of its address family, repeated by weight.

use std::net::IpAddr;

use ovn::text::{Backends, Endpoint};

use crate::model::Member;

/// Up to this many members, the list stays within [`MOST_BACKENDS`]; longer lists stay within [`MOST_REPEATS`] per member on average.
const FEW_MEMBERS: usize = 64;
const MOST_BACKENDS: usize = 256;
const MOST_REPEATS: usize = 4;

/// The backends of a VIP address. OVN gives every entry the same share of new connections, so a member is repeated in proportion to its
/// weight. Backup members are listed only if `has_failed` is true for every other member.
pub(super) fn backends(members: &[&Member], vip: IpAddr, has_failed: &dyn Fn(&Member) -> bool) -> Backends {
    let serving = members.iter().filter(|member| {
        member.admin_state_up && member.weight > 0 && member.address.value.is_ipv4() == vip.is_ipv4()
    });
    let use_backups = serving.clone().filter(|member| !member.backup).all(|member| has_failed(member));
    // Failed members stay in the list: OVN itself skips them, and notices their return only while they are listed.
    let serving: Vec<&Member> = serving.filter(|member| use_backups || !member.backup).copied().collect();
    let weights: Vec<usize> = serving.iter().map(|member| usize::from(member.weight)).collect();
    let mut list = Vec::new();
    for (member, repeats) in serving.into_iter().zip(repeats(&weights)) {
        let backend = Endpoint::new(member.address.value, member.protocol_port);
        list.extend(std::iter::repeat_n(backend, repeats));
    }
    Backends(list.into())
}

/// The number of repeats for each weight: the smallest integers with the same ratios, scaled down if they are too many, and at least one.
fn repeats(weights: &[usize]) -> Vec<usize> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let reduced: Vec<usize> = weights.iter().map(|weight| weight / divisor).collect();
    let most = if weights.len() <= FEW_MEMBERS { MOST_BACKENDS } else { weights.len() * MOST_REPEATS };
    let total: usize = reduced.iter().sum();
    if total <= most {
        return reduced;
    }
    // Members that are rounded up to 1 reduce the repeats of the others.
    let mut aim = most;
    loop {
        let scaled: Vec<usize> = reduced.iter().map(|weight| (weight * aim / total).max(1)).collect();
        match scaled.iter().sum::<usize>().saturating_sub(most) {
            0 => return scaled,
            excess => aim = aim.saturating_sub(excess),
        }
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_repeats() {
        for (weights, expected) in [
            (vec![], vec![]),
            (vec![1, 3], vec![1, 3]),
            (vec![100, 100, 50], vec![2, 2, 1]),
            (vec![256, 1], vec![255, 1]),
            (vec![256, 255, 1], vec![128, 127, 1]),
        ] {
            assert_eq!(repeats(&weights), expected, "{weights:?}");
        }
    }

    #[test]
    fn lists_stay_short() {
        for (members, most) in [(2, 256), (64, 256), (65, 260), (1000, 4000)] {
            let weights: Vec<usize> = (0..members).map(|n| 1 + n * 255 / (members - 1)).collect();
            let repeats = repeats(&weights);
            assert!(
                repeats.iter().all(|times| *times > 0) && repeats.iter().sum::<usize>() <= most,
                "{members}"
            );
            assert!(repeats.is_sorted(), "{repeats:?}");
        }
    }
}
