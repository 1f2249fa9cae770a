//! Ports.

mod internal;
pub mod mac;

use std::sync::Arc;

use uuid::Uuid;

use crate::fault::Fault;
use crate::model::Port;
use crate::world::World;

pub use internal::{Internal, create_internal};

/// A port, or 404.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<Port>, Fault> {
    world.get::<Port>(&id).ok_or_else(|| Fault::absent("PortNotFound", "Port", id))
}
