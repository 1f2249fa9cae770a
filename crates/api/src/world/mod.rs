//! The whole state of the API at one instant.
//!
//! A [`World`] is a value: cloning it is cheap, and a clone never changes under its holder. Tables are ordered maps that
//! share structure, because every request and every reconciler run takes a copy; lookups are slower than in a hash map, and
//! still far below the cost of a request. Next to the tables stand the [`Link`]s, so that "the ports of this network" does
//! not look at every port, and tallies, so that neither a quota check nor the placing of a gateway counts.
//!
//! [`Txn`] is the only way to change one, and the store the only one to publish the result.
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

/// Everything the API knows.
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
    /// The store's sequence number of the last change in it.
    pub fn seq(&self) -> u64 {
        self.revision.seq
    }

    /// Which state of which store it is.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How often this process found the store restored from a backup, with a past that is not the one it had read.
    pub fn restores(&self) -> u64 {
        self.restores
    }

    /// The same world, from a store that was restored so often.
    pub(crate) fn with_restores(self, restores: u64) -> Self {
        World { restores, ..self }
    }

    /// Whether it has no entity of any noun.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The table of one noun.
    pub fn table<T: Entity>(&self) -> &Table<T> {
        T::table(&self.tables)
    }

    /// One entity.
    pub fn get<T: Entity>(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.table::<T>().get(key)
    }

    /// What a link leads to, in order of id. Ids whose entity is of another noun than `T` are passed over.
    pub fn linked<T: Entity<Key = Uuid>>(&self, link: Link) -> impl Iterator<Item = &Arc<T>> {
        let range = (link.clone(), Uuid::nil())..=(link, Uuid::max());
        self.links.range(range).filter_map(|(_, id)| self.get::<T>(id))
    }

    /// Whether a link leads anywhere.
    pub fn has_linked(&self, link: Link) -> bool {
        let range = (link.clone(), Uuid::nil())..=(link, Uuid::max());
        self.links.range(range).next().is_some()
    }

    /// The port that has an address of a subnet.
    pub fn address_holder(&self, subnet: Uuid, address: IpAddr) -> Option<Uuid> {
        self.addresses.get(&(subnet, address)).copied()
    }

    /// The taken addresses of a subnet from `from` on, in order.
    pub fn addresses_from(&self, subnet: Uuid, from: IpAddr) -> impl Iterator<Item = (IpAddr, Uuid)> + '_ {
        self.addresses
            .range((subnet, from)..)
            .take_while(move |((of, _), _)| *of == subnet)
            .map(|((_, address), port)| (*address, *port))
    }

    /// The last of the taken addresses of a subnet that follow `address` without a gap; none if it is free itself.
    pub fn last_taken(&self, subnet: Uuid, address: IpAddr) -> Option<IpAddr> {
        self.runs.last_taken(subnet, address)
    }

    /// The taken addresses of a subnet as runs without gaps: first and last of each.
    pub fn taken_runs(&self, subnet: Uuid) -> impl Iterator<Item = (IpAddr, IpAddr)> + '_ {
        self.runs.of(subnet)
    }

    /// How many objects of a noun a project has.
    pub fn tally(&self, kind: Kind, project: &str) -> u64 {
        self.tallies.get(&(kind, SmolStr::new(project))).copied().unwrap_or(0)
    }

    /// How many gateway ports of a physical network (empty: reached through tunnels) each chassis has at each rank.
    pub fn gateway_loads(&self) -> impl Iterator<Item = (&SmolStr, &SmolStr, u8, u32)> {
        self.loads.iter().map(|((physical, chassis, rank), ports)| (physical, chassis, *rank, *ports))
    }

    /// Takes in changes that lead to `revision`: by this process or by another on the same store.
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
            // The address may have moved to another port already.
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
