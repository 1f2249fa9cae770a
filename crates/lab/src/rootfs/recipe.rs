//! The content of the guest: packages and their suites. The cache's key is derived from it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::home::key_of;

/// The source of everything but the kernel.
pub(super) const SUITE: &str = "trixie";

/// The source of the kernel: the first suite whose User Mode Linux has all needed features.
pub(super) const KERNEL_SUITE: &str = "forky";

/// The kernel's package.
pub(super) const KERNEL: &str = "user-mode-linux";

/// All other packages, named one by one, because no package counts as essential here.
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
    "liblz4-1",
    "libpam-modules",
    "mount",
    "procps",
    "sed",
    "tzdata",
    "util-linux",
    // what a VM's image has
    "cloud-init",
    // the network under test
    "conntrack",
    "frr",
    "haproxy",
    "openvswitch-switch",
    "ovn-central",
    "ovn-host",
    "ovn-ic",
    // Tools for inspection.
    "curl",
    "ethtool",
    "iproute2",
    "iputils-arping",
    "iputils-ping",
    "nftables",
    "tcpdump",
];

/// Packages that are unpacked without their dependencies. PostgreSQL depends on a compiler, Perl and locales, and a lab needs only its
/// libraries.
pub(super) const ALONE: &[&str] =
    &["libicu76", "libpq5", "libxml2", "libxslt1.1", "postgresql-17", "postgresql-client-17"];

/// The name of the root file system of this recipe. It covers the changes after unpacking, so that a cache of other code is
/// never mistaken for ours.
pub fn key() -> String {
    key_of(&[
        SUITE,
        KERNEL_SUITE,
        KERNEL,
        &PACKAGES.join(","),
        &ALONE.join(","),
        include_str!("fixup.rs"),
        include_str!("interp.rs"),
    ])
}

/// Apt's preferences: the kernel's suite provides the kernel and, as a last resort, packages that only it has.
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
    fn no_package_is_named_twice() {
        let mut names = [PACKAGES, ALONE].concat();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PACKAGES.len() + ALONE.len());
    }
}
