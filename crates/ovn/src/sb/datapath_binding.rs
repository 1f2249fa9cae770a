//! `Datapath_Binding`: a logical switch or router in the Southbound.

use ovsdb::{Map, Str, Table, Uuid};

use crate::text::word::words;

/// A row of `Datapath_Binding`: a logical switch or router in the Southbound.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Datapath_Binding")]
pub struct DatapathBinding {
    /// The unique key in tunnel headers.
    pub tunnel_key: i64,
    /// Switch or router (OVN 25.09). Older versions have this in `external_ids`.
    #[ovsdb(column = "type", optional)]
    pub kind: Option<DatapathType>,
    /// The Northbound row (OVN 25.09). Older versions have this in `external_ids`.
    #[ovsdb(optional)]
    pub nb_uuid: Option<Uuid>,
    /// `name`, `name2`, and `logical-switch` or `logical-router` with the Northbound UUID.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// The kind of a datapath.
    pub enum DatapathType {
        /// A switch.
        LogicalSwitch = "logical-switch",
        /// A router.
        LogicalRouter = "logical-router",
    }
}

impl DatapathBinding {
    /// The kind of the datapath and its Northbound row, from the columns of newer OVN or the keys of older OVN. `None` if it
    /// has neither.
    pub fn logical(&self) -> Option<(DatapathType, Uuid)> {
        if let (Some(kind), Some(uuid)) = (&self.kind, self.nb_uuid) {
            return Some((kind.clone(), uuid));
        }
        [DatapathType::LogicalSwitch, DatapathType::LogicalRouter].into_iter().find_map(|kind| {
            let uuid = Uuid::try_parse(self.external_ids.get(kind.as_str())?).ok()?;
            Some((kind, uuid))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_keys_tell_the_same() {
        let uuid = Uuid::from_u128(7);
        let keys = |key: &str| DatapathBinding {
            external_ids: [(key.into(), uuid.to_string().into())].into(),
            ..Default::default()
        };
        assert_eq!(keys("logical-switch").logical(), Some((DatapathType::LogicalSwitch, uuid)));
        assert_eq!(keys("logical-router").logical(), Some((DatapathType::LogicalRouter, uuid)));
        assert_eq!(keys("name").logical(), None);
        let columns = DatapathBinding {
            kind: Some(DatapathType::LogicalRouter),
            nb_uuid: Some(uuid),
            ..keys("logical-switch")
        };
        assert_eq!(columns.logical(), Some((DatapathType::LogicalRouter, uuid)), "columns outrank keys");
        let bad = DatapathBinding {
            external_ids: [("logical-switch".into(), "x".into())].into(),
            ..Default::default()
        };
        assert_eq!(bad.logical(), None);
    }
}
