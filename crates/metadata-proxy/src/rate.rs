//! Limits of requests per source address, in two independent windows.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
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
    /// Whether IPv4 sources are limited.
    pub ipv4: bool,
    /// Whether IPv6 sources are.
    pub ipv6: bool,
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
    /// The same sources, the one that was quiet for longest first: a VM that uses a new address for each request must not cost more
    /// than one that does not.
    quiet: BTreeSet<(Instant, IpAddr)>,
}

/// The time at which the newest window of a source began.
fn newest(counts: &[Count; 2]) -> Instant {
    let [base, burst] = counts;
    base.begun.max(burst.begun)
}

impl RateTable {
    /// An empty table.
    pub fn new(limits: RateLimits) -> Self {
        RateTable { limits, sources: BTreeMap::new(), quiet: BTreeSet::new() }
    }

    /// Counts a request; whether it may pass.
    pub fn admits(&mut self, source: IpAddr, at: Instant) -> bool {
        if !(if source.is_ipv4() { self.limits.ipv4 } else { self.limits.ipv6 }) {
            return true;
        }
        match self.sources.get(&source) {
            Some(counts) => _ = self.quiet.remove(&(newest(counts), source)),
            // The source that was quiet for longest has least to lose.
            None if self.sources.len() >= SOURCES => {
                if let Some((_, quiet)) = self.quiet.pop_first() {
                    self.sources.remove(&quiet);
                }
            }
            None => {}
        }
        let new = Count { begun: at, now: 0, before: 0 };
        let counts = self.sources.entry(source).or_insert([new; 2]);
        let [base, burst] = counts;
        // Both count every request.
        let is_admitted =
            [base.admits(self.limits.base, at), burst.admits(self.limits.burst, at)] == [true; 2];
        self.quiet.insert((newest(counts), source));
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the beginning")]
    fn the_eleventh_of_ten_is_refused_for_each_source_alone() {
        let limit = |seconds, requests| RateLimit { window: Duration::from_secs(seconds), requests };
        let mut table =
            RateTable::new(RateLimits { base: limit(10, 10), burst: limit(1, 4), ipv4: true, ipv6: true });
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
    fn a_family_that_is_not_limited_is_not_counted() {
        let limit = RateLimit { window: Duration::from_secs(10), requests: 1 };
        let mut table = RateTable::new(RateLimits { base: limit, burst: limit, ipv4: true, ipv6: false });
        let at = Instant::now();
        let mut passed = |source: &str| (0..3).filter(|_| table.admits(source.parse().unwrap(), at)).count();
        assert_eq!((passed("10.0.1.5"), passed("fe80::5")), (1, 3));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the beginning")]
    fn a_flood_of_addresses_takes_no_more_room() {
        let limit = RateLimit { window: Duration::from_secs(10), requests: 1 };
        let mut table = RateTable::new(RateLimits { base: limit, burst: limit, ipv4: true, ipv6: true });
        let start = Instant::now();
        let at = |n: u32| start + Duration::from_millis(n.into());
        let source = |n: u32| std::net::Ipv4Addr::from(n).into();
        for n in 0..SOURCES as u32 {
            assert!(table.admits(source(n), at(n)));
        }
        // The first source asks again, in a new window.
        assert!(table.admits(source(0), at(20_000)));
        for n in 0..10 {
            assert!(table.admits(source(1_000_000 + n), at(20_000 + n)));
        }
        assert_eq!(table.sources.len(), SOURCES);
        assert!(!table.admits(source(0), at(20_020)), "it was not forgotten");
        let forgotten: Vec<u32> = (0..20).filter(|n| !table.sources.contains_key(&source(*n))).collect();
        assert_eq!(forgotten, (1..11).collect::<Vec<_>>(), "those that were quiet for longest were");
        let known: BTreeSet<_> =
            table.sources.iter().map(|(source, counts)| (newest(counts), *source)).collect();
        assert_eq!(table.quiet, known, "no source is looked for in all others");
    }
}
