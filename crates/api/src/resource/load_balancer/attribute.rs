//! The attributes that load balancers and their parts share.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::status::Provisioning;
use crate::model::Standard;
use crate::resource::{Attribute, Preset, Shape, View, attribute, tags};

const TEXT: Shape = Shape::Nullable(&Shape::Text { max: 255 });
/// The maximum number of tags of an object. Octavia has no limit, and its clients expect a hundred to fit.
const MOST_TAGS: usize = 256;
const TAG: Shape = Shape::Word { format: "tag", parse: tags::parse };

/// The name. `null` means no name.
pub(in crate::resource) const NAME: Attribute =
    Attribute::new("name", TEXT, "A name for people; it need not be unique.")
        .create()
        .update()
        .preset(Preset::Text(""))
        .null(Preset::Text(""));
/// The owner's description.
pub(in crate::resource) const DESCRIPTION: Attribute =
    Attribute::new("description", TEXT, "A description for people.")
        .create()
        .update()
        .preset(Preset::Text(""))
        .null(Preset::Text(""));
/// The administrative state. `null` means false, as in Octavia.
pub(in crate::resource) const ADMIN_STATE_UP: Attribute = attribute::ADMIN_STATE_UP.null(Preset::Bool(false));
/// The tags, replaced by an update.
pub(in crate::resource) const TAGS: Attribute = Attribute::new(
    "tags",
    Shape::Nullable(&Shape::List { of: &TAG, max: MOST_TAGS, unique: false }),
    "Labels; an update replaces all of them.",
)
.create()
.update()
.preset(Preset::List)
.null(Preset::List);
/// The provisioning status.
pub(in crate::resource) const PROVISIONING_STATUS: Attribute =
    Attribute::new("provisioning_status", Shape::Text { max: 255 }, "How far OVN has come with the object.");
/// The operating status.
pub(in crate::resource) const OPERATING_STATUS: Attribute =
    Attribute::new("operating_status", Shape::Text { max: 255 }, "Whether the object serves.");
/// The creation time.
pub(in crate::resource) const CREATED_AT: Attribute =
    Attribute::new("created_at", Shape::Text { max: 255 }, "When the object was made, in UTC.");
/// The time of the last change.
pub(in crate::resource) const UPDATED_AT: Attribute =
    Attribute::new("updated_at", Shape::Text { max: 255 }, "When the object was changed last, in UTC.");

/// An attribute that OVN does not support: requests may set it, and responses always show the preset.
pub(in crate::resource) const fn inert(name: &'static str, shape: Shape, preset: Preset) -> Attribute {
    Attribute::new(name, shape, "Not supported by OVN.").create().update().preset(preset).null(preset)
}

/// A reference to an object that OVN does not support.
pub(in crate::resource) const fn inert_text(name: &'static str) -> Attribute {
    inert(name, Shape::Nullable(&Shape::Text { max: 255 }), Preset::Null)
}

/// Shows times in Octavia's format: UTC without a time zone, and no change before the object is in service.
pub(in crate::resource) fn show_times(view: &mut View<'_>, standard: &Standard, status: Provisioning) {
    view.text("created_at", &plain_time(standard.created_at));
    let changed = (status != Provisioning::PendingCreate).then(|| plain_time(standard.updated_at));
    view.optional("updated_at", changed.as_ref());
}

fn plain_time(time: Timestamp) -> jiff::civil::DateTime {
    time.to_zoned(TimeZone::UTC).datetime()
}
