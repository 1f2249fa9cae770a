//! Instances of bgpd that are not tied to their VRF, though the kernel has it.
//!
//! bgpd ties an instance to its VRF when it hears of the VRF from zebra, or when the instance is made after that. One that
//! `import vrf` has made by itself is passed over by FRR 10: if the VRF comes then, and `router bgp .. vrf ..` only after it, the
//! instance shows -1 for the VRF's number, redistributes nothing and never will, whatever is entered into it. It has to be made
//! anew. We enter lines in an order in which that cannot happen; a configuration that was saved has them in the other.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use smol_str::SmolStr;

use crate::kernel::Dev;

/// So long zebra may take to tell bgpd of a VRF.
pub const TOLD: Duration = Duration::from_secs(1);

/// An instance that should be tied to its VRF by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adrift {
    /// It is time to make it anew.
    Due,
    /// It was time for that a moment ago, and it is not tied still.
    Tried,
}

/// Those that are not tied to their VRF, of the VRFs that are there, in the answer to `show bgp vrfs json`.
pub fn untied(json: &str, vrfs: &BTreeSet<Dev>) -> BTreeSet<SmolStr> {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let instances = value["vrfs"].as_object().into_iter().flatten();
    let untied = instances.filter(|(_, about)| about["vrfId"] == -1).map(|(name, _)| SmolStr::new(name));
    untied.filter(|name| vrfs.contains(name)).collect()
}

/// The state of VRFs from one observation to the next.
#[derive(Debug, Default)]
pub struct Untied(BTreeMap<SmolStr, Watched>);

#[derive(Debug)]
struct Watched {
    /// The time of the next action.
    due: Instant,
    tried: bool,
}

impl Untied {
    /// Takes in what a look has found, and tells what of it has lasted. Each is due once in `pause`, however often one looks.
    pub fn look(
        &mut self,
        now: Instant,
        found: BTreeSet<SmolStr>,
        pause: Duration,
    ) -> BTreeMap<SmolStr, Adrift> {
        self.0.retain(|name, _| found.contains(name));
        let mut adrift = BTreeMap::new();
        for name in found {
            let watched = self.0.entry(name.clone()).or_insert(Watched { due: now + TOLD, tried: false });
            if watched.due <= now {
                *watched = Watched { due: now + pause, tried: true };
                adrift.insert(name, Adrift::Due);
            } else if watched.tried {
                adrift.insert(name, Adrift::Tried);
            }
        }
        adrift
    }

    /// Whether there is one that may yet be tied by itself: one looks again after [`TOLD`].
    pub fn waits(&self) -> bool {
        self.0.values().any(|watched| !watched.tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<SmolStr> {
        names.iter().map(SmolStr::new).collect()
    }

    #[test]
    fn only_instances_whose_vrf_is_there_are_meant() {
        let text = r#"{"vrfs":{"default":{"vrfId":0},"a":{"vrfId":-1},"b":{"vrfId":-1},"c":{"vrfId":9}}}"#;
        assert_eq!(untied(text, &names(&["a", "c", "d"])), names(&["a"]));
        for nothing in ["", "% Unknown command", "{}", r#"{"vrfs":[{"vrfId":-1}]}"#, r#"{"vrfs":{"a":1}}"#] {
            assert_eq!(untied(nothing, &names(&["a"])), names(&[]), "{nothing}");
        }
    }

    #[test]
    fn one_is_due_when_it_lasts_and_then_once_in_a_while() {
        #[expect(clippy::disallowed_methods)]
        let (start, pause) = (Instant::now(), Duration::from_secs(15));
        let mut untied = Untied::default();
        let mut look = |seconds: u64, found: &[&str]| {
            let adrift = untied.look(start + Duration::from_secs(seconds), names(found), pause);
            (adrift.into_values().collect::<Vec<_>>(), untied.waits())
        };
        let (none, due, tried) = (vec![], vec![Adrift::Due], vec![Adrift::Tried]);
        for (seconds, found, expected) in [
            (0, &["v"][..], (none.clone(), true)),
            // Tied in time, and adrift again later.
            (1, &[], (none.clone(), false)),
            (9, &["v"], (none.clone(), true)),
            (10, &["v"], (due.clone(), false)),
            (10, &["v"], (tried.clone(), false)),
            (24, &["v"], (tried, false)),
            (25, &["v"], (due, false)),
            (25, &[], (none.clone(), false)),
            (26, &["v"], (none, true)),
        ] {
            assert_eq!(look(seconds, found), expected, "at {seconds} s");
        }
    }
}
