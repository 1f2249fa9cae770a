//! Annotations of network attachment definitions.

use super::{Annotation, from_json, quote, to_json};
use crate::ident::{NetworkId, RouterKey};
use crate::network::NetworkName;

/// The network of an attachment definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkNameAnnotation(pub NetworkName);

impl Annotation for NetworkNameAnnotation {
    const KEY: &'static str = "k8s.ovn.org/network-name";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(NetworkNameAnnotation).map_err(|error: crate::network::NameError| error.to_string())
    }

    fn format(&self) -> String {
        self.0.to_string()
    }
}

/// The datapath keys of a network: its switch's, its transit router's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelKeys {
    /// The key of the switch.
    pub switch: u32,
    /// The key of the transit router.
    pub router: RouterKey,
}

impl TunnelKeys {
    /// True if the switch's key is the one that belongs to a network id.
    pub fn belong_to(self, network: NetworkId) -> bool {
        self.switch == network.switch_key()
    }
}

impl Annotation for TunnelKeys {
    const KEY: &'static str = "k8s.ovn.org/tunnel-keys";

    fn parse(text: &str) -> Result<Self, String> {
        let [switch, router]: [u32; 2] = from_json(text)?;
        let switches = NetworkId::MIN.switch_key()..=NetworkId::MAX.switch_key();
        if !switches.contains(&switch) {
            return Err(format!("{switch} in {} is not a switch's datapath key", quote(text)));
        }
        let router = RouterKey::new(router)
            .ok_or_else(|| format!("{router} in {} is not a router's datapath key", quote(text)))?;
        Ok(TunnelKeys { switch, router })
    }

    fn format(&self) -> String {
        to_json(&[self.switch, self.router.get()])
    }
}
