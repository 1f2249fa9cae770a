//! One name for two values: the ids, MAC addresses and IP addresses that each server chose for the same object.
//!
//! Both servers get the same requests and choose ids of their own. [`Names`] learns pairs of such values from answers, and replaces both by
//! one name, so that later answers and rows can be compared as strings.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::Value;

/// The two servers that answer each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ours,
    Neutron,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::Ours, Side::Neutron];
}

/// Values that each side chooses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    Uuid,
    Mac,
    Ip,
}

impl Chosen {
    fn of(text: &str) -> Option<Chosen> {
        let hex = |part: &str, size: usize| part.len() == size && part.bytes().all(|b| b.is_ascii_hexdigit());
        let parts = |separator: char, sizes: &[usize]| {
            let found: Vec<&str> = text.split(separator).collect();
            found.len() == sizes.len() && found.iter().zip(sizes).all(|(part, size)| hex(part, *size))
        };
        if parts('-', &[8, 4, 4, 4, 12]) {
            Some(Chosen::Uuid)
        } else if parts(':', &[2; 6]) {
            Some(Chosen::Mac)
        } else {
            text.parse::<IpAddr>().is_ok().then_some(Chosen::Ip)
        }
    }
}

/// The names of the values of both sides.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: [HashMap<String, String>; 2],
    count: usize,
}

impl Names {
    /// Gives one name to a value of each side, if both are values of a kind that each side chooses. `again` permits to forget the former
    /// name of an address: a server may reuse an address that has become free. Returns whether both have one name now.
    pub(super) fn learn(&mut self, ours: &str, theirs: &str, again: bool) -> bool {
        let (Some(chosen), true) = (Chosen::of(ours), Chosen::of(ours) == Chosen::of(theirs)) else {
            return false;
        };
        let known = self.known[0].contains_key(ours) || self.known[1].contains_key(theirs);
        let same_family = ours.contains(':') == theirs.contains(':');
        if (known && (chosen != Chosen::Ip || !again)) || !same_family {
            return false;
        }
        self.count += 1;
        let name = format!("<{}{}>", if chosen == Chosen::Ip { "ip" } else { "id" }, self.count);
        for (side, text) in [ours, theirs].into_iter().enumerate() {
            if chosen == Chosen::Uuid {
                // Names of port groups in OVN cannot contain a hyphen.
                self.known[side].insert(text.replace('-', "_"), name.clone());
            }
            if chosen == Chosen::Ip {
                // A port without a name has its address as its host name.
                self.known[side].insert(text.replace(['.', ':'], "-"), name.clone());
            }
            self.known[side].insert(text.to_owned(), name.clone());
        }
        true
    }

    /// The same for the ids inside of two strings that differ only in them, such as the names of rows. The id of a network's segment stands
    /// nowhere else.
    pub(super) fn learn_within(&mut self, ours: &str, theirs: &str) -> bool {
        let (ours, theirs) = (Skeleton::of(ours), Skeleton::of(theirs));
        if ours.rest != theirs.rest || ours.ids.is_empty() {
            return false;
        }
        let pairs: Vec<_> = ours.ids.iter().zip(&theirs.ids).collect();
        pairs.into_iter().all(|(our, their)| {
            let same = |names: &Names| names.named(Side::Ours, our) == names.named(Side::Neutron, their);
            same(self) || self.learn(our, their, false)
        })
    }

    /// A string of one side with names instead of the values that the side chose.
    pub(super) fn named(&self, side: Side, text: &str) -> String {
        let known = &self.known[side as usize];
        let (mut named, mut rest) = (String::new(), text);
        while !rest.is_empty() {
            let part = |c: char| c.is_ascii_hexdigit() || matches!(c, '-' | '_' | ':' | '.');
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            let (token, after) = rest.split_at(end);
            let value = token.trim_start_matches(['-', '_']).trim_end_matches(['.', ':']);
            let before = token.len() - token.trim_start_matches(['-', '_']).len();
            named += &token[..before];
            named += &named_token(known, value);
            named += &token[before + value.len()..];
            let next = after.chars().next();
            named.extend(next);
            rest = &after[next.map_or(0, char::len_utf8)..];
        }
        named
    }

    /// A value of one side with names in all of its strings, its keys included.
    pub(super) fn named_value(&self, side: Side, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.named(side, text)),
            Value::Array(all) => all.iter().map(|value| self.named_value(side, value)).collect(),
            Value::Object(all) => all
                .iter()
                .map(|(key, value)| (self.named(side, key), self.named_value(side, value)))
                .collect(),
            other => other.clone(),
        }
    }
}

/// The ids in a string, and the rest of it.
struct Skeleton {
    ids: Vec<String>,
    rest: String,
}

impl Skeleton {
    fn of(text: &str) -> Skeleton {
        const UUID: usize = 36;
        let (mut ids, mut rest, mut left) = (Vec::new(), String::new(), text);
        while let Some(first) = left.chars().next() {
            let id = left.get(..UUID).map(|id| id.replace('_', "-"));
            match id.filter(|id| Chosen::of(id) == Some(Chosen::Uuid)) {
                Some(id) => {
                    ids.push(id);
                    left = &left[UUID..];
                }
                None => {
                    rest.push(first);
                    left = &left[first.len_utf8()..];
                }
            }
        }
        Skeleton { ids, rest }
    }
}

/// A name for a token, or for the id at its end (`a-11111111-...` is how `ovnmeta-11111111-...` ends), or for the label at its begin
/// (`10-0-0-2.e` is how `host-10-0-0-2.example` goes on).
fn named_token(known: &HashMap<String, String>, token: &str) -> String {
    const UUID: usize = 36;
    if let Some(name) = known.get(token) {
        return name.clone();
    }
    if let Some((name, after)) =
        token.split_once('.').and_then(|(label, after)| Some((known.get(label)?, after)))
    {
        return format!("{name}.{after}");
    }
    let id = token.len().checked_sub(UUID).and_then(|at| Some((&token[..at], known.get(&token[at..])?)));
    id.map_or_else(|| token.to_owned(), |(before, name)| format!("{before}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "11111111-2222-3333-4444-555555555555";
    const B: &str = "99999999-2222-3333-4444-555555555555";

    #[test]
    fn both_sides_of_a_pair_have_one_name_wherever_it_stands() {
        let mut names = Names::default();
        assert!(names.learn(A, B, false));
        assert!(names.learn("10.0.0.2", "10.0.0.9", false));
        for (ours, theirs) in [
            (format!("lrp-{A}"), format!("lrp-{B}")),
            (format!("pg_{}", A.replace('-', "_")), format!("pg_{}", B.replace('-', "_"))),
            (format!("ovnmeta-{A}"), format!("ovnmeta-{B}")),
            ("host-10-0-0-2.example.".to_owned(), "host-10-0-0-9.example.".to_owned()),
            (format!("10.0.0.2/24 {A}"), format!("10.0.0.9/24 {B}")),
        ] {
            assert_eq!(names.named(Side::Ours, &ours), names.named(Side::Neutron, &theirs));
            assert_ne!(names.named(Side::Ours, &ours), ours);
        }
        assert_eq!(names.named(Side::Ours, "ä 10.0.0.22 face"), "ä 10.0.0.22 face");
    }

    #[test]
    fn ids_are_learned_from_the_names_of_rows() {
        let mut names = Names::default();
        let group = |id: &str| format!("ip4.src == $pg_{}_ip4", id.replace('-', "_"));
        assert!(names.learn_within(&format!("provnet-{A}"), &format!("provnet-{B}")));
        assert!(names.learn_within(&group(A), &group(B)));
        assert!(!names.learn_within(&group(A), &group(A)), "the id of another object");
        assert!(!names.learn_within(&format!("provnet-{A}"), &format!("ovnmeta-{B}")));
        assert!(!names.learn_within("ACTIVE", "DOWN"));
    }

    #[test]
    fn an_id_keeps_its_name_and_an_address_may_be_used_again() {
        let mut names = Names::default();
        assert!(names.learn(A, A, false));
        assert!(!names.learn(A, B, true), "the id of another object");
        assert!(names.learn("10.0.0.2", "10.0.0.9", false));
        assert!(!names.learn("10.0.0.2", "10.0.0.7", false));
        assert!(names.learn("10.0.0.2", "10.0.0.7", true));
        assert!(!names.learn("10.0.0.3", "fd00::3", true), "another family");
        assert!(!names.learn("ACTIVE", "DOWN", true));
        assert!(!names.learn("02:00:00:00:00:01", A, true));
    }
}
