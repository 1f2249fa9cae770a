//! The attributes of nouns: one table per noun, which all other code reads.
//!
//! A row of the table declares the [`Shape`] of an attribute's values, who may set it and when, who may see it, and whether lists can be
//! filtered and sorted by it. The check of request bodies ([`Checked`]), the responses ([`View`](super::View)), the list queries and the
//! OpenAPI document all follow from the table, so they cannot disagree.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod checked;
mod shape;

use serde_json::{Value, json};

use crate::Caller;
use crate::policy::{PolicyTarget, Rule};

pub use checked::Checked;
pub use shape::{Field, Shape};

/// One attribute of a noun, built with [`Attribute::new`] and the methods below.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// The name in bodies and queries.
    pub name: &'static str,
    /// The accepted values.
    pub shape: Shape,
    /// One sentence for the API document.
    pub about: &'static str,
    /// Whether a create request must name it.
    pub required: bool,
    /// The value if a create request omits the attribute.
    pub preset: Preset,
    /// The meaning of `null` in an update; [`Preset::Absent`] if `null` is checked like any other value.
    pub null: Preset,
    /// Callers that may set it in a create request.
    pub create: Permission,
    /// Callers that may set it in an update.
    pub update: Permission,
    /// Keys of the value that have rules of their own.
    pub parts: &'static [Part],
    /// Callers that see it.
    pub shown: Audience,
    /// Whether lists can be filtered by it.
    pub filter: bool,
    /// Whether lists can be sorted by it.
    pub sort: bool,
}

/// The callers that may set an attribute or call an action, out of those that may change the object at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Nobody: read-only.
    Nobody,
    /// All callers that may change the object.
    Owner,
    /// Only the callers that a rule permits.
    By(Rule),
}

impl Permission {
    /// Whether the permission includes the caller. The check that the caller may change the object at all happens elsewhere.
    pub fn includes(self, caller: &Caller, target: &PolicyTarget<'_>, value: Option<&Value>) -> bool {
        match self {
            Permission::Nobody => false,
            Permission::Owner => true,
            Permission::By(rule) => rule.permits(caller, target, value),
        }
    }
}

/// A key inside of an attribute's value that has rules of its own.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The key, in the object or in each element of the list.
    pub name: &'static str,
    /// The rule for create requests.
    pub create: Rule,
    /// The rule for updates.
    pub update: Rule,
}

impl Part {
    /// A key with one rule for both requests.
    pub const fn new(name: &'static str, rule: Rule) -> Self {
        Part { name, create: rule, update: rule }
    }

    /// Whether a value contains the key.
    fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::Object(object) => object.contains_key(self.name),
            Value::Array(elements) => elements.iter().any(|element| element.get(self.name).is_some()),
            _ => false,
        }
    }
}

/// The callers that see an attribute, out of those that see the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All of them.
    All,
    /// Administrators and other services.
    Service,
    /// Administrators.
    Admin,
    /// Nobody: it can only be written.
    Never,
}

impl Audience {
    /// Whether the caller sees the attribute.
    pub fn includes(self, caller: &Caller) -> bool {
        match self {
            Audience::All => true,
            Audience::Service => caller.admin || caller.service,
            Audience::Admin => caller.admin,
            Audience::Never => false,
        }
    }
}

/// The value of an attribute that a create request omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// No value: the noun decides.
    Absent,
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A string.
    Text(&'static str),
    /// `[]`.
    List,
    /// `{}`.
    Object,
}

impl Preset {
    /// The value as JSON; `None` if absent.
    pub fn value(self) -> Option<Value> {
        Some(match self {
            Preset::Absent => return None,
            Preset::Null => Value::Null,
            Preset::Bool(value) => value.into(),
            Preset::Integer(value) => value.into(),
            Preset::Text(value) => value.into(),
            Preset::List => json!([]),
            Preset::Object => json!({}),
        })
    }
}

impl Attribute {
    /// A read-only attribute that all callers see. Lists can be filtered and sorted by it if its shape is plain.
    pub const fn new(name: &'static str, shape: Shape, about: &'static str) -> Self {
        let plain = shape.is_plain();
        Attribute {
            name,
            shape,
            about,
            required: false,
            preset: Preset::Absent,
            null: Preset::Absent,
            create: Permission::Nobody,
            update: Permission::Nobody,
            parts: &[],
            shown: Audience::All,
            filter: plain,
            sort: plain,
        }
    }

    /// Makes the attribute mandatory in create requests.
    pub const fn required(self) -> Self {
        Attribute { required: true, create: Permission::Owner, ..self }
    }

    /// Allows the attribute in create requests.
    pub const fn create(self) -> Self {
        Attribute { create: Permission::Owner, ..self }
    }

    /// Allows the attribute in create requests to the callers of a rule; others may only send the preset.
    pub const fn create_by(self, rule: Rule) -> Self {
        Attribute { create: Permission::By(rule), ..self }
    }

    /// Allows the attribute in updates.
    pub const fn update(self) -> Self {
        Attribute { update: Permission::Owner, ..self }
    }

    /// Allows the attribute in updates to the callers of a rule.
    pub const fn update_by(self, rule: Rule) -> Self {
        Attribute { update: Permission::By(rule), ..self }
    }

    /// Adds rules for keys inside of the value.
    pub const fn parts(self, parts: &'static [Part]) -> Self {
        Attribute { parts, ..self }
    }

    /// Sets the value that a create request gets if it omits the attribute.
    pub const fn preset(self, preset: Preset) -> Self {
        Attribute { preset, ..self }
    }

    /// Sets the meaning of `null` in an update.
    pub const fn null(self, meaning: Preset) -> Self {
        Attribute { null: meaning, ..self }
    }

    /// Limits the callers that see the attribute.
    pub const fn shown(self, shown: Audience) -> Self {
        Attribute { shown, ..self }
    }

    /// Allows lists to be filtered by it even though its shape is not plain.
    pub const fn filter(self) -> Self {
        Attribute { filter: true, ..self }
    }

    /// Forbids lists to be filtered or sorted by it.
    pub const fn unsearchable(self) -> Self {
        Attribute { filter: false, sort: false, ..self }
    }
}

/// The id of the object.
pub const ID: Attribute = Attribute::new("id", Shape::Uuid, "The id of the object.");
/// The name of the object: at most 255 characters, not unique.
pub const NAME: Attribute =
    Attribute::new("name", Shape::Text { max: 255 }, "A name for people; it need not be unique.")
        .create()
        .update()
        .preset(Preset::Text(""));
/// The owning project under its old name. Checked against [`PROJECT_ID`] first.
pub const TENANT_ID: Attribute =
    Attribute::new("tenant_id", Shape::Text { max: 255 }, "The owning project; the same as project_id.")
        .create();
/// The owning project.
pub const PROJECT_ID: Attribute =
    Attribute::new("project_id", Shape::Text { max: 255 }, "The owning project.").create();
/// The administrative state.
pub const ADMIN_STATE_UP: Attribute =
    Attribute::new("admin_state_up", Shape::Bool, "Whether the object is administratively up.")
        .create()
        .update()
        .preset(Preset::Bool(true));
/// A description by the owner.
pub const DESCRIPTION: Attribute =
    Attribute::new("description", Shape::Text { max: 255 }, "A description for people.")
        .create()
        .update()
        .preset(Preset::Text(""));
/// The tags. Once the object exists, clients set them through the sub-resource `tags`.
pub const TAGS: Attribute = Attribute::new(
    "tags",
    Shape::List { of: &shape::TAG, max: super::tags::MOST, unique: true },
    "Labels; changed through the sub-resource `tags`.",
)
.create_by(crate::policy::MEMBER)
.preset(Preset::List);
/// The revision, which grows with every change.
pub const REVISION_NUMBER: Attribute = Attribute::new(
    "revision_number",
    Shape::Integer { min: 0, max: i64::MAX },
    "Grows with every change; `If-Match: revision_number=N` makes a change conditional on it.",
);
/// The creation time.
pub const CREATED_AT: Attribute = Attribute::new("created_at", Shape::Time, "When the object was made.");
/// The time of the last change.
pub const UPDATED_AT: Attribute =
    Attribute::new("updated_at", Shape::Time, "When the object was changed last.");

#[cfg(test)]
mod tests;
