//! Nouns of the API that OVN does not support: their lists are empty, and no object exists or can be created.

use serde_json::{Map, Value, json};

use super::refused;
use crate::dialect::octavia::{PROVIDER, absent, forbidden, unsupported_action};
use crate::http::answer::Answer;
use crate::resource::Method;
use crate::{Caller, Fault};

/// A noun without objects.
struct EmptyNoun {
    path: &'static str,
    collection: &'static str,
    title: &'static str,
    refusal: &'static str,
    /// Whether only administrators may create one.
    admin: bool,
}

const FLAVORS: &str = "This provider does not support validating flavors.";
const ZONES: &str = "This provider does not support validating availability zones.";

const NOUNS: [EmptyNoun; 5] = [
    EmptyNoun {
        path: "l7policies",
        collection: "l7policies",
        title: "L7 Policy",
        refusal: "This provider does not support creating l7policies.",
        admin: false,
    },
    EmptyNoun { path: "flavors", collection: "flavors", title: "Flavor", refusal: FLAVORS, admin: true },
    EmptyNoun {
        path: "flavorprofiles",
        collection: "flavorprofiles",
        title: "Flavor Profile",
        refusal: FLAVORS,
        admin: true,
    },
    EmptyNoun {
        path: "availabilityzones",
        collection: "availability_zones",
        title: "Availability Zone",
        refusal: ZONES,
        admin: true,
    },
    EmptyNoun {
        path: "availabilityzoneprofiles",
        collection: "availability_zone_profiles",
        title: "Availability Zone Profile",
        refusal: ZONES,
        admin: true,
    },
];

fn empty(collection: &str) -> Value {
    json!({collection: [], format!("{collection}_links"): []})
}

/// The only provider, if it passes the query's filters, with the requested fields.
fn providers(query: &[(String, String)]) -> Vec<Map<String, Value>> {
    let mut provider = Map::new();
    provider.insert("name".to_owned(), PROVIDER.into());
    provider.insert("description".to_owned(), "Load balancing by OVN".into());
    let fits = |(key, value): &(String, String)| provider.get(key).is_none_or(|own| own == value);
    if !query.iter().all(fits) {
        return Vec::new();
    }
    let fields: Vec<&String> =
        query.iter().filter(|(key, _)| key == "fields").map(|(_, field)| field).collect();
    provider.retain(|name, _| fields.is_empty() || fields.contains(&name));
    vec![provider]
}

/// The response, if the path is that of such a noun.
pub(super) fn answer(
    parts: &[&str],
    method: Method,
    caller: &Caller,
    query: &[(String, String)],
) -> Option<Result<Answer, Fault>> {
    let is_admin = caller.admin;
    let reads = is_admin || caller.auditor || caller.reader || caller.member;
    Some(match parts {
        [path, ..] if !reads && (*path == "providers" || NOUNS.iter().any(|noun| noun.path == *path)) => {
            Err(forbidden())
        }
        ["providers"] if method == Method::Get => {
            Ok(Answer::json(200, &json!({"providers": providers(query), "providers_links": []})))
        }
        ["providers"] => Ok(refused(&[Method::Get])),
        ["providers", name, "flavor_capabilities" | "availability_zone_capabilities"] => match *name {
            _ if !is_admin => Err(forbidden()),
            PROVIDER if parts[2] == "flavor_capabilities" => Err(unsupported_action(FLAVORS)),
            PROVIDER => Err(unsupported_action(ZONES)),
            other => Err(Fault::new(400, "", format!("Provider '{other}' is not enabled."))),
        },
        [path, rest @ ..] => {
            let noun = NOUNS.iter().find(|noun| noun.path == *path)?;
            match (rest, method) {
                ([], Method::Get) => Ok(Answer::json(200, &empty(noun.collection))),
                ([], Method::Post) if noun.admin && !is_admin => Err(forbidden()),
                ([], Method::Post) => Err(unsupported_action(noun.refusal)),
                ([], _) => Ok(refused(&[Method::Get, Method::Post])),
                // The rules of a policy are inside of it, and there is no policy.
                ([id, "rules"] | [id, "rules", _], _) if *path == "l7policies" => Err(absent(noun.title, id)),
                ([id], _) => Err(absent(noun.title, id)),
                _ => Err(Fault::no_such_path()),
            }
        }
        [] => return None,
    })
}

/// Amphorae, Octavia's virtual machines: there are none.
pub(super) fn amphorae(rest: &[&str], method: Method, is_admin: bool) -> Result<Answer, Fault> {
    match (rest, method) {
        _ if !is_admin => Err(forbidden()),
        ([], Method::Get) => Ok(Answer::json(200, &empty("amphorae"))),
        ([], _) => Ok(refused(&[Method::Get])),
        ([id, ..], _) => Err(absent("Amphora", id)),
    }
}
