//! A copy of the API's objects, and writes to them. The manager and the program of a node share it.
//!
//! | file | holds |
//! |---|---|
//! | [`kind`] | the kinds of objects, and which program reads which |
//! | [`snapshot`] | all objects at one instant |
//! | [`write`](mod@write) | one request that changes an object |
//! | `decode` | objects of the API as parts of a snapshot |
//! | `watch` | the copy, kept by one watch per kind |
//! | `apply` | sends the requests of a plan |
//! | `connect` | the client |

mod apply;
mod connect;
pub(crate) mod decode;
pub mod kind;
pub mod snapshot;
mod watch;
pub mod write;

pub use apply::{ApiWriter, Permission, SoleWriter};
pub use connect::{ConnectError, connect};
pub use watch::{ClusterCopy, Inventory};
