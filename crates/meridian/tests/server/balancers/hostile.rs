//! Strings of a load balancer's owner never reach OVN: the API rejects them, or keeps them in the store. Addresses and CIDRs are parsed.

use api::resource::{Permission, Shape, Verb, load_balancer};
use serde_json::{Map, Value, json};

use super::site::BalancerSite;
use crate::hostile_text::ATTACKS;

/// A string that no row of OVN contains by chance.
const MARK: &str = "m4rked";

/// A value of a shape, with the string wherever the shape allows one; `None` if it allows none.
fn hostile(shape: &Shape, text: &str) -> Option<Value> {
    match shape {
        Shape::Nullable(of) => hostile(of, text),
        Shape::List { of, .. } => hostile(of, text).map(|element| json!([element])),
        Shape::Object(fields) => {
            let fields =
                fields.iter().filter_map(|field| Some((field.name.to_owned(), hostile(&field.shape, text)?)));
            Some(fields.collect::<Map<_, _>>()).filter(|object| !object.is_empty()).map(Value::Object)
        }
        Shape::Free => Some(json!({ text: text })),
        Shape::Bool | Shape::Uuid | Shape::Integer { .. } | Shape::Count | Shape::Time => None,
        _ => Some(json!(text)),
    }
}

/// The collection and the attributes of a new object of a noun, without any string from its owner.
fn harmless(site: &BalancerSite, noun: &str, balancer: &str, pool: &str, number: u16) -> (String, Value) {
    match noun {
        "loadbalancer" => ("loadbalancers".into(), json!({ "vip_subnet_id": site.s1 })),
        "listener" => {
            let port = 1000 + number;
            (
                "listeners".into(),
                json!({"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": port}),
            )
        }
        "pool" => {
            let algorithm = "SOURCE_IP_PORT";
            (
                "pools".into(),
                json!({"loadbalancer_id": balancer, "protocol": "TCP", "lb_algorithm": algorithm}),
            )
        }
        "member" => {
            let member =
                json!({"address": "10.0.0.77", "protocol_port": 1000 + number, "subnet_id": site.s1});
            (format!("pools/{pool}/members"), member)
        }
        "healthmonitor" => {
            let monitor = json!({"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
            ("healthmonitors".into(), monitor)
        }
        other => panic!("the load-balancer API has a new noun, {other}: attack it"),
    }
}

#[test]
fn no_text_of_an_owner_reaches_ovn() {
    let site = BalancerSite::new();
    let balancer = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &balancer);
    site.listener(&balancer, 80, &pool);
    let tables = ["Load_Balancer", "Load_Balancer_Health_Check", "ACL", "Logical_Switch_Port"];
    let northbound = || tables.map(|table| json!(site.cloud.rows(table)).to_string()).concat();
    let all: String = ATTACKS.concat().chars().filter(|c| *c != '\0').take(200).collect();
    let texts =
        [format!("{MARK}{}", ATTACKS[0]), format!("{MARK}{all}"), format!("10.0.0.5 {MARK}\"; drop; //")];
    let (mut number, mut accepted) = (0, 0);
    for noun in load_balancer::NOUNS {
        // Only an administrator may name another project. The project id is in the external ids of the VIP's port, which ovn-northd does
        // not compile.
        let is_project = |name: &str| ["project_id", "tenant_id"].contains(&name);
        for attribute in noun.attributes().iter().filter(|attribute| !is_project(attribute.name)) {
            let may_create = noun.verbs().contains(&Verb::Create) && attribute.create != Permission::Nobody;
            let may_update = noun.verbs().contains(&Verb::Update) && attribute.update != Permission::Nobody;
            for text in &texts {
                let Some(value) = hostile(&attribute.shape, text) else { continue };
                number += 1;
                let (path, mut new) = harmless(&site, noun.name(), &balancer, &pool, number);
                if may_create {
                    new[attribute.name] = value.clone();
                }
                let answer = site.ask("POST", &path, Some(json!({ noun.name(): new })));
                let what = format!("{} {}: {answer:?}", noun.name(), attribute.name);
                if answer.status != 201 {
                    assert!((400..500).contains(&answer.status) || answer.status == 501, "{what}");
                    assert!(answer.body["faultstring"].is_string(), "{what}");
                    continue;
                }
                accepted += 1;
                site.settled();
                let object = format!("{path}/{}", answer.body[noun.name()]["id"].as_str().unwrap());
                if may_update {
                    let change = json!({ noun.name(): { attribute.name: value } });
                    let changed = site.ask("PUT", &object, Some(change));
                    assert!(changed.status < 500 || changed.status == 501, "{what}: {changed:?}");
                    site.settled();
                }
                assert!(!northbound().contains(MARK), "{what}");
                site.delete(&object);
            }
        }
    }
    assert!(accepted > 10, "names, descriptions and tags are taken: {accepted}");
}
