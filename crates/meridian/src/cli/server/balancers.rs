//! Prometheus metrics of load balancers and their members.

use std::collections::BTreeMap;
use std::fmt;

use api::Report;
use api::status::{LoadBalancerStatus, load_balancers};
use api::store::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;

/// The load balancers of a server, counted at each scrape.
pub(super) struct BalancerMetrics {
    pub(super) store: Store,
    pub(super) report: watch::Receiver<Report>,
}

impl fmt::Debug for BalancerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalancerMetrics").finish_non_exhaustive()
    }
}

impl Collector for BalancerMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = self.report.borrow().clone();
        encode(&load_balancers(&self.store.world(), &report, jiff::Timestamp::now()), encoder)
    }
}

fn encode(all: &[LoadBalancerStatus], mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let gauge = ConstGauge::new(0_i64).metric_type();
    let number = |count: usize| ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
    let mut states: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for balancer in all {
        *states.entry((&balancer.provisioning_status, &balancer.operating_status)).or_default() += 1;
    }
    let help = "Load balancers, by their states";
    let mut family = encoder.encode_descriptor("load_balancers", help, None, gauge)?;
    for ((provisioning, operating), count) in states {
        let labels = [("provisioning_status", provisioning), ("operating_status", operating)];
        number(count).encode(family.encode_family(&labels)?)?;
    }
    let help =
        "Load balancers with a VIP that nobody answers for, because no router has a port in its subnet";
    let unrouted = all.iter().filter(|balancer| balancer.vips.iter().any(|vip| vip.unrouted)).count();
    let family = encoder.encode_descriptor("load_balancers_unrouted", help, None, gauge)?;
    number(unrouted).encode(family)?;
    let total = |count: fn(&LoadBalancerStatus) -> usize| all.iter().map(count).sum::<usize>();
    let (members, failed) = (total(|it| it.members.all), total(|it| it.members.failed));
    let set_aside = total(|it| it.members.set_aside);
    let help =
        "Members of load balancers: those that failed, those that their owner set aside, and the others";
    let mut family = encoder.encode_descriptor("load_balancer_members", help, None, gauge)?;
    let serving = members.saturating_sub(failed + set_aside);
    for (state, count) in [("failed", failed), ("set-aside", set_aside), ("serving", serving)] {
        number(count).encode(family.encode_family(&[("state", state)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;

    #[derive(Debug)]
    struct Fixed(Vec<LoadBalancerStatus>);

    impl Collector for Fixed {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            super::encode(&self.0, encoder)
        }
    }

    #[test]
    fn load_balancers_and_members_are_counted_by_state() {
        let one = |operating: &str, unrouted: bool| {
            // One of the VIPs is enough.
            let vips =
                [false, unrouted].map(|unrouted| json!({"address": "10.0.0.10", "unrouted": unrouted}));
            serde_json::from_value(json!({
                "id": "6b1c0000-0000-4000-8000-000000000001", "name": "web", "project_id": "p",
                "provisioning_status": "ACTIVE", "operating_status": operating, "routers": ["r"], "chassis": [],
                "vips": vips, "members": {"all": 5, "failed": 1, "set_aside": 1}, "failed": [],
            }))
            .unwrap()
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Fixed(vec![one("ONLINE", false), one("DEGRADED", true)])));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "load_balancers{provisioning_status=\"ACTIVE\",operating_status=\"DEGRADED\"} 1",
            "load_balancers_unrouted 1",
            "load_balancer_members{state=\"failed\"} 2",
            "load_balancer_members{state=\"serving\"} 6",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
