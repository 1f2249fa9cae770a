//! The comparison of two answers to one request, or of two lists of rows.

use serde_json::{Map, Value};

use super::names::{Names, Side};

/// Attributes whose values differ from run to run: times, and how often an object was written inside of the server.
const VOLATILE: [&str; 3] = ["created_at", "updated_at", "revision_number"];

/// The begin of a place inside of a network's metadata port.
pub(super) const METADATA_PORT: &str = "metadata port in ";

/// One difference: a class such as `ports + ip_allocation`, and the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) class: String,
    pub(super) values: String,
}

/// The differences of two values: keys that only ours has (`+`), that only Neutron's has (`-`), and values that differ (`~`). Their
/// place is named by the keys that lead to it, after `place`. Pairs of ids and addresses that are met for the first time are learned.
pub(super) fn compare(
    names: &mut Names,
    place: &str,
    ours: &Value,
    theirs: &Value,
    again: bool,
) -> Vec<Difference> {
    let mut found = Vec::new();
    Comparison { names, again, found: &mut found }.values(place, ours, theirs);
    found
}

struct Comparison<'a> {
    names: &'a mut Names,
    again: bool,
    found: &'a mut Vec<Difference>,
}

impl Comparison<'_> {
    fn values(&mut self, place: &str, ours: &Value, theirs: &Value) {
        match (ours, theirs) {
            (Value::Object(our), Value::Object(their)) => self.objects(place, our, their),
            (Value::Array(our), Value::Array(their)) if our.len() == their.len() => {
                let (our, their) = (self.sorted(Side::Ours, our), self.sorted(Side::Neutron, their));
                for (our, their) in our.into_iter().zip(their) {
                    self.values(place, our, their);
                }
            }
            (Value::String(our), Value::String(their)) => {
                // The same address on both sides may be one that both chose for different ports, and one that a request named.
                let literal = our == their && our.parse::<std::net::IpAddr>().is_ok();
                let same = |names: &Names| names.named(Side::Ours, our) == names.named(Side::Neutron, their);
                if !literal
                    && !same(self.names)
                    && !self.names.learn(our, their, self.again)
                    && !self.names.learn_within(our, their)
                {
                    self.differ(place, ours, theirs);
                }
            }
            _ if ours == theirs => {}
            _ => self.differ(place, ours, theirs),
        }
    }

    fn objects(&mut self, place: &str, ours: &Map<String, Value>, theirs: &Map<String, Value>) {
        let named = |names: &Names, side: Side, all: &Map<String, Value>| -> Vec<(String, Value)> {
            all.iter().map(|(key, value)| (names.named(side, key), value.clone())).collect()
        };
        // Its addresses are chosen by rules of their own.
        let is_metadata = ours.get("device_owner").is_some_and(|owner| owner == "network:distributed")
            || ours.get("type").is_some_and(|kind| kind == "localport");
        let place = if is_metadata { &format!("{METADATA_PORT}{place}") } else { place };
        // First the values that make others known: names of hosts contain addresses.
        let (mut our, mut their) =
            (named(self.names, Side::Ours, ours), named(self.names, Side::Neutron, theirs));
        let order = |key: &str| match key {
            "id" => 0,
            "fixed_ips" | "ip_address" | "mac" | "mac_address" | "name" => 1,
            _ => 2,
        };
        our.sort_by_key(|(key, _)| order(key));
        for (key, value) in &our {
            match their.iter().position(|(other, _)| other == key) {
                None => self.differ(&format!("{place} + {key}"), value, &Value::Null),
                Some(at) => {
                    let (_, theirs) = their.swap_remove(at);
                    if !VOLATILE.contains(&key.as_str()) {
                        self.values(&join(place, key), value, &theirs);
                    }
                }
            }
        }
        for (key, value) in &their {
            self.differ(&format!("{place} - {key}"), &Value::Null, value);
        }
    }

    /// The elements of a list in an order that is the same on both sides. Neutron's lists have none unless the request asks for one.
    fn sorted<'v>(&self, side: Side, list: &'v [Value]) -> Vec<&'v Value> {
        let mut all: Vec<&Value> = list.iter().collect();
        all.sort_by_cached_key(|value| {
            let value = self.names.named_value(side, value);
            let name = value["id"].as_str().filter(|id| id.starts_with('<')).map(str::to_owned);
            (name, blank(&value).to_string())
        });
        all
    }

    fn differ(&mut self, place: &str, ours: &Value, theirs: &Value) {
        let class = if place.contains(" + ") || place.contains(" - ") {
            place.to_owned()
        } else {
            format!("{place} ~")
        };
        let values = format!("ours {}, Neutron {}", short(ours), short(theirs));
        self.found.push(Difference { class, values });
    }
}

fn join(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

/// A value for sorting: without volatile attributes and without what each side chose and nobody has named yet.
fn blank(value: &Value) -> Value {
    match value {
        Value::Object(all) => {
            let kept =
                all.iter().filter(|(key, _)| !VOLATILE.contains(&key.as_str()) && key.as_str() != "id");
            kept.map(|(key, value)| (key.clone(), blank(value))).collect()
        }
        Value::Array(all) => {
            let mut all: Vec<Value> = all.iter().map(blank).collect();
            all.sort_by_cached_key(Value::to_string);
            Value::Array(all)
        }
        Value::String(text) if !Names::default().learn(text, text, false) => value.clone(),
        Value::String(_) => Value::Null,
        other => other.clone(),
    }
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    if let Some((at, _)) = text.char_indices().nth(300) {
        text.truncate(at);
        text += "...";
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "11111111-2222-3333-4444-555555555555";
    const B: &str = "99999999-2222-3333-4444-555555555555";

    fn classes(ours: &Value, theirs: &Value) -> Vec<String> {
        let found = compare(&mut Names::default(), "ports", ours, theirs, true);
        found.into_iter().map(|difference| difference.class).collect()
    }

    #[test]
    fn ids_times_and_order_are_no_difference() {
        let ours = json!([
            {"id": A, "name": "a", "created_at": "2026-01-01T00:00:00Z", "fixed_ips": [{"ip_address": "10.0.0.2"}]},
            {"id": B, "name": "b", "created_at": "2026-01-01T00:00:00Z", "fixed_ips": []},
        ]);
        let theirs = json!([
            {"name": "b", "id": A, "created_at": "2026-01-02T00:00:00Z", "fixed_ips": []},
            {"name": "a", "id": B, "created_at": "2026-01-02T00:00:00Z", "fixed_ips": [{"ip_address": "10.0.0.7"}]},
        ]);
        assert_eq!(classes(&ours, &theirs), [""; 0]);
    }

    #[test]
    fn keys_values_and_lengths_are_differences() {
        let ours = json!({"a": 1, "b": [1], "c": {"d": "x"}, "e": null, "same": ["y", "x"]});
        let theirs = json!({"b": [], "c": {"d": "y"}, "e": "", "f": 1, "same": ["x", "y"]});
        let mut found = classes(&ours, &theirs);
        found.sort();
        assert_eq!(found, ["ports + a", "ports - f", "ports.b ~", "ports.c.d ~", "ports.e ~"]);
    }

    #[test]
    fn one_object_is_not_taken_for_another() {
        let mut names = Names::default();
        let pair = |network: &str| json!({"id": network, "network_id": network});
        assert_eq!(compare(&mut names, "x", &pair(A), &pair(B), true), []);
        let found = compare(&mut names, "x", &json!({"network_id": A}), &json!({"network_id": A}), true);
        assert_eq!(found.len(), 1, "Neutron's A is another object than ours: {found:?}");
    }
}
