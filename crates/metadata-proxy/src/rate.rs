//! Limits of requests per source address, in two independent windows.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum number of sources that a network's table remembers. A VM without port security can use any number of addresses.
const SOURCES: usize = 10_000;

/// A limit: so many requests within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The window.
    pub window: Duration,
    /// The requests in it; more are refused.
    pub requests: u32,
}

/// The two limits of every source: a request beyond either is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The limit of a long window.
    pub base: RateLimit,
    /// The limit of a short one.
    pub burst: RateLimit,
}

/// Counts of one window: the present one and the one before, which counts in proportion to what is left of it. It needs two
/// numbers for any number of requests.
#[derive(Clone, Copy, Debug)]
struct Count {
    begun: Instant,
    now: u32,
    before: u32,
}

impl Count {
    /// Adds a request; whether it is within the limit. Refused requests count as well, so that a flood stays refused.
    fn admits(&mut self, limit: RateLimit, at: Instant) -> bool {
        let windows = at.saturating_duration_since(self.begun).as_nanos() / limit.window.as_nanos().max(1);
        if windows > 0 {
            self.before = if windows == 1 { self.now } else { 0 };
            self.now = 0;
            self.begun += limit.window * u32::try_from(windows).unwrap_or(u32::MAX);
        }
        self.now = self.now.saturating_add(1);
        let left = limit.window.saturating_sub(at.saturating_duration_since(self.begun));
        let earlier = f64::from(self.before) * left.as_secs_f64() / limit.window.as_secs_f64().max(1e-9);
        f64::from(self.now) + earlier.floor() <= f64::from(limit.requests)
    }
}

/// The requests of a network's sources.
#[derive(Debug)]
pub struct RateTable {
    limits: RateLimits,
    sources: BTreeMap<IpAddr, [Count; 2]>,
}

impl RateTable {
    /// An empty table.
    pub fn new(limits: RateLimits) -> Self {
        RateTable { limits, sources: BTreeMap::new() }
    }

    /// Counts a request; whether it may pass.
    pub fn admits(&mut self, source: IpAddr, at: Instant) -> bool {
        if self.sources.len() >= SOURCES && !self.sources.contains_key(&source) {
            // The source that was quiet for longest has least to lose.
            let quiet = self.sources.iter().min_by_key(|(_, counts)| counts[0].begun.max(counts[1].begun));
            if let Some(quiet) = quiet.map(|(source, _)| *source) {
                self.sources.remove(&quiet);
            }
        }
        let new = Count { begun: at, now: 0, before: 0 };
        let [base, burst] = self.sources.entry(source).or_insert([new; 2]);
        // Both count every request.
        let (base, burst) = (base.admits(self.limits.base, at), burst.admits(self.limits.burst, at));
        base && burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the beginning")]
    fn the_eleventh_of_ten_is_refused_for_each_source_alone() {
        let limit = |seconds, requests| RateLimit { window: Duration::from_secs(seconds), requests };
        let mut table = RateTable::new(RateLimits { base: limit(10, 10), burst: limit(1, 4) });
        let (one, two) = ("10.0.1.5".parse().unwrap(), "fe80::5".parse().unwrap());
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let passed = |table: &mut RateTable, source, times: &[u64]| {
            times.iter().filter(|time| table.admits(source, at(**time))).count()
        };
        assert_eq!(passed(&mut table, one, &[0; 6]), 4, "the burst");
        assert_eq!(passed(&mut table, two, &[0; 4]), 4, "others are not hurt");
        assert_eq!(passed(&mut table, one, &[3000, 3500, 6000, 6500]), 4, "ten so far");
        assert_eq!(passed(&mut table, one, &[7000, 7500]), 0, "the base");
        assert_eq!(passed(&mut table, one, &[40_000]), 1, "forgotten after a while");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the beginning")]
    fn a_flood_of_addresses_takes_no_more_room() {
        let limit = RateLimit { window: Duration::from_secs(10), requests: 1 };
        let mut table = RateTable::new(RateLimits { base: limit, burst: limit });
        let at = Instant::now();
        for n in 0..SOURCES as u32 + 10 {
            table.admits(std::net::Ipv4Addr::from(n).into(), at + Duration::from_millis(n.into()));
        }
        assert_eq!(table.sources.len(), SOURCES);
    }
}
