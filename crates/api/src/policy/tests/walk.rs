//! Sends a request for every rule as every kind of caller.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Table, expected};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::resource::fixture::Desk;

/// The projects of the object, of its network, of a caller with whom the network is shared, and of an unrelated caller.
const PROJECTS: [&str; 4] = ["owner", "net", "guest", "stranger"];

/// A caller and its role's name.
fn callers() -> Vec<(&'static str, Caller)> {
    let in_project = |project: &'static str| {
        [
            ("manager", Caller { manager: true, ..Caller::member(project) }),
            ("member", Caller::member(project)),
            ("reader", Caller::reader(project)),
        ]
    };
    let nobody = |project: &str| Caller { reader: false, ..Caller::reader(project) };
    let mut callers: Vec<_> = PROJECTS.into_iter().flat_map(in_project).collect();
    callers.push(("admin", Caller { service: false, ..Caller::admin("ops") }));
    callers.push(("service", Caller { service: true, ..nobody("svc") }));
    callers.push(("nobody", nobody("owner")));
    callers
}

/// The properties that the terms of the table refer to.
struct Facts<'a> {
    owner: &'a str,
    network: Option<&'a str>,
    group: Option<&'a str>,
    shared: &'a [&'a str],
    external: bool,
}

impl Facts<'_> {
    /// Evaluates Neutron's terms independently: nothing here is the code under test.
    fn fits(&self, term: &str, caller: &Caller, value: &Value) -> bool {
        let shared = self.shared.contains(&caller.project.as_str());
        let (role, party) = term.split_once('@').unwrap_or((term, ""));
        let project = match party {
            "network" => self.network,
            "group" => self.group,
            _ => Some(self.owner),
        };
        let own = project == Some(caller.project.as_str());
        match role {
            "admin" => caller.admin,
            "service" => caller.service,
            "manager" => caller.manager && own,
            "member" => caller.member && own,
            "reader" => caller.reader && own,
            "shared" => shared,
            "shared-member" => shared && caller.member,
            "external" => self.external,
            "no-network-device" => !value.as_str().unwrap_or_default().starts_with("network:"),
            "not-everybody" => value != "*",
            other => panic!("a term that nobody knows: {other}"),
        }
    }

    fn allows(&self, table: &Table, rule: &str, caller: &Caller, value: &Value) -> bool {
        let terms: &BTreeSet<String> = table.get(rule).unwrap_or_else(|| panic!("no rule {rule}"));
        terms.iter().any(|term| self.fits(term, caller, value))
    }

    /// Whether the rules of a verb, and of the attributes in a body, permit the caller.
    fn allow_all(&self, table: &Table, verb: &str, caller: &Caller, body: &Value) -> bool {
        self.allows(table, verb, caller, &Value::Null)
            && body.as_object().unwrap().iter().all(|(name, value)| {
                let attribute = format!("{verb}:{name}");
                let elements = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                let keys: BTreeSet<String> = elements
                    .iter()
                    .filter_map(Value::as_object)
                    .flat_map(|object| object.keys().map(|key| format!("{attribute}:{key}")))
                    .collect();
                std::iter::once(attribute)
                    .chain(keys)
                    .filter(|rule| table.contains_key(rule))
                    .all(|rule| self.allows(table, &rule, caller, value))
            })
    }
}

/// Whether a request was refused because of its caller.
fn refused<T>(answer: &Result<T, Fault>) -> bool {
    matches!(answer, Err(fault) if fault.status == 403 || fault.status == 404)
}

/// The test of a noun: its path, an object, the facts, the updates and the create requests.
struct Walk<'a> {
    noun: &'a str,
    path: &'a str,
    object: Value,
    facts: Facts<'a>,
    updates: Vec<Value>,
    /// A valid body, and additions to it, to be tested one at a time.
    create: Value,
    creates: Vec<Value>,
}

impl Walk<'_> {
    fn run(&self, desk: &mut Desk, table: &Table) {
        let world = desk.world.clone();
        for (role, caller) in callers() {
            let who = format!("{role} of {} on {}", caller.project, self.noun);
            let rule = |verb: &str| format!("{verb}_{}", self.noun);
            let none = json!({});
            let sees = self.facts.allow_all(table, &rule("get"), &caller, &none);
            assert_eq!(desk.show(self.path, &caller, &self.object).is_ok(), sees, "{who}: get");
            for body in &self.updates {
                let may = sees && self.facts.allow_all(table, &rule("update"), &caller, body);
                let answer = desk.update(self.path, &caller, &self.object, body.clone());
                assert_eq!(!refused(&answer), may, "{who}: update {body}: {answer:?}");
                desk.world = world.clone();
            }
            let may = sees && self.facts.allow_all(table, &rule("delete"), &caller, &none);
            let answer = desk.delete(self.path, &caller, &self.object);
            assert_eq!(!refused(&answer), may, "{who}: delete: {answer:?}");
            desk.world = world.clone();
            for more in &self.creates {
                self.create(desk, table, &who, &caller, more);
                desk.world = world.clone();
            }
        }
    }

    /// Callers other than administrators and services create objects in their own project.
    fn create(&self, desk: &mut Desk, table: &Table, who: &str, caller: &Caller, more: &Value) {
        let owner = if caller.admin || caller.service { self.facts.owner } else { &caller.project };
        let facts = Facts { owner, ..self.facts };
        let mut body = self.create.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body["project_id"] = json!(owner);
        let may = facts.allow_all(table, &format!("create_{}", self.noun), caller, more);
        let answer = desk.create(self.path, caller, body);
        assert_eq!(!refused(&answer), may, "{who}: create {more}: {answer:?}");
    }
}

fn ops() -> Caller {
    Caller::admin("ops")
}

/// A network of project `net` that is shared with `owner` and `guest`, with a subnet.
fn shared_network(desk: &mut Desk) -> (Value, Value) {
    let network = desk.create("networks", &ops(), json!({"name": "n", "project_id": "net"})).unwrap();
    let subnet =
        json!({"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24", "project_id": "net"});
    let subnet = desk.create("subnets", &ops(), subnet).unwrap();
    for target in ["owner", "guest"] {
        share(desk, "network", &network, target);
    }
    (network, subnet)
}

fn share(desk: &mut Desk, kind: &str, object: &Value, target: &str) {
    let policy = json!({"object_type": kind, "object_id": object["id"], "action": "access_as_shared",
                        "target_tenant": target, "project_id": "ops"});
    desk.create("rbac-policies", &ops(), policy).unwrap();
}

#[test]
fn ports() {
    let mut desk = Desk::new();
    let (network, subnet) = shared_network(&mut desk);
    let on_it = json!({"network_id": network["id"], "project_id": "owner"});
    let object = desk.create("ports", &ops(), on_it).unwrap();
    let both = [
        json!({}),
        json!({"name": "x"}),
        json!({"description": "x"}),
        json!({"admin_state_up": false}),
        json!({"device_id": "x"}),
        json!({"device_owner": "compute:x"}),
        json!({"device_owner": "network:x"}),
        json!({"security_groups": []}),
        json!({"mac_address": "fa:16:3e:00:00:77"}),
        json!({"fixed_ips": []}),
        json!({"fixed_ips": [{"subnet_id": subnet["id"]}]}),
        json!({"fixed_ips": [{"ip_address": "10.0.0.77"}]}),
        json!({"fixed_ips": [{"subnet_id": subnet["id"], "ip_address": "10.0.0.1"}]}),
        json!({"port_security_enabled": true}),
        json!({"port_security_enabled": false, "security_groups": []}),
        json!({"allowed_address_pairs": [{"ip_address": "10.0.0.1"}]}),
        json!({"allowed_address_pairs": [{"ip_address": "10.0.0.1", "mac_address": "fa:16:3e:00:00:78"}]}),
        json!({"extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400"}]}),
        json!({"binding:host_id": "x"}),
        json!({"binding:profile": {"x": "y"}}),
        json!({"binding:vnic_type": "direct"}),
        json!({"dns_name": "x"}),
    ];
    let create = json!({"network_id": network["id"]});
    let facts = Facts {
        owner: "owner",
        network: Some("net"),
        group: None,
        shared: &["owner", "guest"],
        external: false,
    };
    // A caller that does not see the network gets a 404, even for attributes without a rule.
    let creates = both.to_vec();
    Walk { noun: "port", path: "ports", object, facts, updates: both.to_vec(), create, creates }
        .run(&mut desk, &expected());
}

#[test]
fn networks_and_subnets() {
    let mut desk = Desk::new();
    let network = desk.create("networks", &ops(), json!({"name": "n", "project_id": "owner"})).unwrap();
    share(&mut desk, "network", &network, "guest");
    let both = || {
        vec![
            json!({}),
            json!({"name": "x"}),
            json!({"mtu": 1300}),
            json!({"shared": true}),
            json!({"router:external": true}),
            json!({"router:external": true, "is_default": true}),
            json!({"port_security_enabled": false}),
            json!({"provider:segmentation_id": 77}),
        ]
    };
    let mut creates = both();
    creates.push(json!({"provider:network_type": "local"}));
    creates.push(json!({"provider:network_type": "flat", "provider:physical_network": "phy"}));
    creates.push(json!({"tags": ["x"]}));
    let facts = |network| Facts { owner: "owner", network, group: None, shared: &["guest"], external: false };
    Walk {
        noun: "network",
        path: "networks",
        object: network.clone(),
        facts: facts(None),
        updates: both(),
        create: json!({}),
        creates,
    }
    .run(&mut desk, &expected());
    // A subnet on a network of another project, as only an administrator can create it.
    let (network, _) = shared_network(&mut desk);
    let subnet =
        json!({"network_id": network["id"], "ip_version": 4, "cidr": "10.1.0.0/24", "project_id": "owner"});
    let object = desk.create("subnets", &ops(), subnet).unwrap();
    let both = || {
        vec![
            json!({}),
            json!({"name": "x"}),
            json!({"enable_dhcp": false}),
            json!({"service_types": ["compute:x"]}),
        ]
    };
    Walk {
        noun: "subnet",
        path: "subnets",
        object,
        facts: Facts { shared: &["owner", "guest"], ..facts(Some("net")) },
        updates: both(),
        create: json!({"network_id": network["id"], "ip_version": 4, "cidr": "10.2.0.0/24"}),
        creates: both(),
    }
    .run(&mut desk, &expected());
}

#[test]
fn routers_and_floating_ips() {
    let mut desk = Desk::new();
    let external = json!({"name": "x", "router:external": true, "project_id": "net"});
    let network = desk.create("networks", &ops(), external).unwrap();
    let subnet =
        json!({"network_id": network["id"], "ip_version": 4, "cidr": "192.0.2.0/24", "project_id": "net"});
    desk.create("subnets", &ops(), subnet).unwrap();
    let object = desk.create("routers", &ops(), json!({"name": "r", "project_id": "owner"})).unwrap();
    let facts = || Facts { owner: "owner", network: None, group: None, shared: &[], external: false };
    let both = || {
        vec![
            json!({}),
            json!({"name": "x"}),
            json!({"admin_state_up": false}),
            json!({"external_gateway_info": {"network_id": network["id"]}}),
            json!({"external_gateway_info": {"network_id": network["id"], "enable_snat": false}}),
            json!({"external_gateway_info": {"network_id": network["id"],
                                             "external_fixed_ips": [{"ip_address": "192.0.2.9"}]}}),
            json!({"enable_default_route_ecmp": true}),
            json!({"enable_default_route_bfd": true}),
            json!({"ha": true}),
        ]
    };
    let mut creates = both();
    creates.push(json!({"distributed": false}));
    creates.push(json!({"tags": ["x"]}));
    let (updates, create) = (both(), json!({}));
    Walk { noun: "router", path: "routers", object, facts: facts(), updates, create, creates }
        .run(&mut desk, &expected());
    let create = json!({"floating_network_id": network["id"]});
    let mut body = create.clone();
    body["project_id"] = json!("owner");
    let object = desk.create("floatingips", &ops(), body).unwrap();
    let updates = vec![json!({"description": "x"}), json!({"port_id": null})];
    let creates = vec![json!({}), json!({"floating_ip_address": "192.0.2.99"}), json!({"tags": ["x"]})];
    Walk { noun: "floatingip", path: "floatingips", object, facts: facts(), updates, create, creates }
        .run(&mut desk, &expected());
}

#[test]
fn what_else_can_be_shared() {
    let mut desk = Desk::new();
    let facts = |shared| Facts { owner: "owner", network: None, group: None, shared, external: false };
    let shared: &[&str] = &["guest"];
    for (noun, path, kind, create, both) in [
        (
            "security_group",
            "security-groups",
            "security_group",
            json!({"name": "g"}),
            vec![json!({"name": "x"})],
        ),
        (
            "subnetpool",
            "subnetpools",
            "subnetpool",
            json!({"name": "p", "prefixes": ["10.0.0.0/8"]}),
            vec![json!({"name": "x"}), json!({"is_default": true})],
        ),
        (
            "address_scope",
            "address-scopes",
            "address_scope",
            json!({"name": "s", "ip_version": 4}),
            vec![json!({"name": "x"}), json!({"shared": true})],
        ),
    ] {
        let mut body = create.clone();
        body["project_id"] = json!("owner");
        let object = desk.create(path, &ops(), body).unwrap();
        share(&mut desk, kind, &object, "guest");
        let (updates, creates) = (both.clone(), both);
        Walk { noun, path, object, facts: facts(shared), updates, create, creates }
            .run(&mut desk, &expected());
    }
}

#[test]
fn rules_of_a_group_are_its_owners_and_policies_their_makers() {
    let mut desk = Desk::new();
    let table = expected();
    let group = desk.create("security-groups", &ops(), json!({"name": "g", "project_id": "net"})).unwrap();
    // Shared with all of them, so that no request fails because the group is invisible.
    for target in ["owner", "guest", "stranger", "svc"] {
        share(&mut desk, "security_group", &group, target);
    }
    let create = json!({"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"});
    let mut body = create.clone();
    body["project_id"] = json!("owner");
    let object = desk.create("security-group-rules", &ops(), body).unwrap();
    let facts = || Facts { owner: "owner", network: None, group: Some("net"), shared: &[], external: false };
    let creates = vec![json!({"protocol": "udp"})];
    let (noun, path) = ("security_group_rule", "security-group-rules");
    Walk { noun, path, object, facts: facts(), updates: vec![], create, creates }.run(&mut desk, &table);

    let network = desk.create("networks", &ops(), json!({"name": "n", "project_id": "owner"})).unwrap();
    let policy = json!({"object_type": "network", "object_id": network["id"], "action": "access_as_shared",
                        "target_tenant": "x", "project_id": "owner"});
    let object = desk.create("rbac-policies", &ops(), policy).unwrap();
    let updates = vec![json!({"target_tenant": "y"}), json!({"target_tenant": "*"})];
    let (noun, path, create) = ("rbac_policy", "rbac-policies", json!({}));
    Walk { noun, path, object, facts: facts(), updates, create, creates: vec![] }.run(&mut desk, &table);
}
