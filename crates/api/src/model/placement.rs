//! Which chassis a gateway port may be on.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::world::{Link, Record};

/// The chassis of one gateway port, as scheduled. Kept in the store so that an emptied Northbound is rebuilt without moving
/// a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The gateway port.
    pub port_id: Uuid,
    /// The physical network it needs; none if it is reached through tunnels. Kept here because load is counted by it.
    pub physical_network: Option<String>,
    /// Highest priority first. Never empty.
    pub chassis: Vec<Placed>,
}

/// One chassis of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Name of the chassis.
    pub chassis: String,
    /// Unique in its group; the highest hosts the port.
    pub priority: u16,
    /// Put there by hand: stays until the chassis can no longer carry it.
    pub pinned: bool,
}

impl Record for Placement {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        for placed in &self.chassis {
            note(Link::PlacementsOn(SmolStr::new(&placed.chassis)), self.port_id);
        }
    }
    fn loads(&self, note: &mut dyn FnMut(&str, &str, u8)) {
        let physical = self.physical_network.as_deref().unwrap_or_default();
        for (rank, placed) in (0..).zip(&self.chassis) {
            note(physical, &placed.chassis, rank);
        }
    }
}
