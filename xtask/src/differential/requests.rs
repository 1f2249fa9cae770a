//! Random requests, as callers of a cloud send them: plausible ones, and ones with a fault.
//!
//! [`Requests`] knows the objects that both servers have created, and makes requests about them. An object stands as `@N@` in a request,
//! because each server has an id of its own for it. [`grammar`](super::grammar) and [`actions`](super::actions) have the values.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::Value;

use super::actions::{ACTIONS, Action, QUERIES};
use super::grammar::{Attribute, NOUNS, Noun};

/// The callers: an administrator, a service, a member of each of two projects, and a reader of the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Caller {
    Admin,
    Service,
    Alice,
    Bob,
    Rita,
}

impl Caller {
    #[cfg(test)]
    pub(super) const ALL: [Caller; 5] =
        [Caller::Admin, Caller::Service, Caller::Alice, Caller::Bob, Caller::Rita];

    pub(super) fn name(self) -> &'static str {
        match self {
            Caller::Admin => "admin",
            Caller::Service => "service",
            Caller::Alice => "alice",
            Caller::Bob => "bob",
            Caller::Rita => "rita",
        }
    }

    fn random(rng: &mut Rng) -> Caller {
        match rng.u8(0..20) {
            0..=3 => Caller::Admin,
            4..=5 => Caller::Service,
            6..=14 => Caller::Alice,
            15..=17 => Caller::Bob,
            _ => Caller::Rita,
        }
    }
}

/// A request to both servers.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) caller: Caller,
    pub(super) method: &'static str,
    /// The path after `/v2.0/`.
    pub(super) path: String,
    pub(super) body: Option<String>,
    /// The name of the request's class: method, collection, and the chosen attributes.
    pub(super) class: String,
    /// The kind of object that it creates.
    pub(super) creates: Option<&'static str>,
}

/// An object that both servers have.
#[derive(Clone, Debug)]
struct Object {
    kind: &'static str,
    owner: Caller,
    /// The number of its network, or of the object that it belongs to.
    parent: Option<usize>,
    /// The number in its addresses (`10.N.0.0/24`), if explicit addresses are outside of its pool.
    prefix: Option<u8>,
    external: bool,
    alive: bool,
}

/// The source of requests. The same seed makes the same requests, as long as both servers answer alike.
#[derive(Debug)]
pub(super) struct Requests {
    rng: Rng,
    objects: Vec<Object>,
    /// Numbers for prefixes, MAC addresses and physical networks.
    count: u8,
    physical: u8,
    /// The projects of the callers.
    projects: BTreeMap<Caller, String>,
}

impl Requests {
    pub(super) fn new(seed: u64, projects: BTreeMap<Caller, String>) -> Requests {
        Requests { rng: Rng::with_seed(seed), objects: Vec::new(), count: 0, physical: 0, projects }
    }

    /// The requests that every sequence begins with: an external network with addresses of both kinds, and a network with a router.
    pub(super) fn begin(&self) -> Vec<Request> {
        let post = |caller, collection: &str, kind, body: &str| Request {
            caller,
            method: "POST",
            path: collection.to_owned(),
            body: Some(body.to_owned()),
            class: format!("POST {collection} [begin]"),
            creates: Some(kind),
        };
        // Each project's default group comes with its first request, on either server at a time of its own.
        let groups = |caller| Request {
            caller,
            method: "GET",
            path: "security-groups".to_owned(),
            body: None,
            class: "GET security-groups [begin]".to_owned(),
            creates: None,
        };
        vec![
            groups(Caller::Admin),
            groups(Caller::Service),
            groups(Caller::Alice),
            groups(Caller::Bob),
            post(
                Caller::Admin,
                "networks",
                "network",
                r#"{"network": {"name": "outside", "router:external": true, "provider:network_type": "flat", "provider:physical_network": "phy1"}}"#,
            ),
            post(
                Caller::Admin,
                "subnets",
                "subnet",
                r#"{"subnet": {"network_id": "@0@", "ip_version": 4, "cidr": "10.250.0.0/24", "enable_dhcp": false, "allocation_pools": [{"start": "10.250.0.10", "end": "10.250.0.99"}]}}"#,
            ),
            post(Caller::Alice, "networks", "network", r#"{"network": {"name": "inside"}}"#),
            post(
                Caller::Alice,
                "subnets",
                "subnet",
                r#"{"subnet": {"network_id": "@2@", "ip_version": 4, "cidr": "10.251.0.0/24", "allocation_pools": [{"start": "10.251.0.10", "end": "10.251.0.99"}]}}"#,
            ),
            post(Caller::Alice, "routers", "router", r#"{"router": {"name": "edge"}}"#),
        ]
    }

    /// Another request.
    pub(super) fn next(&mut self) -> Request {
        let caller = Caller::random(&mut self.rng);
        match self.rng.u8(0..20) {
            0..=7 => self.create(caller),
            8..=11 => self.update(caller),
            12..=14 => self.action(caller),
            15..=17 => self.read(caller),
            _ => self.delete(caller),
        }
    }

    /// Adds an object that both servers have created.
    pub(super) fn add(&mut self, request: &Request, object: &Value) -> usize {
        let body: Value =
            request.body.as_deref().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
        let body = body.as_object().and_then(|body| body.values().next()).cloned().unwrap_or_default();
        let kind = request.creates.unwrap_or_default();
        let parent = ["network_id", "security_group_id", "subnetpool_id"]
            .iter()
            .find_map(|key| number(body[key].as_str()?));
        let prefix = body["cidr"]
            .as_str()
            .filter(|_| body["allocation_pools"][0]["end"].as_str().is_some_and(|end| end.ends_with(".99")));
        let prefix = prefix.and_then(|cidr| cidr.split('.').nth(1)?.parse().ok());
        let external = object["router:external"] == true;
        self.objects.push(Object { kind, owner: request.caller, parent, prefix, external, alive: true });
        self.objects.len() - 1
    }

    /// Forgets an object that both servers have deleted.
    pub(super) fn remove(&mut self, request: &Request) {
        let number = request.path.split('/').nth(1).and_then(number);
        if let Some(object) = number.and_then(|number| self.objects.get_mut(number)) {
            object.alive = false;
        }
    }

    fn create(&mut self, caller: Caller) -> Request {
        let noun = self.noun(|noun| noun.weight);
        let parent = self.pick(caller, noun.parent);
        let body = self.body(caller, noun.base, parent);
        self.with_attributes(caller, "POST", noun, noun.collection.to_owned(), body, parent)
    }

    fn update(&mut self, caller: Caller) -> Request {
        let noun = self.noun(|noun| if noun.updated { noun.weight } else { 0 });
        let at = self.pick(caller, noun.kind);
        let path = format!("{}/{}", noun.collection, reference(at));
        let network = at.and_then(|at| self.objects[at].parent);
        self.with_attributes(caller, "PUT", noun, path, "{}".to_owned(), network)
    }

    fn with_attributes(
        &mut self,
        caller: Caller,
        method: &'static str,
        noun: &'static Noun,
        path: String,
        body: String,
        parent: Option<usize>,
    ) -> Request {
        let mut body: Value =
            serde_json::from_str(&body).unwrap_or_else(|error| unreachable!("{body}: {error}"));
        let (least, most) = if method == "POST" { (0, 3) } else { (1, 3) };
        let mut class = Vec::new();
        for _ in 0..self.rng.u8(least..most) {
            let Attribute { name, values } = &noun.attributes[self.rng.usize(..noun.attributes.len())];
            let value = values[self.rng.usize(..values.len())];
            class.push(format!("{name}={value}"));
            let value = self.body(caller, value, parent);
            let value: Value =
                serde_json::from_str(&value).unwrap_or_else(|error| unreachable!("{value}: {error}"));
            // More than one attribute stands as an object under a name that begins with a brace.
            match (&value, name.starts_with('{')) {
                (Value::Object(more), true) => more.iter().for_each(|(key, value)| body[key] = value.clone()),
                _ => body[*name] = value,
            }
        }
        class.sort();
        class.dedup();
        let mut whole = Value::Object(Default::default());
        whole[noun.kind] = body;
        let creates = (method == "POST").then_some(noun.kind);
        let class = format!("{method} {} [{}]", noun.collection, class.join(" "));
        Request { caller, method, path, body: Some(whole.to_string()), class, creates }
    }

    fn action(&mut self, caller: Caller) -> Request {
        let Action { kind, method, path, bodies } = &ACTIONS[self.rng.usize(..ACTIONS.len())];
        let at = self.pick(caller, kind);
        let inside = at.and_then(|at| self.objects[at].parent);
        let collection = NOUNS.iter().find(|noun| noun.kind == *kind).map_or(*kind, |noun| noun.collection);
        let template = bodies.get(self.rng.usize(..bodies.len().max(1)));
        let body = template.map(|body| self.body(caller, body, inside));
        let class = format!("{method} {collection}/{path} [{}]", template.unwrap_or(&""));
        let path = format!("{collection}/{}/{path}", reference(at));
        Request { caller, method, path, body, class, creates: None }
    }

    fn read(&mut self, caller: Caller) -> Request {
        let noun = self.noun(|noun| noun.weight);
        let collection = noun.collection;
        let get = |path: String, class: String| Request {
            caller,
            method: "GET",
            path,
            body: None,
            class,
            creates: None,
        };
        match self.rng.u8(0..4) {
            0 => {
                let at = self.pick(caller, noun.kind);
                get(format!("{collection}/{}", reference(at)), format!("GET {collection} [one]"))
            }
            1 => get(collection.to_owned(), format!("GET {collection} [all]")),
            _ => {
                let query = QUERIES[self.rng.usize(..QUERIES.len())];
                let filled = self.body(caller, query, None);
                get(format!("{collection}?{filled}"), format!("GET {collection} [{query}]"))
            }
        }
    }

    fn delete(&mut self, caller: Caller) -> Request {
        let noun = self.noun(|noun| noun.weight);
        let at = self.pick(caller, noun.kind);
        let path = format!("{}/{}", noun.collection, reference(at));
        let class = format!("DELETE {}", noun.collection);
        Request { caller, method: "DELETE", path, body: None, class, creates: None }
    }

    fn noun(&mut self, weight: impl Fn(&Noun) -> u32) -> &'static Noun {
        let sum: u32 = NOUNS.iter().map(&weight).sum();
        let mut at = self.rng.u32(..sum);
        NOUNS
            .iter()
            .find(|noun| {
                let here = at < weight(noun);
                at = at.saturating_sub(weight(noun));
                here
            })
            .unwrap_or(&NOUNS[0])
    }

    /// An object of a kind: often the caller's own one, sometimes that of somebody else, seldom none.
    fn pick(&mut self, caller: Caller, kind: &str) -> Option<usize> {
        let of = |own: bool| -> Vec<usize> {
            let all = self.objects.iter().enumerate().filter(|(_, object)| {
                let external = match kind {
                    "external" => object.kind == "network" && object.external,
                    "network" => object.kind == kind,
                    _ => object.kind == kind,
                };
                object.alive && external && (!own || object.owner == caller)
            });
            all.map(|(at, _)| at).collect()
        };
        let own = self.rng.u8(0..4) > 0 && kind != "external";
        let found = if own && !of(true).is_empty() { of(true) } else { of(false) };
        let chosen = self.rng.choice(found);
        chosen.filter(|_| self.rng.u8(0..40) > 0)
    }

    /// A template with its placeholders filled: `$network` and the like are objects, and the rest values of their own.
    fn body(&mut self, caller: Caller, template: &str, parent: Option<usize>) -> String {
        let mut parts = template.split('$');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        let mut last_prefix = None;
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(part.len());
            let (word, rest) = part.split_at(end);
            filled += &match word {
                "parent" => reference(parent),
                // An object inside of the parent, such as a subnet of the port's network.
                "inside" => {
                    let inside =
                        |object: &Object| object.kind == "subnet" && object.alive && object.parent == parent;
                    let all: Vec<usize> =
                        (0..self.objects.len()).filter(|at| inside(&self.objects[*at])).collect();
                    let chosen = self.rng.choice(all);
                    reference(chosen)
                }
                "net" => {
                    let prefix = *last_prefix.get_or_insert_with(|| {
                        self.count = (self.count + 1) % 240;
                        self.count
                    });
                    format!("10.{prefix}.0")
                }
                "six" => {
                    self.count = (self.count + 1) % 240;
                    format!("fd00:{}:", self.count)
                }
                // An address outside of the pool of a subnet of the parent.
                "ip" => {
                    let of =
                        |object: &&Object| object.alive && object.parent == parent && object.prefix.is_some();
                    let prefix = self.objects.iter().find(of).and_then(|object| object.prefix).unwrap_or(249);
                    format!("10.{prefix}.0.{}", self.rng.u8(200..250))
                }
                "octet" => self.rng.u8(200..250).to_string(),
                "mac" => format!("02:00:00:00:00:{:02x}", self.rng.u8(0..16)),
                "physical" => {
                    self.physical = (self.physical + 1) % 2;
                    format!("phy{}", self.physical + 2)
                }
                "own_project" => self.projects[&caller].clone(),
                "other_project" => self.projects[&Caller::Bob].clone(),
                kind => {
                    let chosen = self.pick(caller, kind);
                    reference(chosen)
                }
            };
            filled += rest;
        }
        filled
    }
}

/// An object as it stands in a request; one that is nowhere has an id that no server has given.
fn reference(at: Option<usize>) -> String {
    at.map_or("deadbeef-0000-4000-8000-000000000000".to_owned(), |at| format!("@{at}@"))
}

/// The number of an object in a request.
fn number(text: &str) -> Option<usize> {
    text.strip_prefix('@')?.strip_suffix('@')?.parse().ok()
}

/// A request's string with the ids of one side.
pub(super) fn filled(text: &str, ids: &[String]) -> String {
    let mut parts = text.split('@');
    let mut all = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        match part.parse::<usize>().ok().and_then(|at| ids.get(at)) {
            Some(id) => {
                all += id;
                all += parts.next().unwrap_or_default();
            }
            None => {
                all.push('@');
                all += part;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requests(seed: u64) -> Requests {
        Requests::new(
            seed,
            Caller::ALL.map(|caller| (caller, format!("project of {}", caller.name()))).into(),
        )
    }

    /// Plays requests as if every server accepted them.
    fn play(seed: u64, count: usize) -> Vec<Request> {
        let mut requests = requests(seed);
        let mut all = requests.begin();
        for request in all.iter().filter(|request| request.creates.is_some()) {
            requests.add(
                request,
                &json!({"router:external": request.body.as_ref().unwrap().contains("external")}),
            );
        }
        for _ in 0..count {
            let request = requests.next();
            if request.creates.is_some() {
                requests.add(&request, &json!({}));
            } else if request.method == "DELETE" {
                requests.remove(&request);
            }
            all.push(request);
        }
        all
    }

    #[test]
    fn a_seed_makes_the_same_requests_and_another_seed_others() {
        let lines = |seed| play(seed, 300).iter().map(|request| format!("{request:?}")).collect::<Vec<_>>();
        assert_eq!(lines(1), lines(1));
        assert_ne!(lines(1), lines(2));
    }

    #[test]
    fn requests_are_whole_and_of_every_kind() {
        let all = play(7, 4000);
        for request in &all {
            if let Some(body) = &request.body {
                serde_json::from_str::<Value>(body).unwrap_or_else(|error| panic!("{request:?}: {error}"));
            }
            assert!(!request.path.contains('$') && !request.path.contains("//"), "{request:?}");
        }
        for caller in Caller::ALL {
            assert!(all.iter().any(|request| request.caller == caller));
        }
        for noun in NOUNS {
            for method in ["GET", "POST", "DELETE"] {
                let of = |request: &&Request| {
                    request.method == method && request.path.starts_with(noun.collection)
                };
                assert!(all.iter().any(|request| of(&request)), "no {method} of {}", noun.collection);
            }
        }
        for Action { kind, path, .. } in ACTIONS {
            assert!(all.iter().any(|request| request.path.ends_with(path)), "no {path} of {kind}");
        }
    }

    #[test]
    fn ids_are_filled_in() {
        let ids = ["a".to_owned(), "b".to_owned()];
        assert_eq!(filled("ports/@1@/x @0@@9@ me@home", &ids), "ports/b/x a@9@ me@home");
    }
}
