//! `Datapath_Binding`: a logical switch or router as the chassis know it.

use ovsdb::{Map, Str, Table, Uuid};

use crate::text::word::words;

/// A row of `Datapath_Binding`: a logical switch or router as the chassis know it.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Datapath_Binding")]
pub struct DatapathBinding {
    /// Unique; stands in tunnel headers.
    pub tunnel_key: i64,
    /// Switch or router (OVN 25.09); before, `external_ids` tell.
    #[ovsdb(column = "type", optional)]
    pub kind: Option<DatapathType>,
    /// The Northbound row (OVN 25.09); before, `external_ids` tell.
    #[ovsdb(optional)]
    pub nb_uuid: Option<Uuid>,
    /// `name`, `name2`, and `logical-switch` or `logical-router` with the Northbound UUID.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// What a datapath is.
    pub enum DatapathType {
        /// A switch.
        LogicalSwitch = "logical-switch",
        /// A router.
        LogicalRouter = "logical-router",
    }
}
