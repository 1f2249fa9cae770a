use super::*;
use std::time::Duration;

const DELAYS: Delays = Delays { first: Duration::from_millis(100), max: Duration::from_secs(1) };

struct Bench {
    start: Instant,
    holds: Holds<&'static str>,
}

impl Bench {
    fn new() -> Self {
        // A base for arithmetic, never compared with the real time.
        #[expect(clippy::disallowed_methods)]
        Self { start: Instant::now(), holds: Holds::new(DELAYS) }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// One run: plans `steps`, applies those that are not held with `result`, and returns the ids of the held objects.
    fn run(
        &mut self,
        ms: u64,
        steps: &[(&str, &'static str)],
        result: impl Fn(&str) -> StepResult,
    ) -> Vec<String> {
        let now = self.at(ms);
        let mut plan = Plan::new(0, 0);
        steps.iter().for_each(|(id, op)| plan.push(ObjectId::new("o", *id), *op));
        self.holds.forget_settled(now, &plan);
        let held = self.holds.held(now, &plan);
        plan.steps.retain(|step| !held.contains(&step.object));
        let results = plan.steps.iter().map(|step| result(&step.object.id.text())).collect();
        self.holds.record(now, plan, Applied { results }, || 1.0);
        held.into_iter().map(|object| object.id.to_string()).collect()
    }

    fn next(&self) -> Option<u64> {
        self.holds.next().map(|at| at.duration_since(self.start).as_millis() as u64)
    }
}

fn done(_: &str) -> StepResult {
    StepResult::Done
}

fn fails(class: Class) -> impl Fn(&str) -> StepResult {
    move |id| match id {
        "bad" => StepResult::Failed(TargetError::new(class, "make it").because("no")),
        _ => StepResult::Done,
    }
}

const NONE: [String; 0] = [];

#[test]
fn a_failed_object_waits_and_the_others_do_not() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(0, &[("bad", "make"), ("good", "make")], fails(Class::Refused)), NONE);
    assert_eq!(bench.next(), Some(100));
    let problem = bench.holds.problems().next().unwrap();
    assert_eq!(problem.class, Class::Refused);
    assert!(problem.message.starts_with("could not make it: no; correct the object"), "{problem}");
    assert_eq!(bench.run(50, &[("bad", "make"), ("more", "make")], fails(Class::Refused)), ["bad"]);
    assert_eq!(bench.run(100, &[("bad", "make")], fails(Class::Refused)), NONE);
    assert_eq!(bench.next(), Some(300), "the second wait is twice as long");
}

#[test]
fn a_changed_plan_for_the_object_is_tried_at_once() {
    let mut bench = Bench::new();
    bench.run(0, &[("bad", "make")], fails(Class::Refused));
    assert_eq!(bench.run(10, &[("bad", "make better")], done), NONE);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.holds.problems().count(), 0);
}

#[test]
fn an_object_that_is_as_wanted_is_forgotten() {
    let mut bench = Bench::new();
    bench.run(0, &[("bad", "make")], fails(Class::Transient));
    bench.run(10, &[], done);
    assert_eq!((bench.next(), bench.holds.problems().count()), (None, 0));
    bench.run(20, &[("bad", "make")], fails(Class::Transient));
    assert_eq!(bench.next(), Some(120), "its wait starts over");
}

#[test]
fn a_conflict_is_looked_at_again_at_once_but_not_for_ever() {
    let mut bench = Bench::new();
    for (now, next) in [(0, 0), (0, 0), (0, 0), (0, 100)] {
        assert_eq!(bench.run(now, &[("bad", "make")], fails(Class::Conflict)), NONE);
        assert_eq!(bench.next(), Some(next));
        assert_eq!(bench.holds.problems().count(), usize::from(next > 0), "a problem only when it lasts");
    }
    assert_eq!(bench.run(50, &[("bad", "make")], fails(Class::Conflict)), ["bad"]);
}

#[test]
fn steps_that_succeed_in_vain_slow_down_and_are_reported() {
    let mut bench = Bench::new();
    // (now, next retry, number of reports)
    for (now, next, reported) in
        [(0, None, 0), (1, Some(101), 0), (101, Some(301), 0), (301, Some(701), 1), (701, Some(1_501), 1)]
    {
        assert_eq!(bench.run(now, &[("a", "make")], done), NONE, "{now}");
        assert_eq!(bench.next(), next, "{now}");
        assert_eq!(bench.holds.problems().count(), reported, "{now}");
    }
    assert_eq!(bench.holds.problems().next().unwrap().code, "does-not-converge");
    assert_eq!(bench.run(800, &[("a", "make"), ("b", "make")], done), ["a"]);
}

#[test]
fn release_tries_everything_at_once() {
    let mut bench = Bench::new();
    bench.run(0, &[("bad", "make")], fails(Class::Refused));
    bench.holds.release();
    assert_eq!(bench.run(1, &[("bad", "make")], fails(Class::Refused)), NONE);
}

#[test]
fn missing_results_are_not_successes() {
    let mut bench = Bench::new();
    let mut plan = Plan::new(2, 0);
    plan.push(ObjectId::new("o", "a"), "make");
    plan.push(ObjectId::new("o", "b"), "make");
    let now = bench.at(0);
    let tally = bench.holds.record(now, plan, Applied { results: vec![StepResult::Done] }, || 1.0);
    assert_eq!(tally, Tally { done: 1, failed: 0 });
}

#[test]
fn steps_that_were_never_tried_are_no_successes_in_vain() {
    let mut bench = Bench::new();
    for now in 0..5 {
        assert_eq!(bench.run(now, &[("a", "make")], |_| StepResult::Skipped), NONE);
        assert_eq!((bench.next(), bench.holds.problems().count()), (None, 0));
    }
}

#[test]
fn what_is_undone_again_and_again_is_reported_by_name() {
    let mut bench = Bench::new();
    let mut told = Vec::new();
    // Another program removes one rule each second; another object appears and disappears by itself.
    for second in 0..5 {
        let flap = if second % 2 == 0 { "add" } else { "del" };
        let now = 1000 * second;
        assert_eq!(bench.run(now, &[("rule", "add"), ("vm", flap)], done), NONE, "it is put back at once");
        bench.run(now + 10, &[], done);
        told.push(bench.holds.undone().map(|p| format!("{} {}", p.object, p.code)).collect::<Vec<_>>());
    }
    assert_eq!(told[2], NONE);
    assert_eq!(told[3..], [["o/rule undone-again"], ["o/rule undone-again"]]);
    let message = &bench.holds.undone().next().unwrap().message;
    assert!(message.contains("undone 4 times in 10 s"), "{message}");
    // The report ends after a while without interference.
    bench.run(13_900, &[], done);
    assert_eq!(bench.holds.undone().count(), 1);
    bench.run(14_100, &[], done);
    assert_eq!(bench.holds.undone().count(), 0);
    // Once in a while is an operator's mistake, and no fight.
    for minute in 1..9 {
        bench.run(60_000 * minute, &[("rule", "add")], done);
        bench.run(60_000 * minute + 10, &[], done);
    }
    assert_eq!(bench.holds.undone().count(), 0);
}
