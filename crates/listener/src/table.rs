//! All connections of one listener, and the choice of the one to close.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::Client;
use crate::activity::{Activity, Reason};
use crate::limits::Limits;

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) limits: Limits,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    all: HashMap<u64, Arc<Activity>>,
    /// The number of connections of each client.
    clients: HashMap<Client, usize>,
    /// The number of requests in progress, without health checks.
    requests: usize,
}

impl Inner {
    fn remove(&mut self, id: u64) {
        let Some(activity) = self.all.remove(&id) else { return };
        if let Some(count) = self.clients.get_mut(&activity.client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&activity.client);
            }
        }
    }

    /// Closes the lowest-ranked connection, of one client or of all; returns whether there was one.
    fn make_room(&mut self, client: Option<Client>) -> bool {
        let now = Instant::now();
        let candidates = self.all.values().filter(|it| client.is_none_or(|client| it.client == client));
        let ranked = candidates.filter_map(|it| Some((it.rank(now)?, it)));
        let Some((_, idlest)) = ranked.min_by_key(|(rank, _)| *rank) else { return false };
        idlest.close(Reason::RoomNeeded);
        let id = idlest.id;
        self.remove(id);
        true
    }
}

impl Table {
    pub(crate) fn new(limits: Limits) -> Self {
        Table { limits, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, and closes another one if there are too many. `None` if all others have a request in progress.
    pub(crate) fn admit(&self, client: Client) -> Option<Arc<Activity>> {
        let mut inner = self.inner();
        if inner.clients.get(&client).is_some_and(|count| *count >= self.limits.per_client) {
            // If none of its connections is idle, the client is busy, which is permitted.
            inner.make_room(Some(client));
        }
        if inner.all.len() >= self.limits.connections && !inner.make_room(None) {
            return None;
        }
        let id = inner.next;
        inner.next += 1;
        let activity = Arc::new(Activity::new(id, client));
        inner.all.insert(id, Arc::clone(&activity));
        *inner.clients.entry(client).or_default() += 1;
        Some(activity)
    }

    /// Closes the lowest-ranked connection to free its file descriptor.
    pub(crate) fn make_room(&self) -> bool {
        self.inner().make_room(None)
    }

    pub(crate) fn remove(&self, activity: &Activity) {
        self.inner().remove(activity.id);
    }

    /// Closes expired connections.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut inner = self.inner();
        let overdue: Vec<_> =
            inner.all.values().filter_map(|it| Some((it.id, it.overdue(&self.limits, now)?))).collect();
        for (id, reason) in overdue {
            if let Some(activity) = inner.all.get(&id) {
                activity.close(reason);
            }
            inner.remove(id);
        }
    }

    /// Reserves a slot for a request in progress. `None` if all are taken.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<RequestPlace> {
        let mut inner = self.inner();
        if inner.requests >= self.limits.requests() {
            return None;
        }
        inner.requests += 1;
        Some(RequestPlace(Arc::clone(self)))
    }
}

/// A request in progress; dropping it frees its slot.
#[derive(Debug)]
pub(crate) struct RequestPlace(Arc<Table>);

impl Drop for RequestPlace {
    fn drop(&mut self) {
        self.0.inner().requests -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    fn client(n: u8) -> Client {
        Client::of(Ipv4Addr::new(192, 0, 2, n).into())
    }

    fn table() -> Table {
        Table::new(Limits { connections: 4, per_client: 2, ..Limits::default() })
    }

    fn held(table: &Table) -> Vec<u64> {
        let mut ids: Vec<_> = table.inner().all.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_its_share_loses_its_own_idlest() {
        let table = table();
        for n in [1, 1, 2, 1] {
            assert!(table.admit(client(n)).is_some());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(held(&table), [1, 2, 3]);
        let inner = table.inner();
        assert_eq!((inner.clients[&client(1)], inner.clients[&client(2)]), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_client_has_as_many_as_there_is_room_for() {
        let table = table();
        let all: Vec<_> = (0..4).map(|_| table.admit(client(1)).inspect(|it| it.begin())).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(table.admit(client(2)).is_none(), "nobody is idle");
        all[2].as_ref().unwrap().done();
        assert!(table.admit(client(2)).is_some());
        assert_eq!(held(&table), [0, 1, 3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_is_closed_and_forgotten() {
        let table = table();
        let (silent, busy) = (table.admit(client(1)).unwrap(), table.admit(client(2)).unwrap());
        busy.begin();
        tokio::time::advance(table.limits.first_request).await;
        table.sweep();
        assert_eq!(silent.closed().await, Reason::NoRequest);
        assert_eq!(held(&table), [1]);
        table.remove(&silent);
        table.remove(&busy);
        assert!(table.inner().clients.is_empty());
    }
}
