//! Why the engine refuses a request, before it has words.

use serde_json::Value;

use crate::resource::Verb;

/// Why the engine refuses a request. A [`Dialect`](super::Dialect) turns it into status, type and message.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The body, or an element of its list, is not an object.
    MalformedBody,
    /// The body does not have the object under the noun's name.
    NoObject {
        /// The expected name.
        name: &'static str,
    },
    /// The list of a bulk request is empty.
    EmptyBulk,
    /// A bulk request has too many elements.
    LargeBulk {
        /// Most elements.
        most: usize,
        /// Elements of this request.
        count: usize,
    },
    /// The noun does not have these attributes.
    UnknownAttributes(Vec<String>),
    /// A create request does not name an attribute that it must name.
    MissingAttribute(&'static str),
    /// A create request names an attribute that nobody may set then.
    NotCreatable(&'static str),
    /// An update names an attribute that nobody may change.
    NotUpdatable(&'static str),
    /// The value of an attribute, a filter or a query parameter does not fit.
    BadValue {
        /// Its name.
        attribute: String,
        /// The value as it came.
        value: Value,
        /// Why it does not fit, in Neutron's words.
        reason: String,
        /// The same as data, where dialects have words of their own.
        misfit: Option<Misfit>,
    },
    /// `project_id` and `tenant_id` name different projects.
    OwnersDiffer,
    /// The caller may not create objects of another project.
    ForeignOwner,
    /// Neither the credentials nor the body name a project.
    NoOwner,
    /// There is no such object, or it does not exist for the caller.
    Absent {
        /// The id as the path has it.
        id: String,
    },
    /// The object is at another revision than the request expects.
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
    /// The caller may not run an action, or change the labels of an object.
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
        /// The key inside of it, if the rule is about a key.
        part: Option<&'static str>,
    },
    /// The project would have more of something than it may.
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
    /// The sort direction is neither up nor down.
    BadSortDirection(String),
    /// The page size is not a number.
    BadLimit(String),
    /// The marker is the id of no object that the caller sees.
    BadMarker(String),
    /// `changed_since` is not a time.
    BadTime(String),
}

/// How a plain value misses its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It is none of these words.
    NotOneOf(&'static [&'static str]),
    /// It is a number less than this.
    Below(i64),
    /// It is a number greater than this.
    Above(i64),
}

impl Refusal {
    /// A value that does not fit.
    pub fn bad_value(
        attribute: impl Into<String>,
        value: impl Into<Value>,
        reason: impl Into<String>,
    ) -> Self {
        let (attribute, value, reason) = (attribute.into(), value.into(), reason.into());
        Refusal::BadValue { attribute, value, reason, misfit: None }
    }
}
