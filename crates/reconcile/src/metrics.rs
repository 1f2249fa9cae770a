//! The metrics of the loop: one set of names for all components, distinguished by the label `component`.
//!
//! The caller passes the registry; there are no globals. An unregistered [`Metrics`] counts but exports nothing, which suits tests.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use smol_str::SmolStr;

use crate::problem::Class;
use crate::status::Status;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfComponent {
    component: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    component: String,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    component: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfClass {
    component: String,
    class: &'static str,
}

/// The metric families of the loop. Clones share their counts; all components of a process use one.
#[derive(Debug, Clone)]
pub struct Metrics {
    seconds: Family<OfStage, Histogram, fn() -> Histogram>,
    objects: Family<OfState, Gauge>,
    problems: Family<OfClass, Gauge>,
    runs: Family<OfComponent, Counter>,
    failures: Family<OfClass, Counter>,
    last_success: Family<OfComponent, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            // 0.1 ms to 26 s.
            seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0001, 4.0, 10))),
            objects: Family::default(),
            problems: Family::default(),
            runs: Family::default(),
            failures: Family::default(),
            last_success: Family::default(),
        }
    }
}

impl Metrics {
    /// New families, registered in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let new = Self::default();
        registry.register(
            "meridian_reconcile_seconds",
            "Time spent in a stage of a run",
            new.seconds.clone(),
        );
        registry.register(
            "meridian_reconcile_objects",
            "Objects: desired, in place as desired, and held after a failure, as of the last run",
            new.objects.clone(),
        );
        registry.register("meridian_reconcile_problems", "Problems of the last run", new.problems.clone());
        registry.register("meridian_reconcile_runs", "Finished runs", new.runs.clone());
        registry.register(
            "meridian_reconcile_failures",
            "Runs of a component that failed as a whole",
            new.failures.clone(),
        );
        registry.register(
            "meridian_reconcile_last_success_timestamp_seconds",
            "Time of the last run that did not fail as a whole, in seconds since 1970",
            new.last_success.clone(),
        );
        new
    }

    /// Counts the run of `status`, and the failure that ended it, if any.
    pub(crate) fn ran(&self, status: &Status, failure: Option<Class>) {
        let component = || status.component.to_string();
        self.runs.get_or_create(&OfComponent { component: component() }).inc();
        for time in &status.stages {
            let labels = OfStage { component: component(), stage: time.stage.as_str() };
            self.seconds.get_or_create(&labels).observe(time.seconds);
        }
        for (state, count) in [("want", status.want), ("have", status.have), ("held", status.held)] {
            set(&self.objects.get_or_create(&OfState { component: component(), state }), count);
        }
        for class in Class::ALL {
            let labels = OfClass { component: component(), class: class.as_str() };
            set(
                &self.problems.get_or_create(&labels),
                status.problems.iter().filter(|problem| problem.class == class).count(),
            );
            let failures = self.failures.get_or_create(&labels);
            if failure == Some(class) {
                failures.inc();
            }
        }
        if let Some(at) = status.last_success {
            let labels = OfComponent { component: component() };
            self.last_success.get_or_create(&labels).set(Timestamp::as_second(at));
        }
    }

    /// Drops the gauges of a component that ended, so that nothing stale is scraped.
    pub(crate) fn stopped(&self, component: &SmolStr) {
        for state in ["want", "have", "held"] {
            self.objects.remove(&OfState { component: component.to_string(), state });
        }
        for class in Class::ALL {
            self.problems.remove(&OfClass { component: component.to_string(), class: class.as_str() });
        }
    }
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{ObjectId, Problem};
    use crate::status::{Stage, StageTime};
    use prometheus_client::encoding::text::encode;

    #[test]
    fn the_text_has_the_agreed_names() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let mut status = Status::starting("bgp".into());
        (status.want, status.have, status.held) = (3, 2, 1);
        status.stages.push(StageTime { stage: Stage::Plan, seconds: 0.001 });
        status.last_success = Timestamp::from_second(1_700_000_000).ok();
        status.problems.push(Problem::error(ObjectId::new("port", "p"), Class::Refused, "x", "m"));
        metrics.ran(&status, Some(Class::Transient));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"meridian_reconcile_seconds_count{component="bgp",stage="plan"} 1"#,
            r#"meridian_reconcile_objects{component="bgp",state="want"} 3"#,
            r#"meridian_reconcile_objects{component="bgp",state="have"} 2"#,
            r#"meridian_reconcile_objects{component="bgp",state="held"} 1"#,
            r#"meridian_reconcile_problems{component="bgp",class="refused"} 1"#,
            r#"meridian_reconcile_problems{component="bgp",class="bug"} 0"#,
            r#"meridian_reconcile_runs_total{component="bgp"} 1"#,
            r#"meridian_reconcile_failures_total{component="bgp",class="transient"} 1"#,
            r#"meridian_reconcile_failures_total{component="bgp",class="bug"} 0"#,
            r#"meridian_reconcile_last_success_timestamp_seconds{component="bgp"} 1700000000"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in:\n{text}");
        }
        metrics.stopped(&status.component);
        text.clear();
        encode(&mut text, &registry).unwrap();
        assert!(!text.contains(r#"state="want""#), "{text}");
    }
}
