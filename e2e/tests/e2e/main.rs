//! Every end-to-end test, by area. `cargo xtask lab list` prints this list.

mod acceptance;
mod agent;
mod balancers;
mod bfd;
mod bgp;
mod border;
mod chaos;
mod cloud;
mod demo;
mod fabric;
mod faults;
mod guest;
mod layer2;
mod metadata;
mod multihoming;
mod native;
mod outside;
mod overlay;
mod picture;
mod plane;
mod sample;
mod scale;
mod transit;
mod vlan;
mod weigh;
mod words;

use std::process::ExitCode;
use std::time::Duration;

use lab::{Suite, Test};

/// The time limit of tests with networks. It is generous for a busy machine, because a test that fails by itself reports more than a killed
/// one.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let networks = [
        words::tests(),
        picture::tests(),
        overlay::tests(),
        bfd::tests(),
        bgp::tests(),
        plane::tests(),
        sample::tests(),
        agent::tests(),
        acceptance::tests(),
        native::tests(),
        scale::tests(),
        vlan::tests(),
        metadata::tests(),
        multihoming::tests(),
        balancers::tests(),
        transit::tests(),
        layer2::tests(),
        chaos::tests(),
        cloud::tests(),
    ];
    Suite::new(env!("CARGO_TARGET_TMPDIR"))
        .tests(guest::tests())
        .tests(faults::tests())
        .tests(demo::tests())
        .tests([
            Test::fixture("fixture::three_chassis", fabric::comes_up).within(PATIENCE),
            Test::fixture("fixture::idles", fabric::idles).within(PATIENCE),
            weigh::fixture(),
        ])
        .tour(demo::CHAPTERS)
        .tests(networks.into_iter().flatten().map(|test| test.within(PATIENCE)))
        .topology_for_shell(
            "tenants",
            "three chassis, VMs vm1 to vm3 behind the router lr0, and the host ext outside",
            fabric::for_shell,
        )
        .main()
}
