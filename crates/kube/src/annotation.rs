//! Annotations of `k8s.ovn.org`: one type per key, with its parser and its printer.
//!
//! Anybody who may edit an object may write anything into its annotations. So a parser accepts only what this program would act
//! on, and its error names the key. Nothing else in this crate reads an annotation's text.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod definition;
mod gateway;
mod node;
mod pod;

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use definition::{NetworkNameAnnotation, TunnelKeys};
pub use gateway::{GatewayMode, L3GatewayConfig};
pub use node::{
    ChassisId, EncapAddresses, GatewayMtuSupport, GatewayPortKeys, HostCidrs, MasqueradeSubnet,
    NodePrimaryAddress, TopologyVersion, TransitPeerSubnet,
};
pub use pod::{PodNetwork, PodNetworks, PodRoute};

/// The annotations of an object.
pub type Annotations = BTreeMap<String, String>;

/// The longest part of a foreign string that an error quotes.
const QUOTED: usize = 120;

/// An annotation that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read annotation {key}: {cause}; remove the annotation or correct it")]
pub struct AnnotationError {
    /// The annotation's key.
    pub key: &'static str,
    /// The cause, with the start of the refused string.
    pub cause: String,
}

/// A typed annotation.
pub trait Annotation: Sized {
    /// The key.
    const KEY: &'static str;

    /// The value of this string, or the cause why it is none.
    fn parse(text: &str) -> Result<Self, String>;

    /// The string of this value.
    fn format(&self) -> String;

    /// The value among an object's annotations, if the key is there.
    fn read(annotations: &Annotations) -> Result<Option<Self>, AnnotationError> {
        let Some(text) = annotations.get(Self::KEY) else { return Ok(None) };
        Self::parse(text).map(Some).map_err(|cause| AnnotationError { key: Self::KEY, cause })
    }
}

/// Parses JSON; the error quotes the start of the string.
fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{} is not valid: {error}", quote(text)))
}

/// Prints JSON of a type whose serialization cannot fail.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The start of a foreign string, in quotes, with control characters escaped.
fn quote(text: &str) -> String {
    let mut start: String = text.chars().take(QUOTED).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

impl Annotation for crate::ident::NodeId {
    const KEY: &'static str = "k8s.ovn.org/node-id";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: crate::ident::IdentError| error.to_string())
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

impl Annotation for crate::ident::NetworkId {
    const KEY: &'static str = "k8s.ovn.org/network-id";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: crate::ident::IdentError| error.to_string())
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests;
