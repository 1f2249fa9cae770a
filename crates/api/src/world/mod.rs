//! The whole state of the API at one instant.
//!
//! A [`World`] is a value: cloning it is cheap, and a clone never changes under its holder. Tables are ordered maps that share structure,
//! because every request and every reconciler run takes a copy. Lookups are slower than in a hash map, but still far cheaper than a
//! request. Beside the tables are the [`Link`]s, so that "the ports of this network" does not scan all ports, and tallies, so that neither
//! a quota check nor the placement of a gateway has to count.
//!
//! Only a [`Txn`] can change a world, and only the store can publish the result.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod entity;
mod link;
mod record;
mod revision;
mod runs;
mod table;
mod txn;

use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use smol_str::SmolStr;
use uuid::Uuid;

pub use entity::{Change, Entity, EntityKey, Kind, Row};
pub use link::Link;
pub use ovn::writer::{Revision, RevisionError};
pub use record::{Record, link_by_name, quota_owner};
pub(crate) use revision::{Ancestry, CHANGES_KEPT};
pub use runs::{after, before};
pub use table::Table;
pub use txn::{Outside, Txn};

/// The whole state of the API: its tables and the indexes over them.
#[derive(Clone, Debug, Default)]
pub struct World {
    tables: entity::Tables,
    links: OrdSet<(Link, Uuid)>,
    addresses: OrdMap<(Uuid, IpAddr), Uuid>,
    runs: runs::Runs,
    tallies: OrdMap<(Kind, SmolStr), u64>,
    loads: OrdMap<(SmolStr, SmolStr, u8), u32>,
    revision: Revision,
    restores: u64,
}

impl World {
    /// The store's sequence number of the last change.
    pub fn seq(&self) -> u64 {
        self.revision.seq
    }

    /// The revision of the store that this world is.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of times that this process found the store restored from a backup, that is, without a revision that it had read.
    pub fn restores(&self) -> u64 {
        self.restores
    }

    /// The same world with another count of restores.
    pub(crate) fn with_restores(self, restores: u64) -> Self {
        World { restores, ..self }
    }

    /// Whether the world contains no entity at all.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The table of one noun.
    pub fn table<T: Entity>(&self) -> &Table<T> {
        T::table(&self.tables)
    }

    /// The entity with a key.
    pub fn get<T: Entity>(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.table::<T>().get(key)
    }

    /// The entities of a link, in order of id. Skips ids whose entity is not of noun `T`.
    pub fn linked<T: Entity<Key = Uuid>>(&self, link: Link) -> impl Iterator<Item = &Arc<T>> {
        let range = (link.clone(), Uuid::nil())..=(link, Uuid::max());
        self.links.range(range).filter_map(|(_, id)| self.get::<T>(id))
    }

    /// Whether a link has any entity.
    pub fn has_linked(&self, link: Link) -> bool {
        let range = (link.clone(), Uuid::nil())..=(link, Uuid::max());
        self.links.range(range).next().is_some()
    }

    /// The port that holds an address of a subnet.
    pub fn address_holder(&self, subnet: Uuid, address: IpAddr) -> Option<Uuid> {
        self.addresses.get(&(subnet, address)).copied()
    }

    /// The used addresses of a subnet from `from` on, in order.
    pub fn addresses_from(&self, subnet: Uuid, from: IpAddr) -> impl Iterator<Item = (IpAddr, Uuid)> + '_ {
        self.addresses
            .range((subnet, from)..)
            .take_while(move |((of, _), _)| *of == subnet)
            .map(|((_, address), port)| (*address, *port))
    }

    /// The last of the used addresses of a subnet that follow `address` without a gap; none if `address` itself is free.
    pub fn last_taken(&self, subnet: Uuid, address: IpAddr) -> Option<IpAddr> {
        self.runs.last_taken(subnet, address)
    }

    /// The used addresses of a subnet as ranges without gaps: the first and last of each.
    pub fn taken_runs(&self, subnet: Uuid) -> impl Iterator<Item = (IpAddr, IpAddr)> + '_ {
        self.runs.of(subnet)
    }

    /// The number of objects of a noun that a project owns.
    pub fn tally(&self, kind: Kind, project: &str) -> u64 {
        self.tallies.get(&(kind, SmolStr::new(project))).copied().unwrap_or(0)
    }

    /// The number of gateway ports on each chassis, by physical network (empty: through tunnels) and rank.
    pub fn gateway_loads(&self) -> impl Iterator<Item = (&SmolStr, &SmolStr, u8, u32)> {
        self.loads.iter().map(|((physical, chassis, rank), ports)| (physical, chassis, *rank, *ports))
    }

    /// Takes in the changes that lead to `revision`, made by this process or by another on the same store.
    pub fn advance<'c>(&mut self, revision: Revision, changes: impl IntoIterator<Item = &'c Change>) {
        for change in changes {
            match change {
                Change::Put(row) => row.clone().put_into(self),
                Change::Remove(kind, key) => kind.remove_from(key, self),
            }
        }
        self.revision = revision;
    }

    fn insert<T: Entity>(&mut self, entity: Arc<T>) -> Option<Arc<T>> {
        let key = entity.key();
        let before = self.delete::<T>(&key);
        entity.links(&mut |link, id| drop(self.links.insert((link, id))));
        entity.addresses(&mut |subnet, address, port| {
            self.addresses.insert((subnet, address), port);
            self.runs.take(subnet, address);
        });
        if let Some(project) = entity.counted_in() {
            *self.tallies.entry((T::KIND, SmolStr::new(project))).or_insert(0) += 1;
        }
        entity.loads(&mut |physical, chassis, rank| {
            *self.loads.entry((SmolStr::new(physical), SmolStr::new(chassis), rank)).or_insert(0) += 1;
        });
        T::table_mut(&mut self.tables).insert(key, entity);
        before
    }

    fn delete<T: Entity>(&mut self, key: &T::Key) -> Option<Arc<T>> {
        let before = T::table_mut(&mut self.tables).remove(key)?;
        before.links(&mut |link, id| drop(self.links.remove(&(link, id))));
        before.addresses(&mut |subnet, address, port| {
            // The address may already belong to another port.
            if self.addresses.get(&(subnet, address)) == Some(&port) {
                self.addresses.remove(&(subnet, address));
                self.runs.free(subnet, address);
            }
        });
        if let Some(project) = before.counted_in() {
            let slot = (T::KIND, SmolStr::new(project));
            match self.tallies.get(&slot) {
                Some(n) if *n > 1 => drop(self.tallies.insert(slot, n - 1)),
                _ => drop(self.tallies.remove(&slot)),
            }
        }
        before.loads(&mut |physical, chassis, rank| {
            let slot = (SmolStr::new(physical), SmolStr::new(chassis), rank);
            match self.loads.get(&slot) {
                Some(n) if *n > 1 => drop(self.loads.insert(slot, n - 1)),
                _ => drop(self.loads.remove(&slot)),
            }
        });
        Some(before)
    }
}

#[cfg(test)]
mod tests;
