//! The reasons why the engine refuses a request, as data.

use serde_json::Value;

use crate::resource::Verb;

/// The reason why the engine refuses a request. A [`Dialect`](super::Dialect) renders its status, type and message.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The body, or an element of its list, is not an object.
    MalformedBody,
    /// The body has no object under the noun's name.
    NoObject {
        /// The expected name.
        name: &'static str,
    },
    /// The list of a bulk request is empty.
    EmptyBulk,
    /// A bulk request has too many elements.
    LargeBulk {
        /// The maximum number of elements.
        most: usize,
        /// The number of elements in this request.
        count: usize,
    },
    /// The noun does not have these attributes.
    UnknownAttributes(Vec<String>),
    /// A create request lacks a mandatory attribute.
    MissingAttribute(&'static str),
    /// A create request has an attribute that callers cannot set at creation.
    NotCreatable(&'static str),
    /// An update has an attribute that callers cannot change.
    NotUpdatable(&'static str),
    /// The value of an attribute, a filter or a query parameter is invalid.
    BadValue {
        /// The name of the attribute, filter or parameter.
        attribute: String,
        /// The value from the request.
        value: Value,
        /// The reason, in Neutron's wording.
        reason: String,
        /// The reason as data, for dialects with their own wording.
        misfit: Option<Misfit>,
    },
    /// `project_id` and `tenant_id` name different projects.
    OwnersDiffer,
    /// The caller may not create objects of another project.
    ForeignOwner,
    /// Neither the credentials nor the body name a project.
    NoOwner,
    /// The object does not exist, or not for the caller.
    Absent {
        /// The id from the path.
        id: String,
    },
    /// The object has another revision than the request expects.
    WrongRevision {
        /// The expected revision.
        expected: i64,
        /// The object's revision.
        present: u64,
    },
    /// The caller may not see the object, although the dialect admits that it exists.
    ForbiddenObject,
    /// The caller may not create, change or delete the object.
    ForbiddenVerb(Verb),
    /// The caller may not run an action, or change the tags of an object.
    ForbiddenAction {
        /// The name of its rule.
        rule: String,
    },
    /// The caller may not set an attribute.
    ForbiddenAttribute {
        /// Create or update.
        verb: Verb,
        /// The attribute.
        attribute: &'static str,
        /// The key inside of the attribute, if the rule is about a key.
        part: Option<&'static str>,
    },
    /// The project's quota is exceeded.
    OverQuota {
        /// The name of the limit.
        name: &'static str,
    },
    /// Lists cannot be filtered by these.
    UnknownFilters(Vec<String>),
    /// Lists cannot be sorted by these.
    UnknownSortKeys(Vec<String>),
    /// There are not as many sort directions as sort keys.
    UnpairedSort,
    /// A sort direction is neither ascending nor descending.
    BadSortDirection(String),
    /// The page size is not a number.
    BadLimit(String),
    /// The marker is not the id of an object that the caller sees.
    BadMarker(String),
    /// `changed_since` is not a time.
    BadTime(String),
}

/// The reason why a scalar value does not fit its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It is none of these strings.
    NotOneOf(&'static [&'static str]),
    /// It is a number less than this.
    Below(i64),
    /// It is a number greater than this.
    Above(i64),
}

impl Refusal {
    /// A refusal of an invalid value.
    pub fn bad_value(
        attribute: impl Into<String>,
        value: impl Into<Value>,
        reason: impl Into<String>,
    ) -> Self {
        let (attribute, value, reason) = (attribute.into(), value.into(), reason.into());
        Refusal::BadValue { attribute, value, reason, misfit: None }
    }
}
