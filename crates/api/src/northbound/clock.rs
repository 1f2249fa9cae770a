//! The waits that are over. Pure: the time is an argument.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use imbl::ordmap::DiffItem;
use uuid::Uuid;

use crate::model::Port;
use crate::report::Report;
use crate::snapshot::Late;
use crate::snapshot::sessions::Sessions;
use crate::world::World;

/// Time limit of routes for a session that takes over from another.
const TAKEOVER: Duration = Duration::from_secs(10);

/// Remembers since when each waiting object has waited.
#[derive(Debug, Default)]
pub(super) struct Clock {
    world: World,
    report: Report,
    /// Gateway ports that no chassis hosts.
    unhosted: BTreeMap<Uuid, Instant>,
    /// Sessions that some route does not use yet.
    unsettled: BTreeMap<Uuid, Instant>,
    late: Late,
}

impl Clock {
    /// The waits that are over now, and the time of the next possible change. While the Southbound is not connected, the hosts of gateways
    /// are unknown, so the result stays the same.
    pub(super) fn late(
        &mut self,
        world: &World,
        report: &Report,
        sessions: &Sessions,
        sees_southbound: bool,
        grace: Duration,
        now: Instant,
    ) -> (Late, Option<Instant>) {
        let mut next = Vec::new();
        self.note_changes(world, report, now);
        for (port, since) in &mut self.unhosted {
            if !sees_southbound && !self.late.stranded.contains(port) {
                *since = now;
            }
            let until = *since + grace;
            if until <= now {
                self.late.stranded.insert(*port);
            } else if sees_southbound {
                next.push(until);
            }
        }
        let unsettled: Vec<Uuid> = sessions.unsettled().collect();
        self.unsettled.retain(|row, _| unsettled.contains(row));
        self.late.overdue = self.late.overdue.iter().filter(|row| unsettled.contains(row)).copied().collect();
        for row in unsettled {
            let until = *self.unsettled.entry(row).or_insert(now) + TAKEOVER;
            if until <= now {
                self.late.overdue.insert(row);
            } else {
                next.push(until);
            }
        }
        (self.late.clone(), next.into_iter().min())
    }

    /// Updates only gateway ports that were added or removed, or whose host appeared or disappeared since the last call.
    fn note_changes(&mut self, world: &World, report: &Report, now: Instant) {
        let ports = world.table::<Port>().changes_since(self.world.table::<Port>());
        let mut touched: Vec<Uuid> = ports
            .flat_map(|(before, after)| before.into_iter().chain(after))
            .filter(|port| port.is_gateway())
            .map(|port| port.id)
            .collect();
        touched.extend(self.report.gateways.diff(&report.gateways).map(|item| match item {
            DiffItem::Add(id, _) | DiffItem::Remove(id, _) | DiffItem::Update { new: (id, _), .. } => *id,
        }));
        for id in touched {
            let gateway = world.get::<Port>(&id).is_some_and(|port| port.is_gateway());
            if gateway && !report.gateways.contains_key(&id) {
                self.unhosted.entry(id).or_insert(now);
            } else {
                self.unhosted.remove(&id);
                self.late.stranded.remove(&id);
            }
        }
        (self.world, self.report) = (world.clone(), report.clone());
    }
}

// The tests may start from any instant.
#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::desired::tests::scene::*;
    use crate::resource::fixture::id;

    #[test]
    fn a_gateway_is_stranded_after_the_grace_and_no_longer_when_hosted() {
        let (start, grace) = (Instant::now(), Duration::from_secs(5));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut scene = Scene::new();
        scene.router(0x40).gateway(0x41, 0x40, N1, S1, "192.0.2.100", &["ch1"]);
        let mut clock = Clock::default();
        let mut late = |scene: &Scene, sees: bool, second: u64| {
            let snapshot = &scene.snapshot;
            let (world, report, sessions) = (&snapshot.world, &snapshot.report, &snapshot.sessions);
            let (late, next) = clock.late(world, report, sessions, sees, grace, at(second));
            (late.stranded.contains(&id(0x41)), next.map(|next| next.duration_since(start).as_secs()))
        };
        assert_eq!(late(&scene, true, 0), (false, Some(5)));
        assert_eq!(late(&scene, true, 4), (false, Some(5)));
        assert_eq!(late(&scene, true, 5), (true, None));
        assert_eq!(late(&scene, false, 6), (true, None), "what is not seen does not change");
        scene.hosted(0x41, Some("ch1"));
        assert_eq!(late(&scene, true, 7), (false, None));
        scene.hosted(0x41, None);
        assert_eq!(late(&scene, false, 20), (false, None), "nobody knows whether it is hosted");
        assert_eq!(late(&scene, false, 40), (false, None));
        assert_eq!(late(&scene, true, 41), (false, Some(45)));
        assert_eq!(late(&scene, true, 45), (true, None));
        scene.edit(|txn| drop(txn.remove::<Port>(&id(0x41))));
        assert_eq!(late(&scene, true, 46), (false, None));
    }
}
