//! The decision, as tables: a world in, what must be there out.

mod bad_input;
mod balancers;
mod converge;
mod networks;
mod properties;
mod provider;
mod reserved;
mod saving;
mod tenants;
pub(crate) mod world;
