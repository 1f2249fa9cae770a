//! Load balancers from the users' view: Octavia's API on a real OVN central, through the real `openstack loadbalancer` and plain HTTP, with
//! the Northbound rows behind them. The numbers in the names of tests are those of the acceptance scenarios of load balancers.

mod associations;
mod commands;
mod guarantees;
mod hostile;
mod importing;
mod kills;
mod listening;
mod members;
mod random;
mod refusals;
mod requests;
mod roles;
mod seed;
mod site;
mod trees;
mod vips;
