//! `Logical_DP_Group`: datapaths that share load balancers. Its content may change while the references to it stay.

use ovsdb::{Set, Table, Weak};

use super::DatapathBinding;

/// A row of `Logical_DP_Group`: datapaths that share load balancers.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Logical_DP_Group")]
pub struct LogicalDpGroup {
    /// The members.
    pub datapaths: Set<Weak<DatapathBinding>>,
}
