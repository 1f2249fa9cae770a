//! Neutron's messages. Clients and test suites match on them, so each is literally Neutron's where Neutron has one.

use super::{CheckOrder, Dialect, HiddenObject, NounNames, Refusal};
use crate::Fault;
use crate::resource::Verb;
use crate::resource::list::{LinkRule, QueryGrammar, SortGrammar};
use crate::resource::quota::{self, Limited};

/// OpenStack Networking v2.0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neutron;

static GRAMMAR: QueryGrammar = QueryGrammar {
    sort: SortGrammar::Pairs,
    lenient_bool: false,
    lenient_limit: false,
    default_sort: &[],
    links: LinkRule::BothSides,
    largest_page: None,
    reserved: &["wait"],
};

impl Dialect for Neutron {
    fn refuse(&self, noun: NounNames, refusal: Refusal) -> Fault {
        let NounNames { name: noun, absent: (kind, what) } = noun;
        match refusal {
            Refusal::MalformedBody => Fault::bad("Body contains invalid data"),
            Refusal::NoObject { name } => Fault::bad(format!("Unable to find '{name}' in request body")),
            Refusal::EmptyBulk => Fault::bad("Resources required"),
            Refusal::LargeBulk { most, count } => Fault::bad(format!(
                "A request may create at most {most} objects, and this one has {count}: send several"
            )),
            Refusal::UnknownAttributes(names) => {
                Fault::bad(format!("Unrecognized attribute(s) '{}'", names.join(", ")))
            }
            Refusal::MissingAttribute(name) => {
                Fault::bad(format!("Failed to parse request. Required attribute '{name}' not specified"))
            }
            Refusal::NotCreatable(name) => Fault::bad(format!("Attribute '{name}' not allowed in POST")),
            Refusal::NotUpdatable(name) => Fault::bad(format!("Cannot update read-only attribute {name}")),
            Refusal::BadValue { attribute, reason, .. } => {
                Fault { kind: bad_value(&reason), ..Fault::invalid(&attribute, reason) }
            }
            Refusal::OwnersDiffer => Fault::bad("'project_id' and 'tenant_id' do not match"),
            Refusal::ForeignOwner => Fault::bad(
                "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin privileges",
            ),
            Refusal::NoOwner => Fault::bad(
                "An object needs a project: neither the credentials nor 'project_id' in the request name one",
            ),
            Refusal::Absent { id } | Refusal::BadMarker(id) => Fault::absent(kind, what, id),
            Refusal::WrongRevision { expected, present } => Fault::revised(expected, present),
            Refusal::ForbiddenObject => Fault::forbidden(format!("get_{noun}")),
            Refusal::ForbiddenVerb(verb) => Fault::forbidden(format!("{}_{noun}", word(verb))),
            Refusal::ForbiddenAction { rule } => Fault::forbidden(rule),
            Refusal::ForbiddenAttribute { verb, attribute, part } => {
                let part = part.map(|part| format!(":{part}")).unwrap_or_default();
                let verb = word(verb);
                Fault::forbidden(format!("{verb}_{noun} and rule:{verb}_{noun}:{attribute}{part}"))
            }
            Refusal::OverQuota { name } => {
                Fault::conflict("OverQuota", format!("Quota exceeded for resources: ['{name}']."))
            }
            Refusal::UnknownFilters(names) => {
                Fault::bad(format!("{} is invalid attribute for filtering", listed(&names)))
            }
            Refusal::UnknownSortKeys(names) => {
                Fault::bad(format!("{} is invalid attribute for sort_keys", listed(&names)))
            }
            Refusal::UnpairedSort => Fault::bad("The number of sort_keys and sort_dirs must be same"),
            Refusal::BadSortDirection(value) => Fault::bad(format!(
                "['{value}'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'"
            )),
            Refusal::BadLimit(value) => {
                let text = format!("Limit must be an integer 0 or greater and not '{value}'");
                Fault::new(400, "BadRequest", text)
            }
            Refusal::BadTime(value) => {
                let reason = format!("'{value}' is not a time such as 2026-01-31T12:00:00Z");
                let text = format!("Invalid input for changed_since. Reason: {reason}.");
                Fault::new(400, "InvalidInput", text)
            }
        }
    }

    fn hidden_object(&self) -> HiddenObject {
        HiddenObject::Absent
    }

    fn check_order(&self) -> CheckOrder {
        CheckOrder::ObjectFirst
    }

    fn query_grammar(&self) -> &'static QueryGrammar {
        &GRAMMAR
    }

    fn limited(&self) -> &'static [Limited] {
        quota::NETWORK
    }
}

/// The type of a refused value. Neutron's depends on the part of it that finds the fault.
fn bad_value(reason: &str) -> &'static str {
    if reason.ends_with("cannot be converted to boolean") {
        "InvalidInput"
    } else if reason.starts_with("Invalid value for port ") {
        "SecurityGroupInvalidPortValue"
    } else if reason.starts_with("Invalid CIDR ") {
        "InvalidCIDR"
    } else {
        "HTTPBadRequest"
    }
}

/// The verb in the name of a rule.
fn word(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "create",
        Verb::Update | Verb::ReplaceAll => "update",
        Verb::Delete => "delete",
    }
}

/// A list in Python's notation: clients match on exactly this.
fn listed(names: &[String]) -> String {
    format!("[{}]", names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "))
}
