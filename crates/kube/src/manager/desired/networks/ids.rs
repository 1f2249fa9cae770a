//! Network ids and tunnel keys.

use std::collections::BTreeSet;

use super::super::super::numbers::Numbers;
use super::super::Decision;
use crate::annotation::{Annotation, NetworkNameAnnotation, TunnelKeys};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{AttachmentObject, Snapshot, by_age};
use crate::ident::{NetworkId, RouterKey};
use crate::network::NetworkName;

/// The numbers of one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NetworkNumbers {
    pub(super) name: NetworkName,
    pub(super) id: NetworkId,
    pub(super) keys: TunnelKeys,
}

impl NetworkNumbers {
    /// The annotations of the network's definitions.
    pub(super) fn annotations(&self) -> [(&'static str, String); 3] {
        [
            (NetworkNameAnnotation::KEY, self.name.to_string()),
            (NetworkId::KEY, self.id.format()),
            (TunnelKeys::KEY, self.keys.format()),
        ]
    }

    /// True if a definition has all of them: only then may anything use them.
    pub(super) fn are_shown_by(&self, attachment: &AttachmentObject) -> bool {
        self.annotations().iter().all(|(key, value)| attachment.meta.annotations.get(*key) == Some(value))
    }
}

/// The numbers that networks have.
#[derive(Debug)]
pub(super) struct IdLedger {
    ids: Numbers<NetworkName>,
    routers: Numbers<NetworkName>,
    /// Definitions that have shown the ledger's numbers.
    confirmed: BTreeSet<String>,
}

impl Default for IdLedger {
    fn default() -> Self {
        IdLedger {
            ids: Numbers::new(NetworkId::MIN.get().into(), NetworkId::MAX.get().into()),
            routers: Numbers::new(RouterKey::MIN.get(), RouterKey::MAX.get()),
            confirmed: BTreeSet::new(),
        }
    }
}

impl IdLedger {
    /// Takes annotated numbers into the ledger, frees those of networks that are gone, and gives new ones.
    pub(super) fn reserve(
        &mut self,
        snapshot: &Snapshot,
        wanted: &BTreeSet<NetworkName>,
        out: &mut Decision,
    ) {
        let definitions = by_age(&snapshot.attachments);
        let mut present = wanted.clone();
        for definition in &definitions {
            // A definition that is on its way out keeps its numbers until it is gone.
            if let Ok(Some(NetworkNameAnnotation(name))) =
                NetworkNameAnnotation::read(&definition.meta.annotations)
            {
                present.insert(name);
            }
        }
        self.ids.retain(|name| present.contains(name));
        self.routers.retain(|name| present.contains(name));
        for definition in &definitions {
            self.read(definition, out);
        }
        self.confirmed.retain(|uid| definitions.iter().any(|it| it.meta.uid == *uid));
        for name in wanted {
            self.ids.allocate(name);
            self.routers.allocate(name);
        }
    }

    fn read(&mut self, definition: &AttachmentObject, out: &mut Decision) {
        let annotations = &definition.meta.annotations;
        let Ok(Some(NetworkNameAnnotation(name))) = NetworkNameAnnotation::read(annotations) else {
            self.note_if_confirmed(definition, out);
            return;
        };
        let id = NetworkId::read(annotations).ok().flatten();
        let keys = TunnelKeys::read(annotations).ok().flatten();
        if let Some(id) = id.filter(|_| self.ids.get(&name).is_none()) {
            self.ids.reserve(&name, id.get().into());
        }
        if let Some(keys) = keys.filter(|_| self.routers.get(&name).is_none()) {
            self.routers.reserve(&name, keys.router.get());
        }
        match self.numbers(&name) {
            Some(numbers) if numbers.are_shown_by(definition) => {
                self.confirmed.insert(definition.meta.uid.clone());
            }
            _ => self.note_if_confirmed(definition, out),
        }
    }

    fn note_if_confirmed(&self, definition: &AttachmentObject, out: &mut Decision) {
        if self.confirmed.contains(&definition.meta.uid) && !definition.meta.is_deleting {
            let message = format!(
                "somebody changed the id or the keys of network {}; the manager restores them",
                definition.meta.object_name()
            );
            out.notice(Kind::Attachment, &definition.meta, "NetworkIDRestored", message);
        }
    }

    /// The numbers of a network with both.
    pub(super) fn numbers(&self, name: &NetworkName) -> Option<NetworkNumbers> {
        let id = NetworkId::new(self.ids.get(name)?)?;
        let router = RouterKey::new(self.routers.get(name)?)?;
        Some(NetworkNumbers { name: name.clone(), id, keys: TunnelKeys { switch: id.switch_key(), router } })
    }
}
