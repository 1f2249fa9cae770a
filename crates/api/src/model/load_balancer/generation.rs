//! When a part of a load balancer changed, counted in the load balancer's generations.

use serde::{Deserialize, Serialize};

/// The generations of its load balancer that concern an object. It waits for OVN while the Northbound has an older one than
/// `changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The one that made it.
    pub created: u64,
    /// The one that changed it last, or something that it depends on.
    pub changed: u64,
}

impl Generation {
    /// Of an object that is made in this generation.
    pub fn new(generation: u64) -> Self {
        Generation { created: generation, changed: generation }
    }
}
