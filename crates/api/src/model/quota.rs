//! Quotas.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::world::Record;

/// The limits of one project that differ from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaSet {
    /// The project.
    pub project: String,
    /// The limits by resource (`port`, `router`); -1 means none.
    pub limits: BTreeMap<String, i64>,
}

impl Record for QuotaSet {}
