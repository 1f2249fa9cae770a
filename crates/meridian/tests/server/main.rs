//! `meridian server` from the users' view: the real binary on real OVN databases with a real ovn-northd, used through the real `openstack`
//! command and plain HTTP. The numbers in the names of tests are those of the acceptance scenarios.

mod access;
mod adding;
mod backups;
mod balancers;
mod chaos;
mod cloud;
mod clustered;
mod commands;
mod core;
mod crowd;
mod dying;
mod encrypted;
mod explaining;
mod failover;
mod gateways;
mod hostile_import;
mod hostile_text;
mod journal;
mod multihoming;
mod neighbours;
mod neutron;
mod nova;
mod parallel;
mod plant;
#[path = "../common/raft.rs"]
mod raft;
mod recorded;
mod recovery;
mod removing;
mod replacing;
mod robustness;
mod routers;
mod running;
mod scheduling;
mod schemas;
mod sessions;
mod site;
mod starting;
mod status;
mod stores;
mod strangers;
mod tables;
mod two_servers;
mod upstream;
mod world;
