//! EgressIP: pods that leave the cluster with an address of their own, through the nodes that have it. Pure.
//!
//! | file | decides |
//! |---|---|
//! | `assign` | which node has which address: the manager writes it into the object's status |
//! | `select` | which object a pod uses: every node computes it from the same labels |
//!
//! The rows are in [`crate::zone::desired`].
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod assign;
mod select;

pub use assign::{Assignment, EgressNode, EgressRequest, Refusal, assign};
pub use select::{EgressItem, EgressRule, PodEgress, SelectablePod, select};

use crate::annotation::Annotation;
use crate::ident::EgressMark;

impl Annotation for EgressMark {
    const KEY: &'static str = "k8s.ovn.org/egressip-mark";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: crate::ident::IdentError| error.to_string())
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests;
