//! Table tests with a clock that the test moves: times are milliseconds since the start.

use super::*;

const TIMING: Timing = Timing {
    window: Duration::from_millis(10),
    max_delay: Duration::from_millis(50),
    resync: Duration::from_millis(10_000),
    backoff: Delays { first: Duration::from_millis(100), max: Duration::from_millis(1_000) },
    limit: Duration::from_millis(0),
    stop_grace: Duration::from_millis(0),
};

const SETTLED: RunEnd = RunEnd::Ran { changed: false, failed: false, retry: None };
const CHANGED: RunEnd = RunEnd::Ran { changed: true, failed: false, retry: None };
const DOWN: RunEnd = RunEnd::Failed { class: Class::Transient, pure: false };
const PANIC: RunEnd = RunEnd::Failed { class: Class::Bug, pure: true };
const CONFLICT: RunEnd = RunEnd::Failed { class: Class::Conflict, pure: false };

struct Clock {
    start: Instant,
    schedule: Schedule,
}

impl Clock {
    fn new() -> Self {
        // A base for arithmetic, never compared with the real time.
        #[expect(clippy::disallowed_methods)]
        let start = Instant::now();
        Self { start, schedule: Schedule::new(TIMING, start) }
    }

    /// Past its first run, which settled at 0.
    fn settled() -> Self {
        let mut clock = Self::new();
        assert_eq!(clock.run(0, SETTLED), Some((Cause::Start, Scope::Full)));
        clock
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn wake(&mut self, ms: u64) {
        self.schedule.wake(self.at(ms), Wake::Changed);
    }

    fn run(&mut self, ms: u64, ended: RunEnd) -> Option<(Cause, Scope)> {
        let now = self.at(ms);
        let begun = self.schedule.begin(now);
        if begun.is_some() {
            self.schedule.finish(now, ended, 1.0);
        }
        begun
    }

    fn due(&self) -> (u64, Cause) {
        let (at, cause) = self.schedule.due();
        (at.duration_since(self.start).as_millis() as u64, cause)
    }
}

#[test]
fn wakes_coalesce_within_the_window_and_the_longest_delay() {
    let table: [(&[u64], u64); 5] = [
        (&[100], 110),
        (&[100, 105], 115),
        (&[100, 109, 118, 127], 137),
        (&[100, 109, 118, 127, 136, 145], 150),
        (&[100, 100, 100], 110),
    ];
    for (wakes, due) in table {
        let mut clock = Clock::settled();
        for ms in wakes {
            assert_eq!(clock.run(*ms, SETTLED), None, "{wakes:?}");
            clock.wake(*ms);
        }
        assert_eq!(clock.due(), (due, Cause::Wake), "{wakes:?}");
        assert_eq!(clock.run(due - 1, SETTLED), None);
        assert_eq!(clock.run(due, SETTLED), Some((Cause::Wake, Scope::Cached)));
        assert_eq!(clock.due().1, Cause::Resync, "the wakes are answered");
    }
}

#[test]
fn a_steady_stream_of_wakes_runs_once_per_longest_delay() {
    let mut clock = Clock::settled();
    let runs: Vec<u64> = (1..=300)
        .filter(|ms| {
            clock.wake(*ms);
            clock.run(*ms, SETTLED).is_some()
        })
        .collect();
    assert_eq!(runs, [51, 102, 153, 204, 255]);
}

#[test]
fn a_run_that_changed_something_is_followed_by_a_look() {
    let mut clock = Clock::settled();
    clock.wake(100);
    assert_eq!(clock.run(110, CHANGED), Some((Cause::Wake, Scope::Cached)));
    assert_eq!(clock.due(), (120, Cause::Wake));
    clock.run(120, SETTLED);
    assert_eq!(clock.due().1, Cause::Resync);
}

#[test]
fn failures_back_off_read_in_full_and_start_over_after_success() {
    let mut clock = Clock::new();
    for (now, next) in [(0, 100), (100, 300), (300, 700), (700, 1_500), (1_500, 2_500), (2_500, 3_500)] {
        assert!(clock.run(now, DOWN).is_some(), "{now}");
        assert_eq!(clock.due(), (next, Cause::Retry));
    }
    assert_eq!(clock.run(3_500, SETTLED), Some((Cause::Retry, Scope::Full)));
    clock.wake(4_000);
    clock.run(4_010, DOWN);
    assert_eq!(clock.due(), (4_110, Cause::Retry));
}

#[test]
fn what_a_wake_does_while_backing_off() {
    // (failure, kind of wake, when and why the next run is due)
    let table = [
        (DOWN, Wake::Changed, (100, Cause::Retry)),
        (PANIC, Wake::Changed, (30, Cause::Wake)),
        (DOWN, Wake::Now, (20, Cause::Asked)),
        (PANIC, Wake::Now, (20, Cause::Asked)),
    ];
    for (failure, wake, due) in table {
        let mut clock = Clock::new();
        clock.run(0, failure);
        clock.schedule.wake(clock.at(20), wake);
        assert_eq!(clock.due(), due, "{failure:?} {wake:?}");
        assert_eq!(clock.run(due.0, SETTLED), Some((due.1, Scope::Full)));
        assert_eq!(clock.due().1, Cause::Resync, "the wake is answered by that run");
    }
}

#[test]
fn a_conflict_looks_again_at_once_but_not_for_ever() {
    let mut clock = Clock::settled();
    clock.wake(100);
    assert!(clock.run(110, CONFLICT).is_some());
    assert_eq!(clock.run(110, CONFLICT), Some((Cause::Retry, Scope::Full)));
    assert!(clock.run(110, CONFLICT).is_some());
    assert_eq!(clock.due(), (110, Cause::Retry));
    assert!(clock.run(110, CONFLICT).is_some());
    assert_eq!(clock.due(), (210, Cause::Retry));
}

#[test]
fn held_objects_are_tried_again_and_do_not_hold_up_wakes() {
    let mut clock = Clock::settled();
    clock.wake(100);
    let retry = Some(clock.at(400));
    clock.run(110, RunEnd::Ran { changed: false, failed: true, retry });
    assert_eq!(clock.due(), (400, Cause::Retry));
    assert_eq!(clock.schedule.next_try(), retry);
    clock.wake(200);
    assert_eq!(clock.due(), (210, Cause::Wake));
    let ran = clock.run(210, RunEnd::Ran { changed: false, failed: false, retry });
    assert_eq!(ran, Some((Cause::Wake, Scope::Full)), "a failure makes the next look a full one");
    clock.wake(250);
    let ran = clock.run(260, RunEnd::Ran { changed: false, failed: false, retry });
    assert_eq!(ran, Some((Cause::Wake, Scope::Cached)), "a held object alone does not");
    assert_eq!(clock.run(400, SETTLED), Some((Cause::Retry, Scope::Full)));
}

#[test]
fn resync_counts_from_the_last_full_look() {
    let mut clock = Clock::settled();
    assert_eq!(clock.due(), (10_000, Cause::Resync));
    clock.wake(5_000);
    clock.run(5_010, SETTLED);
    assert_eq!(clock.due(), (10_000, Cause::Resync), "a cached look does not count");
    clock.schedule.wake(clock.at(6_000), Wake::Now);
    clock.run(6_000, SETTLED);
    assert_eq!(clock.due(), (16_000, Cause::Resync));
    assert_eq!(clock.run(16_000, SETTLED), Some((Cause::Resync, Scope::Full)));
    assert_eq!(clock.due(), (26_000, Cause::Resync));
}

#[test]
fn a_missing_input_waits_for_a_wake_and_stays_a_first_full_look() {
    let mut clock = Clock::new();
    clock.run(0, RunEnd::Waiting);
    assert_eq!(clock.due(), (10_000, Cause::Resync));
    clock.run(10_000, RunEnd::Waiting);
    assert_eq!(clock.due(), (20_000, Cause::Resync), "no hot loop");
    clock.wake(11_000);
    assert_eq!(clock.run(11_010, SETTLED), Some((Cause::Wake, Scope::Full)));
}

#[test]
fn an_input_that_goes_missing_does_not_leave_a_retry_due_for_ever() {
    let mut clock = Clock::settled();
    clock.wake(100);
    let retry = Some(clock.at(200));
    clock.run(110, RunEnd::Ran { changed: false, failed: true, retry });
    assert_eq!(clock.run(200, RunEnd::Waiting), Some((Cause::Retry, Scope::Full)));
    assert_eq!(clock.due(), (10_000, Cause::Resync));
}

#[test]
fn what_was_asked_for_is_not_answered_by_less() {
    let mut clock = Clock::settled();
    clock.wake(100);
    clock.schedule.wake(clock.at(120), Wake::Now);
    assert_eq!(clock.due(), (110, Cause::Wake), "which is earlier");
    assert_eq!(clock.run(120, SETTLED), Some((Cause::Asked, Scope::Full)));
    assert_eq!(clock.due().1, Cause::Resync, "both are answered");
}
