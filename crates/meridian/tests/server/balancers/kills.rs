//! A server that dies by SIGKILL at any point of any kind of request goes on where it was.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::guarantees::contents;
use super::site::BalancerSite;
use crate::cloud::{eventually, try_raw};
use crate::plant::Plant;
use crate::world::id;

/// The moment of a death.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// So long after the request was sent, whether it was answered or not.
    Underway(Duration),
    /// So long after the answer.
    Answered(Duration),
    /// After the answer, while the Northbound does not take the rows.
    Unwritten,
}

/// A server whose death follows a request.
struct Victim {
    plant: Plant,
    site: BalancerSite,
}

impl Victim {
    /// Sends a request and kills the server at a moment of it; then restarts it. Returns the body of the answer, if there was one.
    fn ask(&mut self, moment: Moment, method: &str, path: &str, body: Option<Value>) -> Option<Value> {
        let body = body.map(|body| body.to_string());
        let (url, path) = (self.site.cloud.load_balancer_url().to_owned(), format!("/v2/lbaas/{path}"));
        let send = || try_raw(&url, &[("X-Auth-Token", "admin")], method, &path, body.as_deref()).ok();
        let answer = match moment {
            Moment::Underway(after) => thread::scope(|scope| {
                let sender = scope.spawn(send);
                thread::sleep(after);
                self.site.cloud.kill();
                sender.join().unwrap()
            }),
            Moment::Answered(after) => {
                let answer = send();
                thread::sleep(after);
                self.site.cloud.kill();
                answer
            }
            Moment::Unwritten => {
                self.plant.freeze();
                let answer = send();
                self.site.cloud.kill();
                self.plant.thaw();
                answer
            }
        };
        self.site.cloud.again();
        let answer = answer?;
        assert!((200..300).contains(&answer.status), "{method} {path} at {moment:?}: {answer:?}");
        Some(answer.body)
    }

    /// The load balancers, once all of them are ACTIVE.
    fn balancers(&self) -> Vec<Value> {
        self.site.settled();
        self.site.get("loadbalancers")["loadbalancers"].as_array().unwrap().clone()
    }

    /// The backends of the only VIP, once all is ACTIVE and the Northbound has no more to come.
    fn backends(&self, balancer: &str) -> usize {
        self.site.settled();
        self.site.cloud.converged();
        let row = self.site.row(balancer);
        let vips = row["vips"].as_object().unwrap();
        vips.values().next().map_or(0, |backends| backends.as_str().unwrap().split(',').count())
    }

    /// The names of ports that belong to load balancers.
    fn ports(&self) -> BTreeMap<String, usize> {
        let mut names = BTreeMap::new();
        for port in self.site.cloud.get("ports")["ports"].as_array().unwrap() {
            let name = port["name"].as_str().unwrap();
            if name.starts_with("ovn-lb-") {
                *names.entry(name.to_owned()).or_default() += 1;
            }
        }
        names
    }
}

fn tree(subnet: &str) -> Value {
    let member = |last: u8| json!({"address": format!("10.0.0.{last}"), "protocol_port": 80});
    let pool = json!({
        "name": "p", "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT", "members": [member(20), member(21)],
    });
    let listener = json!({"protocol": "TCP", "protocol_port": 80, "default_pool": pool});
    json!({"loadbalancer": {"name": "tree", "vip_subnet_id": subnet, "listeners": [listener]}})
}

#[test]
fn scenario_52_trees_batches_monitors_and_cascades_survive_a_kill() {
    let plant = Plant::start();
    let site = BalancerSite::on(plant.cloud(&[]));
    let mut victim = Victim { plant, site };
    let before = contents(&victim.site.cloud);
    let micros = Duration::from_micros;
    let moments = [
        Moment::Unwritten,
        Moment::Underway(micros(300)),
        Moment::Underway(micros(2_000)),
        Moment::Underway(micros(6_000)),
        Moment::Answered(micros(0)),
        Moment::Answered(micros(1_500)),
    ];
    for moment in moments {
        // A tree is there as a whole, or not at all.
        let tree = tree(&victim.site.s1);
        let answer = victim.ask(moment, "POST", "loadbalancers", Some(tree.clone()));
        let mut all = victim.balancers();
        if all.is_empty() {
            assert!(answer.is_none(), "an answered tree is lost at {moment:?}");
            assert_eq!(victim.ports(), BTreeMap::new(), "{moment:?}");
            victim.site.ask("POST", "loadbalancers", Some(tree));
            all = victim.balancers();
        }
        assert_eq!(all.len(), 1, "{moment:?}");
        let (balancer, pool) = (id(&all[0]), id(&all[0]["pools"][0]));
        assert_eq!(victim.backends(&balancer), 2, "{moment:?}");
        assert_eq!(victim.ports(), BTreeMap::from([(format!("ovn-lb-vip-{balancer}"), 1)]), "{moment:?}");

        // A batch replaces both members by three, or none.
        let members: Vec<Value> =
            (30..33).map(|last| json!({"address": format!("10.0.0.{last}"), "protocol_port": 80})).collect();
        let path = format!("pools/{pool}/members");
        let answer = victim.ask(moment, "PUT", &path, Some(json!({ "members": members })));
        let count = victim.backends(&balancer);
        assert!(count == 3 || (count == 2 && answer.is_none()), "{count} at {moment:?}");

        let monitor = json!({"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
        let answer = victim.ask(moment, "POST", "healthmonitors", Some(json!({ "healthmonitor": monitor })));
        victim.site.settled();
        victim.site.cloud.converged();
        let checks = victim.site.cloud.rows("Load_Balancer_Health_Check").len();
        assert!(checks == 1 || (checks == 0 && answer.is_none()), "{checks} at {moment:?}");

        let path = format!("loadbalancers/{balancer}");
        let answer = victim.ask(moment, "DELETE", &format!("{path}?cascade=true"), None);
        if answer.is_none() && victim.site.ask("GET", &path, None).status == 200 {
            victim.site.settled();
            victim.site.ask("DELETE", &format!("{path}?cascade=true"), None);
        }
        eventually("it is gone", || (victim.site.ask("GET", &path, None).status == 404).then_some(()));
        victim.site.cloud.converged();
        assert_eq!(contents(&victim.site.cloud), before, "{moment:?}");
        assert_eq!(victim.ports(), BTreeMap::new(), "{moment:?}");
        for collection in ["listeners", "pools", "healthmonitors"] {
            assert_eq!(victim.site.get(collection)[collection], json!([]), "{moment:?}");
        }
    }
}
