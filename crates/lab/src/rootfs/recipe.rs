//! What goes into the guest: which packages, from which suites. The cache's key follows from it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use sha2::{Digest, Sha256};

/// Where everything but the kernel comes from.
pub(super) const SUITE: &str = "trixie";

/// Where the kernel comes from: the first suite whose User Mode Linux has all that the lab needs.
pub(super) const KERNEL_SUITE: &str = "forky";

/// The kernel's package.
pub(super) const KERNEL: &str = "user-mode-linux";

/// Everything else, named one by one since no package counts as essential here.
pub(super) const PACKAGES: &[&str] = &[
    // a system that can run programs and scripts
    "base-files",
    "bash",
    "busybox",
    "coreutils",
    "dash",
    "findutils",
    "gawk",
    "grep",
    "kmod",
    "libc-bin",
    "libpam-modules",
    "mount",
    "procps",
    "sed",
    "util-linux",
    // the network under test
    "conntrack",
    "frr",
    "haproxy",
    "openvswitch-switch",
    "ovn-central",
    "ovn-host",
    "ovn-ic",
    // what looks at it
    "curl",
    "ethtool",
    "iproute2",
    "iputils-arping",
    "iputils-ping",
    "nftables",
    "tcpdump",
];

/// The name of the root file system that this recipe makes. What is done to the packages after unpacking is part of it: a
/// cache made by other code is never taken for ours.
pub fn key() -> String {
    key_of(&[
        SUITE,
        KERNEL_SUITE,
        KERNEL,
        &PACKAGES.join(","),
        include_str!("fixup.rs"),
        include_str!("interp.rs"),
    ])
}

fn key_of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length keeps two lists apart that join to the same text.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Apt's preferences: the kernel's suite gives the kernel and, failing all else, what only it has.
pub(super) fn preferences() -> String {
    format!(
        "Package: *\nPin: release n={KERNEL_SUITE}\nPin-Priority: 50\n\n\
         Package: {KERNEL}\nPin: release n={KERNEL_SUITE}\nPin-Priority: 990\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_stable_and_short_enough_for_a_folder_name() {
        assert_eq!(key(), key());
        assert_eq!(key().len(), 12);
        assert!(key().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn every_part_and_every_border_between_parts_counts() {
        let base = key_of(&["trixie", "forky", "a,b"]);
        assert_ne!(base, key_of(&["trixie", "forky", "a,c"]));
        assert_ne!(base, key_of(&["sid", "forky", "a,b"]));
        assert_ne!(key_of(&["ab", "c"]), key_of(&["a", "bc"]));
        assert_ne!(key_of(&["a"]), key_of(&["a", ""]));
    }

    #[test]
    fn no_package_is_named_twice() {
        let mut names = PACKAGES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PACKAGES.len());
    }
}
