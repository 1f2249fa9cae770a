//! Log lines that a VM can cause as often as it likes: each is written once in a while, with the number of those that were left out.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// One kind of log line.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<(Option<Instant>, u64)>);

impl LogThrottle {
    /// The number of lines that were left out before this one; `None` if this one is left out as well.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, omitted) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            *omitted = omitted.saturating_add(1);
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the beginning")]
    fn a_flood_of_lines_is_one_line_and_a_number() {
        let (throttle, start) = (LogThrottle::default(), Instant::now());
        let at = |seconds| throttle.admit(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Some(0));
        assert_eq!([at(0), at(1), at(9)], [None; 3]);
        assert_eq!(at(10), Some(3));
        assert_eq!((at(11), at(20)), (None, Some(1)));
    }
}
