//! FRR's configuration, as far as it carries our announcements.

pub mod state;

pub use state::{Desired, Redistribute};
