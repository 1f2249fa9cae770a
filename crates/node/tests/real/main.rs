//! Against real daemons, without root: flows, ports and single packets on ovs-vswitchd with its dummy datapath, FRR's stanzas on bgpd without zebra, the
//! agent on a Southbound cluster and on a Northbound server over TLS, and what is made of the Northbound beside what ovn-northd makes of it; two roles on
//! one connection.
//! What needs the kernel's devices is shown in the lab (`e2e/tests/e2e/plane.rs`).

mod agent;
mod frr;
mod northbound;
mod packets;
mod ports;
mod roles;
mod southbound;
mod support;
mod switch;
