//! Flows of the provider bridges: what comes from the overlay is handed to the kernel to be routed.

pub mod state;

pub use state::{Bridge, Desired};
