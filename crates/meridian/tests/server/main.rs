//! `meridian server` as its users meet it: the real binary on real OVN databases with a real ovn-northd, asked by the real
//! `openstack` command and by plain HTTP. Numbers in the names of tests are those of the acceptance scenarios.

mod access;
mod adding;
mod cloud;
mod core;
mod gateways;
mod journal;
mod multihoming;
mod neutron;
mod parallel;
mod plant;
mod recorded;
mod recovery;
mod removing;
mod replacing;
mod robustness;
mod routers;
mod scheduling;
mod sessions;
mod site;
mod status;
mod two_servers;
mod upstream;
mod world;
