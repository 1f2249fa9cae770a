//! The chassis of gateway ports.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::world::{Link, Record};

/// The chassis of one gateway port, as scheduled. Stored so that a lost Northbound is rebuilt without moving a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The gateway port.
    pub port_id: Uuid,
    /// The physical network that it needs; none if it is reached through tunnels. A copy, because load is counted by physical network.
    pub physical_network: Option<String>,
    /// The chassis, highest priority first; never empty.
    pub chassis: Vec<Placed>,
}

/// One chassis of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The name of the chassis.
    pub chassis: String,
    /// The priority, unique in the group; the highest one hosts the port.
    pub priority: u16,
    /// Whether an administrator put it there. Such an entry stays until the chassis can no longer carry the port.
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
