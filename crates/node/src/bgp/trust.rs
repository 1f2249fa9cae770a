//! The trust in the inputs: from the time and the state of the databases, it derives which inputs to doubt, and until when.
//!
//! - Our row in `Chassis` may be gone for a moment, while ovn-controller restarts: `chassis_grace`.
//! - When it is back, it is another row, and our ports are bound to it one by one: `mass_withdraw_hold`.
//! - A database that was away may come back empty, or as it was last week: from when it is connected to until
//!   `mass_withdraw_hold` after its rows are there.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

use ovsdb::Uuid;

use super::config::Config;

/// The present doubts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// For how long our row in `Chassis` has been missing.
    pub chassis_missing: Duration,
    /// Whether a loss of most addresses is to be disbelieved.
    pub guard: bool,
    /// Whether ports are still being bound to our new row in `Chassis`.
    pub rebinding: bool,
}

/// The number of reconnects and loads of a database so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comings {
    /// It was connected to.
    pub connections: u64,
    /// All its rows were there.
    pub syncs: u64,
}

/// The observations so far.
#[derive(Clone, Debug, Default)]
pub struct InputTrust {
    me: Option<Uuid>,
    missing_since: Option<Instant>,
    comings: Option<Comings>,
    /// Connected to, and its rows are not there yet.
    loading: bool,
    guarded_until: Option<Instant>,
    rebound_until: Option<Instant>,
}

impl InputTrust {
    /// Takes in what is there now: our row in `Chassis`, and how often the database came back so far.
    pub fn look(&mut self, now: Instant, me: Option<Uuid>, comings: Comings, config: &Config) -> Doubts {
        let before = self.comings.replace(comings);
        if before.map(|before| before.syncs) != Some(comings.syncs) {
            self.loading = false;
            self.guarded_until = now.checked_add(config.mass_withdraw_hold);
        } else if before != Some(comings) {
            // Rows are told of before it is told that they are all there.
            self.loading = true;
        }
        match me {
            Some(me) => {
                self.missing_since = None;
                // The first one is nobody's successor.
                if self.me.replace(me).is_some_and(|before| before != me) {
                    self.rebound_until = now.checked_add(config.mass_withdraw_hold);
                }
            }
            None => _ = self.missing_since.get_or_insert(now),
        }
        Doubts {
            chassis_missing: self.missing_since.map_or(Duration::ZERO, |since| now.duration_since(since)),
            guard: self.loading || self.guarded_until.is_some_and(|until| now < until),
            rebinding: self.rebound_until.is_some_and(|until| now < until),
        }
    }

    /// The time at which the doubts change without a further event.
    pub fn next(&self, now: Instant, config: &Config) -> Option<Instant> {
        let grace = self.missing_since.and_then(|since| since.checked_add(config.chassis_grace));
        let all = [grace, self.guarded_until, self.rebound_until];
        all.into_iter().flatten().filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_begin_and_end() {
        let (mut standing, config) = (InputTrust::default(), Config::default());
        // Where time begins does not matter, so any instant will do.
        #[expect(clippy::disallowed_methods)]
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (old, new) = (Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2)));
        let guard = Doubts { guard: true, ..Default::default() };
        let came = |connections, syncs| Comings { connections, syncs };
        assert_eq!(standing.look(at(0), old, came(1, 1), &config), guard, "the first connection is one, too");
        assert_eq!(standing.next(at(0), &config), Some(at(10)));
        assert_eq!(standing.look(at(10), old, came(1, 1), &config), Doubts::default());
        assert_eq!(standing.next(at(10), &config), None);
        // However long it takes to load, the time begins when all is there.
        assert_eq!(standing.look(at(20), old, came(2, 1), &config), guard);
        assert_eq!(standing.look(at(35), old, came(2, 1), &config), guard);
        assert_eq!(standing.look(at(36), old, came(2, 2), &config), guard);
        assert_eq!(standing.next(at(36), &config), Some(at(46)));
        assert_eq!(standing.look(at(46), old, came(2, 2), &config), Doubts::default());
        // Our row goes, and comes back as another.
        standing.look(at(50), None, came(2, 2), &config);
        assert_eq!(standing.next(at(50), &config), Some(at(80)));
        assert_eq!(standing.look(at(79), None, came(2, 2), &config).chassis_missing, Duration::from_secs(29));
        let rebinding = Doubts { rebinding: true, ..Default::default() };
        assert_eq!(standing.look(at(90), new, came(2, 2), &config), rebinding);
        assert_eq!(standing.look(at(99), new, came(2, 2), &config), rebinding);
        assert_eq!(standing.look(at(100), new, came(2, 2), &config), Doubts::default());
    }
}
