//! Counts of a proxy since its start. The agent, which has the metrics, gets them with each sign of its own.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The result of a search for the instance behind a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceResult {
    /// An instance has the address.
    Known,
    /// None has it.
    Unknown,
    /// Several have it.
    Ambiguous,
    /// An instance has it, but the request came from another Ethernet address.
    ForeignMac,
    /// The identities, or the neighbour table, are not there or no longer current.
    Stale,
}

impl SourceResult {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            SourceResult::Known => "known",
            SourceResult::Unknown => "unknown",
            SourceResult::Ambiguous => "ambiguous",
            SourceResult::ForeignMac => "foreign_mac",
            SourceResult::Stale => "stale",
        }
    }
}

/// The counts. Numbers of a proxy that has restarted begin at zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests by the status of their answer.
    pub answers: Vec<(u16, u64)>,
    /// Requests by the result of the search for their instance.
    pub sources: Vec<(SourceResult, u64)>,
    /// Answers of Nova.
    pub nova_answers: u64,
    /// Requests that Nova did not answer.
    pub nova_failures: u64,
    /// Time until those answers, together.
    pub nova_milliseconds: u64,
    /// Open connections of VMs; with haproxy, they are haproxy's.
    pub connections: u64,
}

/// The counts as they grow.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Growing>);

#[derive(Debug, Default)]
struct Growing {
    answers: BTreeMap<u16, u64>,
    sources: BTreeMap<SourceResult, u64>,
    nova_answers: u64,
    nova_failures: u64,
    nova_time: Duration,
}

impl Counters {
    fn change(&self, change: impl FnOnce(&mut Growing)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts an answer to a VM.
    pub(crate) fn answered(&self, status: u16) {
        self.change(|counts| *counts.answers.entry(status).or_default() += 1);
    }

    /// Counts a search.
    pub(crate) fn searched(&self, result: SourceResult) {
        self.change(|counts| *counts.sources.entry(result).or_default() += 1);
    }

    /// Counts a request to Nova, which took so long; without a time it failed.
    pub(crate) fn asked(&self, time: Option<Duration>) {
        self.change(|counts| match time {
            Some(time) => {
                counts.nova_answers += 1;
                counts.nova_time = counts.nova_time.saturating_add(time);
            }
            None => counts.nova_failures += 1,
        });
    }

    /// The counts at this moment.
    pub(crate) fn now(&self, connections: u64) -> Counts {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Counts {
            answers: counts.answers.iter().map(|(status, count)| (*status, *count)).collect(),
            sources: counts.sources.iter().map(|(result, count)| (*result, *count)).collect(),
            nova_answers: counts.nova_answers,
            nova_failures: counts.nova_failures,
            nova_milliseconds: u64::try_from(counts.nova_time.as_millis()).unwrap_or(u64::MAX),
            connections,
        }
    }
}
