//! The manager against a real API server.
//!
//! Each test has a server of its own, for nodes and networks belong to the whole cluster. The manager runs inside the test: to
//! abort its task is to kill it, at whichever point it waits.

mod cluster;
mod egress;
mod networks;
mod nodes;
mod pods;
mod survival;
mod upgrade;
