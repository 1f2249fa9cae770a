//! Against real daemons, without root: flows on ovs-vswitchd with its dummy datapath, FRR's stanzas on bgpd without zebra, and the
//! agent on a Southbound cluster over TLS.
//! What needs the kernel's devices is shown in the lab (`e2e/tests/e2e/plane.rs`).

mod frr;
mod southbound;
mod support;
mod switch;
