//! The generation of a load balancer in which one of its parts changed.

use serde::{Deserialize, Serialize};

/// The generations of its load balancer in which an object changed. The object waits for OVN while the Northbound has an older generation
/// than `changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The generation that created the object.
    pub created: u64,
    /// The last generation that changed the object or an object that it depends on.
    pub changed: u64,
}

impl Generation {
    /// For an object created in this generation.
    pub fn new(generation: u64) -> Self {
        Generation { created: generation, changed: generation }
    }
}
