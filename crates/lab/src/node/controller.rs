//! A controller: a node on the underlay for services that use the central databases and serve users.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::Arc;

use super::Node;

/// A controller, created by [`Lab::controller`](crate::Lab::controller).
#[derive(Debug)]
pub struct Controller {
    pub(crate) node: Arc<Node>,
    pub(crate) address: Ipv4Addr,
}

impl Controller {
    /// The address on the underlay.
    pub fn ip(&self) -> Ipv4Addr {
        self.address
    }

    /// The node, to be shared.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Deref for Controller {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}
