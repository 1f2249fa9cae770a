//! Every end-to-end test, by area. `cargo xtask lab list` prints this list.

mod bfd;
mod bgp;
mod border;
mod fabric;
mod faults;
mod guest;
mod metadata;
mod overlay;
mod sample;
mod transit;
mod vlan;
mod words;

use std::process::ExitCode;

use lab::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_TARGET_TMPDIR"))
        .tests(guest::tests())
        .tests(faults::tests())
        .tests(words::tests())
        .tests(overlay::tests())
        .tests(bfd::tests())
        .tests(bgp::tests())
        .tests(sample::tests())
        .tests(vlan::tests())
        .tests(metadata::tests())
        .tests(transit::tests())
        .topology_for_shell(
            "tenants",
            "three chassis, VMs vm1 to vm3 behind the router lr0, and the host ext outside",
            fabric::for_shell,
        )
        .main()
}
