//! The turns of requests to Nova: so many at a time, of all instances and of each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::lock;

/// Maximum number of requests to Nova at a time.
const ALL: usize = 64;
/// Maximum number of those of one instance, so that a slow answer for one does not keep the others waiting.
const PER_INSTANCE: usize = 16;
/// Maximum number of an instance's requests that wait for their turn.
const WAITING: usize = 32;
/// Time to wait for a turn. A client that gets 503 asks again; one that gets nothing gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turns of all instances.
#[derive(Debug)]
pub(super) struct Turns {
    all: Arc<Semaphore>,
    instances: Mutex<BTreeMap<String, Weak<InstanceTurns>>>,
}

#[derive(Debug)]
struct InstanceTurns {
    turns: Arc<Semaphore>,
    /// Places for requests that have their turn or wait for it.
    places: Arc<Semaphore>,
}

/// The turn of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _permits: [OwnedSemaphorePermit; 3],
    /// The others of the instance find it as long as this one is there.
    _instance: Arc<InstanceTurns>,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { all: Arc::new(Semaphore::new(ALL)), instances: Mutex::default() }
    }
}

impl Turns {
    /// Waits for a turn of this instance, and then for one of all; `None` if too many wait or it takes too long.
    pub(super) async fn take(&self, instance: &str) -> Option<Turn> {
        let own = self.of(instance);
        let place = Arc::clone(&own.places).try_acquire_owned().ok()?;
        let turns = async {
            let turn = Arc::clone(&own.turns).acquire_owned().await.ok()?;
            Some([place, turn, Arc::clone(&self.all).acquire_owned().await.ok()?])
        };
        let permits = timeout(PATIENCE, turns).await.ok()??;
        Some(Turn { _permits: permits, _instance: own })
    }

    fn of(&self, instance: &str) -> Arc<InstanceTurns> {
        let mut instances = lock(&self.instances);
        instances.retain(|_, turns| turns.strong_count() > 0);
        if let Some(turns) = instances.get(instance).and_then(Weak::upgrade) {
            return turns;
        }
        let turns = Arc::new(InstanceTurns {
            turns: Arc::new(Semaphore::new(PER_INSTANCE)),
            places: Arc::new(Semaphore::new(PER_INSTANCE + WAITING)),
        });
        instances.insert(instance.to_owned(), Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_does_not_wait_for_ever_for_those_of_others() {
        let turns = Turns::default();
        let mut slow = Vec::new();
        for instance in ["a", "b", "c", "d"] {
            for _ in 0..PER_INSTANCE {
                slow.push(turns.take(instance).await.unwrap());
            }
        }
        assert!(turns.take("e").await.is_none(), "nobody has ended");
        slow.pop();
        assert!(turns.take("e").await.is_some());
        drop(slow);
        assert!(turns.take("a").await.is_some());
        assert_eq!(turns.of("f").turns.available_permits(), PER_INSTANCE);
        assert_eq!(turns.instances.lock().unwrap().len(), 1, "those that are done take no room");
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_waits_with_few_requests() {
        let turns = Arc::new(Turns::default());
        let mut taken = JoinSet::new();
        for _ in 0..PER_INSTANCE + WAITING + 5 {
            let turns = Arc::clone(&turns);
            taken.spawn(async move { turns.take("a").await });
        }
        // Those that find no place are refused at once, and the others wait for a turn that does not come.
        let (mut served, mut refused) = (Vec::new(), 0);
        for _ in 0..PER_INSTANCE + 5 {
            match taken.join_next().await.unwrap().unwrap() {
                Some(turn) => served.push(turn),
                None => refused += 1,
            }
        }
        assert_eq!((served.len(), refused), (PER_INSTANCE, 5));
        served.clear();
        let next = taken.join_next().await.unwrap().unwrap();
        assert!(next.is_some());
    }
}
