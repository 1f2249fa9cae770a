//! Octavia's messages. Clients and test suites match on them, so each is literally Octavia's where Octavia has one.
//!
//! Clients read only the status and the message, so these faults have no type.

use std::fmt;

use serde_json::Value;

use super::{CheckOrder, Dialect, HiddenObject, Misfit, NounNames, Refusal};
use crate::Fault;
use crate::resource::list::{Direction, LinkRule, QueryGrammar, SortGrammar};
use crate::resource::quota::{self, Limited};

/// OpenStack Load Balancing v2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Octavia;

/// The name of the only provider.
pub const PROVIDER: &str = "ovn";

static GRAMMAR: QueryGrammar = QueryGrammar {
    sort: SortGrammar::Lists,
    lenient_bool: true,
    lenient_limit: true,
    default_sort: &[("created_at", Direction::Ascending)],
    links: LinkRule::FullOrMarked,
    largest_page: Some(1_000),
    reserved: &["wait"],
};

impl Dialect for Octavia {
    fn refuse(&self, noun: NounNames, refusal: Refusal) -> Fault {
        let unknown = |name: &str| bad(format!("Unknown attribute for argument {}: {name}", noun.name));
        match refusal {
            Refusal::MalformedBody => {
                bad("The body of the request is not a JSON object with one object in it")
            }
            Refusal::NoObject { name } => missing(name),
            Refusal::EmptyBulk => validation("the list of new objects is empty"),
            Refusal::LargeBulk { most, count } => validation(format_args!(
                "a request may have at most {most} objects, and this one has {count}"
            )),
            Refusal::UnknownAttributes(names) => unknown(&names.join(", ")),
            Refusal::NotCreatable(name) | Refusal::NotUpdatable(name) => unknown(name),
            Refusal::MissingAttribute(name) => missing(name),
            Refusal::BadValue { attribute, value, reason, misfit } => {
                let value = match value {
                    Value::Null => "None".to_owned(),
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                invalid(&attribute, &value, misfit.map_or(reason, |misfit| reason_of(&misfit)))
            }
            Refusal::OwnersDiffer => validation("project_id and tenant_id name different projects"),
            Refusal::NoOwner => validation("Missing project ID in request where one is required."),
            Refusal::Absent { id } => absent(noun.absent.1, id),
            Refusal::WrongRevision { expected, present } => {
                let text = format!("Constrained to {expected}, but current revision is {present}");
                Fault::new(412, "", text)
            }
            Refusal::ForeignOwner
            | Refusal::ForbiddenObject
            | Refusal::ForbiddenVerb(_)
            | Refusal::ForbiddenAction { .. }
            | Refusal::ForbiddenAttribute { .. } => forbidden(),
            Refusal::OverQuota { name } => {
                let what = quota::balancer::title(name);
                Fault::new(403, "", format!("Quota has been met for resources: {what}"))
            }
            Refusal::UnknownFilters(_) => bad("One or more arguments are either duplicate or invalid"),
            Refusal::UnknownSortKeys(names) => unusable("sort key", names.first().map_or("", |name| name)),
            Refusal::UnpairedSort => unusable("sort direction", ""),
            Refusal::BadSortDirection(value) => unusable("sort direction", &value),
            Refusal::BadLimit(value) => unusable("pagination limit", &value),
            Refusal::BadMarker(value) => unusable("pagination marker", &value),
            Refusal::BadTime(value) => invalid("changed_since", &value, "Value should be a time".into()),
        }
    }

    fn hidden_object(&self) -> HiddenObject {
        HiddenObject::Forbidden
    }

    fn check_order(&self) -> CheckOrder {
        CheckOrder::BodyFirst
    }

    fn query_grammar(&self) -> &'static QueryGrammar {
        &GRAMMAR
    }

    fn limited(&self) -> &'static [Limited] {
        quota::balancer::LIMITED
    }
}

fn reason_of(misfit: &Misfit) -> String {
    match misfit {
        Misfit::NotOneOf(words) => format!("Value should be one of: {}", words.join(", ")),
        Misfit::Below(min) => format!("Value should be greater or equal to {min}"),
        Misfit::Above(max) => format!("Value should be lower or equal to {max}"),
    }
}

fn bad(text: impl Into<String>) -> Fault {
    Fault::new(400, "", text)
}

fn unusable(what: &str, value: &str) -> Fault {
    bad(format!("Supplied {what} '{value}' is not valid."))
}

/// 400, an invalid value of an attribute.
fn invalid(attribute: &str, value: &str, reason: String) -> Fault {
    bad(format!("Invalid input for field/attribute {attribute}. Value: '{value}'. {reason}"))
}

/// 400, a missing mandatory attribute.
pub fn missing(attribute: &str) -> Fault {
    invalid(attribute, "None", "Mandatory field missing.".to_owned())
}

/// 400, an inconsistent request.
pub fn validation(detail: impl fmt::Display) -> Fault {
    bad(format!("Validation failure: {detail}"))
}

/// 400, a value that is invalid in this situation.
pub fn invalid_option(value: impl fmt::Display, option: &str) -> Fault {
    bad(format!("{value} is not a valid option for {option}"))
}

/// 400, an object of the network API that the caller does not see: `Subnet X not found.`
pub fn unknown_reference(what: &str, id: impl fmt::Display) -> Fault {
    bad(format!("{what} {id} not found."))
}

/// 404, an unknown object.
pub fn absent(what: &str, id: impl fmt::Display) -> Fault {
    Fault::new(404, "", format!("{what} {id} not found."))
}

/// 403, for every rule.
pub fn forbidden() -> Fault {
    Fault::new(403, "", "Policy does not allow this request to be performed.")
}

/// 409, with a message of its own.
pub fn conflict(text: impl Into<String>) -> Fault {
    Fault::new(409, "", text)
}

/// 501, a value that OVN does not support.
pub fn unsupported_option(detail: impl fmt::Display) -> Fault {
    let text = format!("Provider '{PROVIDER}' does not support a requested option: {detail}");
    Fault::new(501, "", text)
}

/// 501, an action that OVN does not support.
pub fn unsupported_action(detail: impl fmt::Display) -> Fault {
    let text = format!("Provider '{PROVIDER}' does not support a requested action: {detail}");
    Fault::new(501, "", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_words_that_clients_look_for() {
        let pool = NounNames { name: "pool", absent: ("", "Pool") };
        let value = |misfit| Refusal::BadValue {
            attribute: "protocol".into(),
            value: "tcp".into(),
            reason: "no".into(),
            misfit,
        };
        for (refusal, status, text) in [
            (Refusal::UnknownAttributes(vec!["x".into()]), 400, "Unknown attribute for argument pool: x"),
            (Refusal::NotUpdatable("protocol"), 400, "Unknown attribute for argument pool: protocol"),
            (
                Refusal::MissingAttribute("protocol"),
                400,
                "Invalid input for field/attribute protocol. Value: 'None'. Mandatory field missing.",
            ),
            (
                value(Some(Misfit::NotOneOf(&["TCP", "UDP"]))),
                400,
                "Invalid input for field/attribute protocol. Value: 'tcp'. Value should be one of: TCP, UDP",
            ),
            (value(None), 400, "Invalid input for field/attribute protocol. Value: 'tcp'. no"),
            (Refusal::Absent { id: "1".into() }, 404, "Pool 1 not found."),
            (Refusal::ForbiddenObject, 403, "Policy does not allow this request to be performed."),
            (
                Refusal::OverQuota { name: "health_monitor" },
                403,
                "Quota has been met for resources: Health Monitor",
            ),
            (
                Refusal::UnknownFilters(vec!["x".into()]),
                400,
                "One or more arguments are either duplicate or invalid",
            ),
            (Refusal::UnknownSortKeys(vec!["x".into()]), 400, "Supplied sort key 'x' is not valid."),
            (Refusal::BadMarker("x".into()), 400, "Supplied pagination marker 'x' is not valid."),
        ] {
            let fault = Octavia.refuse(pool, refusal.clone());
            assert_eq!((fault.status, fault.message.as_str()), (status, text), "{refusal:?}");
        }
    }
}
