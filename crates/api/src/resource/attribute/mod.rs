//! What a noun's attributes are: one table per noun, read by everything that has to know.
//!
//! A row of the table says what a value looks like ([`Shape`]), who may set it and when, who may see it, and whether lists
//! can be filtered and sorted by it. The check of request bodies ([`Checked`]), the trimming of answers
//! ([`View`](super::View)), the list rules and the OpenAPI document all follow from it, so that they cannot disagree.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod checked;
mod shape;

use serde_json::{Value, json};

use crate::Caller;
use crate::policy::{PolicyTarget, Rule};

pub use checked::Checked;
pub use shape::{Field, Shape};

/// One attribute of a noun. Made with [`Attribute::new`] and the methods that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// Its name in bodies and queries.
    pub name: &'static str,
    /// What values look like.
    pub shape: Shape,
    /// One sentence for the API document.
    pub about: &'static str,
    /// Whether a create request must name it.
    pub required: bool,
    /// What a create request that does not name it gets.
    pub preset: Preset,
    /// What `null` in an update stands for; [`Preset::Absent`] if `null` is checked like any other value.
    pub null: Preset,
    /// Who may name it in a create request.
    pub create: Permission,
    /// Who may name it in an update.
    pub update: Permission,
    /// Keys inside of it that have rules of their own.
    pub parts: &'static [Part],
    /// Who sees it.
    pub shown: Audience,
    /// Lists can be filtered by it.
    pub filter: bool,
    /// Lists can be sorted by it.
    pub sort: bool,
}

/// Who may set an attribute or call an action, among those who may change the object at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Nobody: read-only.
    Nobody,
    /// Whoever may change the object.
    Owner,
    /// Of these, those whom a rule lets.
    By(Rule),
}

impl Permission {
    /// Whether the caller is one of them. That the caller may change the object at all is asked elsewhere.
    pub fn includes(self, caller: &Caller, target: &PolicyTarget<'_>, value: Option<&Value>) -> bool {
        match self {
            Permission::Nobody => false,
            Permission::Owner => true,
            Permission::By(rule) => rule.permits(caller, target, value),
        }
    }
}

/// A key inside an attribute's value that has rules of its own.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The key, in the object or in the elements of the list.
    pub name: &'static str,
    /// Who may name it in a create request.
    pub create: Rule,
    /// Who may name it in an update.
    pub update: Rule,
}

impl Part {
    /// A key with one rule for both.
    pub const fn new(name: &'static str, rule: Rule) -> Self {
        Part { name, create: rule, update: rule }
    }

    /// Whether a value names the key.
    fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::Object(object) => object.contains_key(self.name),
            Value::Array(elements) => elements.iter().any(|element| element.get(self.name).is_some()),
            _ => false,
        }
    }
}

/// Who sees an attribute, among those who see the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everybody.
    All,
    /// Administrators and other services.
    Service,
    /// Administrators.
    Admin,
    /// Nobody: it can only be written.
    Never,
}

impl Audience {
    /// Whether the caller is one of them.
    pub fn includes(self, caller: &Caller) -> bool {
        match self {
            Audience::All => true,
            Audience::Service => caller.admin || caller.service,
            Audience::Admin => caller.admin,
            Audience::Never => false,
        }
    }
}

/// The value of an attribute that a create request does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Nothing: [`Checked`] has no value for it, and the noun decides.
    Absent,
    /// `null`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Integer(i64),
    /// A text.
    Text(&'static str),
    /// `[]`.
    List,
    /// `{}`.
    Object,
}

impl Preset {
    /// As JSON; none if absent.
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
    /// A read-only attribute that everybody sees and that lists can be filtered and sorted by if it is a plain value.
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

    /// A create request must name it.
    pub const fn required(self) -> Self {
        Attribute { required: true, create: Permission::Owner, ..self }
    }

    /// A create request may name it.
    pub const fn create(self) -> Self {
        Attribute { create: Permission::Owner, ..self }
    }

    /// These may name it in a create request; others may still name its preset.
    pub const fn create_by(self, rule: Rule) -> Self {
        Attribute { create: Permission::By(rule), ..self }
    }

    /// An update may name it.
    pub const fn update(self) -> Self {
        Attribute { update: Permission::Owner, ..self }
    }

    /// These may name it in an update.
    pub const fn update_by(self, rule: Rule) -> Self {
        Attribute { update: Permission::By(rule), ..self }
    }

    /// Keys inside of it that have rules of their own.
    pub const fn parts(self, parts: &'static [Part]) -> Self {
        Attribute { parts, ..self }
    }

    /// What a create request gets that does not name it.
    pub const fn preset(self, preset: Preset) -> Self {
        Attribute { preset, ..self }
    }

    /// `null` in an update stands for this.
    pub const fn null(self, meaning: Preset) -> Self {
        Attribute { null: meaning, ..self }
    }

    /// Only these see it.
    pub const fn shown(self, shown: Audience) -> Self {
        Attribute { shown, ..self }
    }

    /// Lists can be filtered by it, though it is no plain value.
    pub const fn filter(self) -> Self {
        Attribute { filter: true, ..self }
    }

    /// Lists can be neither filtered nor sorted by it.
    pub const fn unsearchable(self) -> Self {
        Attribute { filter: false, sort: false, ..self }
    }
}

/// The object's id.
pub const ID: Attribute = Attribute::new("id", Shape::Uuid, "The id of the object.");
/// The object's name: at most 255 characters, not unique.
pub const NAME: Attribute =
    Attribute::new("name", Shape::Text { max: 255 }, "A name for people; it need not be unique.")
        .create()
        .update()
        .preset(Preset::Text(""));
/// The owner, by its old name. Checked against [`PROJECT_ID`] before anything else.
pub const TENANT_ID: Attribute =
    Attribute::new("tenant_id", Shape::Text { max: 255 }, "The owning project; the same as project_id.")
        .create();
/// The owner.
pub const PROJECT_ID: Attribute =
    Attribute::new("project_id", Shape::Text { max: 255 }, "The owning project.").create();
/// Whether the object is in use.
pub const ADMIN_STATE_UP: Attribute =
    Attribute::new("admin_state_up", Shape::Bool, "Whether the object is administratively up.")
        .create()
        .update()
        .preset(Preset::Bool(true));
/// The owner's words.
pub const DESCRIPTION: Attribute =
    Attribute::new("description", Shape::Text { max: 255 }, "A description for people.")
        .create()
        .update()
        .preset(Preset::Text(""));
/// The owner's labels. They are set through the sub-resource `tags` once the object exists.
pub const TAGS: Attribute = Attribute::new(
    "tags",
    Shape::List { of: &shape::TAG, max: super::tags::MOST, unique: true },
    "Labels; changed through the sub-resource `tags`.",
)
.create_by(crate::policy::MEMBER)
.preset(Preset::List);
/// Grows with every change.
pub const REVISION_NUMBER: Attribute = Attribute::new(
    "revision_number",
    Shape::Integer { min: 0, max: i64::MAX },
    "Grows with every change; `If-Match: revision_number=N` makes a change conditional on it.",
);
/// When the object was made.
pub const CREATED_AT: Attribute = Attribute::new("created_at", Shape::Time, "When the object was made.");
/// When the object was changed last.
pub const UPDATED_AT: Attribute =
    Attribute::new("updated_at", Shape::Time, "When the object was changed last.");

#[cfg(test)]
mod tests;
