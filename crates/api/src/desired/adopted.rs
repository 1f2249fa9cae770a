//! Adopted rows: this unit marks them as known, and other units write them.

use ovn::target::RowId;
use reconcile::ObjectId;
use uuid::Uuid;

use super::{Compiled, Look, naming};

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let Some(adopted) = look.adopted(id) else { return };
    if let Some(table) = naming::table(&adopted.table) {
        let row = RowId { table, uuid: adopted.theirs };
        to.part.adopt(row, ObjectId::new("adopted", id.to_string()));
    }
}
