//! The driver in paused time, with a small world that fails on demand.

mod soak;
mod world;

use std::time::Duration;

use tokio::time::{advance, sleep};

use self::world::{Bench, Fault, ms};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_component_starts_works_and_converges() {
    let bench = Bench::start([("a", 1), ("b", 2)]);
    let mut seen = vec![bench.status().state];
    let mut status = bench.handle.status();
    while *seen.last().unwrap() != State::Converged {
        status.changed().await.unwrap();
        seen.push(status.borrow_and_update().state);
    }
    seen.dedup();
    assert_eq!(seen, [State::Starting, State::Working, State::Converged]);
    let status = bench.status();
    assert_eq!((status.want, status.have, status.planned, status.held), (2, 2, 0, 0));
    assert_eq!((status.generation, status.next_try), (2, None));
    assert!(status.last_run.is_some() && status.last_success.is_some() && status.last_error.is_none());
    let stages: Vec<Stage> = status.stages.iter().map(|time| time.stage).collect();
    assert_eq!(stages, [Stage::Snapshot, Stage::Desire, Stage::Observe, Stage::Plan]);
    assert_eq!(bench.have(), [("a", 1), ("b", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_wakes_is_one_run() {
    let bench = Bench::converged([("a", 1)]).await;
    let before = bench.status().generation;
    for n in 0..100 {
        bench.want("a", n);
        tokio::task::yield_now().await;
    }
    bench.settle().await;
    assert_eq!(bench.have(), [("a", 99)]);
    assert_eq!(bench.status().generation, before + 2, "one run that changes, one look that confirms");
}

#[tokio::test(start_paused = true)]
async fn a_steady_stream_of_wakes_does_not_starve_the_loop() {
    let bench = Bench::converged([("a", 0)]).await;
    let before = bench.status().generation;
    for n in 1..=200 {
        bench.want("a", n);
        sleep(ms(5)).await;
    }
    let runs = bench.status().generation - before;
    assert!((15..=25).contains(&runs), "{runs} runs in a second with at most 50 ms of delay");
    let lag = 200 - bench.have()[0].1;
    assert!(lag <= 12, "{lag} changes behind");
}

#[tokio::test(start_paused = true)]
async fn a_wake_during_a_run_is_answered_by_the_next() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.world(|w| w.apply_takes = ms(500));
    bench.want("a", 2);
    sleep(ms(100)).await;
    bench.want("a", 3);
    sleep(ms(2_000)).await;
    assert_eq!(bench.have(), [("a", 3)]);
    assert_eq!(bench.status().state, State::Converged);
}

#[tokio::test(start_paused = true)]
async fn a_failing_target_backs_off_and_wakes_do_not_shorten_it() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.world(|w| w.apply_fault = Some(Fault::Error(Class::Transient)));
    bench.want("a", 2);
    sleep(ms(20)).await;
    let status = bench.status();
    assert_eq!(status.state, State::BackingOff);
    assert!(status.next_try.is_some());
    assert!(
        status.last_error.unwrap().message.starts_with("could not write: out of order; Meridian retries")
    );
    assert_eq!(status.problems[0].object, ObjectId::new("component", "test"));
    let before = bench.world(|w| w.observed.len());
    for _ in 0..2_000 {
        bench.handle.wake();
        sleep(ms(5)).await;
    }
    let tries = bench.world(|w| w.observed.len()) - before;
    assert!((8..=25).contains(&tries), "{tries} tries in 10 s with waits of up to 1 s");
    bench.world(|w| w.apply_fault = None);
    sleep(ms(1_100)).await;
    assert_eq!((bench.status().state, bench.have()), (State::Converged, vec![("a", 2)]));
    assert!(bench.status().problems.is_empty());
    assert!(bench.status().last_error.is_some(), "it stays on record");
}

#[tokio::test(start_paused = true)]
async fn run_now_ends_a_wait() {
    let bench = Bench::start([("a", 1)]);
    bench.world(|w| w.observe_fault = Some(Fault::Error(Class::Transient)));
    sleep(ms(5_000)).await;
    assert_eq!(bench.status().state, State::BackingOff);
    bench.world(|w| w.observe_fault = None);
    bench.handle.run_now();
    sleep(ms(1)).await;
    assert_eq!(bench.have(), [("a", 1)]);
}

#[tokio::test(start_paused = true)]
async fn one_bad_object_does_not_stop_the_rest() {
    let bench = Bench::start([("a", 1), ("bad", 2), ("c", 3)]);
    bench.world(|w| w.bad.insert("bad".into(), Class::Refused));
    bench.settle().await;
    assert_eq!(bench.have(), [("a", 1), ("c", 3)]);
    let status = bench.status();
    assert_eq!((status.state, status.want, status.have), (State::Stuck, 3, 2));
    assert_eq!(status.problems[0].object, ObjectId::new("thing", "bad"));
    assert_eq!(
        bench.world(|w| w.observed.clone()),
        [Scope::Full, Scope::Full],
        "after a failure nothing remembered is trusted"
    );

    // The other objects continue at full speed, and the bad one is not retried with each of them.
    sleep(ms(10_000)).await;
    let tried = bench.world(|w| w.tried("bad"));
    for n in 0..10 {
        bench.want("a", n);
        sleep(ms(20)).await;
        assert_eq!(bench.have()[0], ("a", n));
    }
    assert!(bench.world(|w| w.tried("bad")) <= tried + 2);

    // An explicit request retries it at once.
    let tried = bench.world(|w| w.tried("bad"));
    bench.handle.run_now();
    sleep(ms(1)).await;
    assert!(bench.world(|w| w.tried("bad")) > tried);

    // After the input is corrected, the loop retries the object by itself.
    bench.world(|w| w.bad.clear());
    bench.want("bad", 7);
    sleep(ms(20)).await;
    assert_eq!(bench.have()[1], ("bad", 7));
    bench.settle().await;
    assert_eq!((bench.status().state, bench.status().problems.len()), (State::Converged, 0));
}

#[tokio::test(start_paused = true)]
async fn an_undecided_object_stays_as_it_is() {
    let bench = Bench::converged([("a", 1), ("b", 2)]).await;
    bench.want("a", -1);
    bench.want("b", 3);
    bench.settle().await;
    assert_eq!(bench.have(), [("a", 1), ("b", 3)]);
    let status = bench.status();
    assert_eq!(status.state, State::Converged, "what can be decided is in place");
    assert_eq!(status.problems[0].code, "negative");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_planned_is_reported_and_the_rest_is_done() {
    let bench = Bench::start([("a", 1), ("b", 2_000)]);
    bench.settle().await;
    assert_eq!(bench.have(), [("a", 1)]);
    let codes = |problems: &[Problem]| problems.iter().map(|p| p.code.to_string()).collect::<Vec<_>>();
    assert_eq!(codes(&bench.status().problems), ["too-big"]);
    assert_eq!(codes(&bench.handle.plan().await.unwrap().problems), ["too-big"]);
    bench.world(|w| w.observe_fault = Some(Fault::Error(Class::Transient)));
    bench.handle.run_now();
    bench.settle().await;
    assert_eq!(
        codes(&bench.status().problems),
        ["observe-failed", "too-big"],
        "it is not forgotten meanwhile"
    );
    bench.world(|w| w.observe_fault = None);
    bench.want("b", 2);
    sleep(ms(500)).await;
    assert_eq!((bench.have(), bench.status().problems.len()), (vec![("a", 1), ("b", 2)], 0));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_looked_at_again_at_once() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.world(|w| w.apply_fault = Some(Fault::Once(Class::Conflict)));
    bench.want("a", 2);
    sleep(ms(11)).await;
    assert_eq!(bench.have(), [("a", 2)]);
    assert_eq!(
        bench.world(|w| w.observed.last().copied()),
        Some(Scope::Full),
        "with nothing taken from memory"
    );
    assert!(bench.status().last_error.is_none(), "among several writers it is everyday life");
    // When it lasts it is a failure like any other.
    bench.world(|w| w.apply_fault = Some(Fault::Error(Class::Conflict)));
    bench.want("a", 3);
    bench.settle().await;
    let status = bench.status();
    assert_eq!((status.state, status.problems[0].class), (State::BackingOff, Class::Conflict));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_pure_step_is_contained_and_new_input_is_a_new_chance() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.want("boom", 1);
    bench.settle().await;
    let status = bench.status();
    assert_eq!(status.state, State::Stuck);
    assert_eq!((status.problems[0].class, status.problems[0].code.as_str()), (Class::Bug, "panicked"));
    assert!(status.problems[0].message.contains("desire: cannot think of boom"), "{}", status.problems[0]);
    assert!(bench.world(|w| w.forgotten) > 0);
    sleep(ms(10_000)).await;
    bench.unwant("boom");
    bench.want("a", 2);
    sleep(ms(11)).await;
    assert_eq!(bench.have(), [("a", 2)], "it did not wait for the back-off");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_target_is_contained() {
    for stage in [Stage::Observe, Stage::Plan, Stage::Apply] {
        let bench = Bench::start([("a", 1)]);
        bench.world(|w| match stage {
            Stage::Observe => w.observe_fault = Some(Fault::Panic),
            Stage::Plan => w.plan_panics = true,
            _ => w.apply_fault = Some(Fault::Panic),
        });
        bench.settle().await;
        let status = bench.status();
        assert_eq!(status.state, State::Stuck);
        assert!(status.problems[0].message.starts_with(&format!("panicked in {}", stage.as_str())));
        bench.world(|w| (w.observe_fault, w.plan_panics, w.apply_fault) = (None, false, None));
        sleep(ms(1_500)).await;
        assert_eq!(bench.have(), [("a", 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_goes_silent_fails_in_the_end() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.world(|w| w.observe_fault = Some(Fault::Hang));
    bench.want("a", 2);
    sleep(ms(20_100)).await;
    let status = bench.status();
    assert_eq!(status.state, State::BackingOff);
    let message = status.last_error.unwrap().message;
    assert!(message.starts_with("could not read the target: no answer within 20 s"), "{message}");
    bench.world(|w| (w.observe_fault, w.apply_fault) = (None, Some(Fault::Hang)));
    // A write without an answer may have succeeded, so the loop observes again instead of repeating it.
    bench.handle.run_now();
    sleep(ms(10_000)).await;
    bench.world(|w| w.foreign("a", 2));
    bench.world(|w| w.apply_fault = None);
    sleep(ms(31_000)).await;
    assert_eq!((bench.status().state, bench.world(|w| w.tried("a"))), (State::Converged, 1));
}

#[tokio::test(start_paused = true)]
async fn resync_repairs_what_others_changed_unseen() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.world(|w| w.foreign("a", 9));
    sleep(ms(59_000)).await;
    assert_eq!(bench.have(), [("a", 9)]);
    sleep(ms(2_000)).await;
    assert_eq!(bench.have(), [("a", 1)]);
}

#[tokio::test(start_paused = true)]
async fn steps_without_effect_are_slowed_down_and_reported() {
    let bench = Bench::start([("a", 1), ("b", 1)]);
    bench.world(|w| w.lies = true);
    sleep(ms(60_000)).await;
    let status = bench.status();
    assert_eq!((status.state, status.problems.len()), (State::Stuck, 2));
    assert_eq!(status.problems[0].code, "does-not-converge");
    assert!(bench.world(|w| w.tried("a")) < 150, "about one try a second");
}

#[tokio::test(start_paused = true)]
async fn a_missing_input_is_named_and_waited_for() {
    let bench = Bench::start([("a", 1)]);
    bench.world(|w| w.ready = false);
    bench.settle().await;
    let status = bench.status();
    assert_eq!((status.state, status.waiting_for.as_deref()), (State::Starting, Some("the wishes")));
    assert_eq!(bench.handle.plan().await, Err(NoPlan::Waiting("the wishes".into())));
    bench.world(|w| w.ready = true);
    bench.handle.wake();
    bench.settle().await;
    assert_eq!((bench.status().state, bench.status().waiting_for), (State::Converged, None));
}

#[tokio::test(start_paused = true)]
async fn what_is_certain_is_done_while_the_rest_is_waited_for() {
    let bench = Bench::start([("a", 2), ("base", 1)]);
    bench.world(|w| {
        w.certain = Some([("base".to_owned(), 1)].into());
        w.ready = false;
    });
    bench.settle().await;
    assert_eq!(bench.have(), [("base", 1)]);
    let status = bench.status();
    assert_eq!((status.state, status.waiting_for.as_deref()), (State::Starting, Some("the wishes")));
    assert_eq!(status.last_success, None, "nobody is told that it is ready");
    assert_eq!(bench.handle.plan().await, Err(NoPlan::Waiting("the wishes".into())));
    // Another program undoes the change.
    bench.world(|w| w.foreign("base", 9));
    bench.handle.wake();
    bench.settle().await;
    assert_eq!(bench.have(), [("base", 1)]);
    bench.world(|w| w.ready = true);
    bench.handle.wake();
    bench.settle().await;
    assert_eq!(bench.have(), [("a", 2), ("base", 1)]);
    assert_eq!((bench.status().state, bench.status().waiting_for), (State::Converged, None));
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_shown_without_being_carried_out() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.world(|w| w.foreign("a", 9));
    bench.world(|w| w.foreign("stray", 9));
    let preview = bench.handle.plan().await.unwrap();
    assert_eq!((preview.want, preview.have), (1, 0));
    assert_eq!(
        preview.to_string(),
        "test: 0 of 1 objects in place\n  thing/a: set a to 1\n  thing/stray: drop stray"
    );
    assert_eq!(preview.steps[0].op, serde_json::json!({"Set": ["a", 1]}));
    let text = serde_json::to_string(&preview).unwrap();
    assert_eq!(serde_json::from_str::<Preview>(&text).unwrap(), preview);
    assert_eq!(bench.have(), [("a", 9), ("stray", 9)]);
    bench.world(|w| w.observe_fault = Some(Fault::Error(Class::Transient)));
    assert!(
        matches!(bench.handle.plan().await, Err(NoPlan::Failed(problem)) if problem.code == "observe-failed")
    );
}

/// An observation consumes the target's change events, whichever caller requested it.
#[tokio::test(start_paused = true)]
async fn what_a_shown_plan_has_found_is_done_by_the_loop() {
    let bench = Bench::converged([("a", 1)]).await;
    bench.world(|w| w.foreign("a", 9));
    assert_eq!(bench.handle.plan().await.unwrap().steps.len(), 1);
    bench.settle().await;
    assert_eq!(bench.have(), [("a", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_held_step_is_marked_in_the_shown_plan() {
    let bench = Bench::start([("bad", 2)]);
    bench.world(|w| w.bad.insert("bad".into(), Class::Transient));
    sleep(ms(10_000)).await;
    assert_eq!(bench.status().state, State::BackingOff);
    let preview = bench.handle.plan().await.unwrap();
    assert!(preview.steps[0].held && preview.problems.len() == 1, "{preview}");
}

#[tokio::test(start_paused = true)]
async fn stop_is_prompt_wherever_the_loop_is() {
    // Asleep.
    let bench = Bench::converged([("a", 1)]).await;
    bench.stops_within(Duration::ZERO).await;
    assert_eq!(bench.status().state, State::Stopped);
    assert_eq!(bench.handle.plan().await, Err(NoPlan::Stopped));
    // Observing something that does not answer.
    let bench = Bench::start([("a", 1)]);
    bench.world(|w| w.observe_fault = Some(Fault::Hang));
    bench.settle().await;
    bench.stops_within(Duration::ZERO).await;
    // A step that is being applied may end.
    let bench = Bench::start([("a", 1)]);
    bench.world(|w| w.apply_takes = ms(300));
    sleep(ms(100)).await;
    bench.stops_within(ms(200)).await;
    assert_eq!(bench.have(), [("a", 1)]);
    // Applying something that does not answer: the grace is 400 ms.
    let bench = Bench::start([("a", 1)]);
    bench.world(|w| w.apply_fault = Some(Fault::Hang));
    bench.settle().await;
    bench.stops_within(ms(400)).await;
}

#[tokio::test(start_paused = true)]
async fn following_an_input_wakes_the_loop_and_ends_with_it() {
    let bench = Bench::converged([("a", 1)]).await;
    let (input, output) = watch::channel(0);
    bench.handle.follow(output);
    let before = bench.status().generation;
    input.send_replace(1);
    bench.settle().await;
    assert_eq!(bench.status().generation, before + 1);
    bench.stops_within(Duration::ZERO).await;
    advance(ms(1)).await;
    input.closed().await;
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_changes_of_state_and_not_runs() {
    let log = world::Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let bench = Bench::converged([("a", 1)]).await;
    for n in 0..50 {
        bench.want("a", n);
        bench.settle().await;
    }
    assert_eq!(log.lines(), ["info state"], "from starting to fine, then nothing for 100 runs");
    bench.world(|w| w.bad.insert("a".into(), Class::Refused));
    bench.want("a", 77);
    sleep(ms(30_000)).await;
    assert_eq!(log.lines()[1..], ["warn a", "info state"], "once, though it was tried many times");
    bench.world(|w| w.bad.clear());
    sleep(ms(2_000)).await;
    assert_eq!(log.lines()[3..], ["info problem resolved", "info state"]);
}

#[tokio::test(start_paused = true)]
async fn runs_and_failures_are_counted() {
    let bench = Bench::converged([("a", 1), ("b", 1)]).await;
    bench.world(|w| w.observe_fault = Some(Fault::Once(Class::Transient)));
    bench.handle.run_now();
    bench.settle().await;
    let metric = |name: &str| bench.metric(name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(metric(r#"meridian_reconcile_runs_total{component="test"}"#), "3");
    assert_eq!(metric(r#"meridian_reconcile_failures_total{component="test",class="transient"}"#), "1");
    assert_eq!(metric(r#"meridian_reconcile_objects{component="test",state="have"}"#), "2");
    assert_eq!(metric(r#"meridian_reconcile_seconds_count{component="test",stage="apply"}"#), "1");
    bench.stops_within(Duration::ZERO).await;
    assert_eq!(bench.metric(r#"meridian_reconcile_objects{component="test",state="have"}"#), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs_on_a_multi_threaded_runtime_in_real_time() {
    let bench = Bench::start([("a", 1), ("boom", 1)]);
    let mut status = bench.handle.status();
    let limit = Duration::from_secs(30);
    let stuck = status.wait_for(|status| status.state == State::Stuck);
    drop(tokio::time::timeout(limit, stuck).await.unwrap().unwrap());
    bench.unwant("boom");
    let fine = status.wait_for(|status| status.state == State::Converged);
    drop(tokio::time::timeout(limit, fine).await.unwrap().unwrap());
    assert_eq!(bench.have(), [("a", 1)]);
}
