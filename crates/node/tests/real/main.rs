//! Flows and FRR's stanzas against the real daemons: ovs-vswitchd with its dummy datapath, bgpd without zebra. No root needed.
//! What needs the kernel's devices is shown in the lab (`e2e/tests/e2e/plane.rs`).

mod frr;
mod support;
mod switch;
