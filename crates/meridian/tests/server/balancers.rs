//! Load balancers as their users meet them: Octavia's API on a real OVN central, by the real `openstack loadbalancer` and by
//! plain HTTP, with the Northbound rows behind them. Numbers in the names of tests are those of the acceptance scenarios of
//! load balancers.

mod associations;
mod commands;
mod guarantees;
mod hostile;
mod importing;
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
