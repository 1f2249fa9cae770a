//! Octavia's objects as its API returns them, with the attributes that an import needs.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use uuid::Uuid;

use super::super::read::or_default;
use crate::model::{GivenAddress, GivenCidr, Standard};

/// The attributes of every object.
#[derive(Debug, Deserialize)]
pub(super) struct CommonAttributes {
    pub(super) id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) project_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "or_default")]
    description: String,
    #[serde(default = "yes", deserialize_with = "not_null")]
    pub(super) admin_state_up: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) provisioning_status: String,
    #[serde(default, deserialize_with = "time")]
    created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    updated_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    tags: BTreeSet<String>,
}

impl CommonAttributes {
    /// The creation time, for the order of members.
    pub(super) fn created_at(&self) -> Option<Timestamp> {
        self.created_at
    }

    pub(super) fn standard(&self, now: Timestamp) -> Standard {
        let created_at = self.created_at.unwrap_or(now);
        Standard {
            revision: 0,
            created_at,
            updated_at: self.updated_at.unwrap_or(created_at),
            description: self.description.clone(),
            tags: self.tags.clone(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct OctaviaBalancer {
    #[serde(flatten)]
    pub(super) common: CommonAttributes,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) provider: String,
    pub(super) vip_address: GivenAddressText,
    pub(super) vip_port_id: Uuid,
    #[serde(default)]
    pub(super) vip_subnet_id: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) additional_vips: Vec<AdditionalVip>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AdditionalVip {
    #[serde(default)]
    pub(super) subnet_id: Option<Uuid>,
    pub(super) ip_address: GivenAddressText,
    pub(super) port_id: Uuid,
}

#[derive(Debug, Deserialize)]
pub(super) struct OctaviaListener {
    #[serde(flatten)]
    pub(super) common: CommonAttributes,
    pub(super) loadbalancers: Vec<IgnoredAny>,
    pub(super) protocol: String,
    pub(super) protocol_port: NonZeroU16,
    #[serde(default)]
    pub(super) connection_limit: Option<i64>,
    #[serde(default)]
    pub(super) default_pool_id: Option<Uuid>,
    #[serde(default)]
    pub(super) timeout_client_data: Option<u32>,
    #[serde(default)]
    pub(super) timeout_member_connect: Option<u32>,
    #[serde(default)]
    pub(super) timeout_member_data: Option<u32>,
    #[serde(default)]
    pub(super) timeout_tcp_inspect: Option<u32>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) allowed_cidrs: Vec<CidrText>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) l7policies: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OctaviaPool {
    #[serde(flatten)]
    pub(super) common: CommonAttributes,
    pub(super) loadbalancers: Vec<IgnoredAny>,
    pub(super) protocol: String,
    pub(super) lb_algorithm: String,
    #[serde(default)]
    pub(super) session_persistence: Option<OctaviaPersistence>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) tls_enabled: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct OctaviaPersistence {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) persistence_timeout: Option<u16>,
    #[serde(default)]
    pub(super) persistence_granularity: Option<GivenAddressText>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OctaviaMember {
    #[serde(flatten)]
    pub(super) common: CommonAttributes,
    pub(super) pool_id: Uuid,
    pub(super) address: GivenAddressText,
    pub(super) protocol_port: NonZeroU16,
    #[serde(default)]
    pub(super) subnet_id: Option<Uuid>,
    #[serde(default = "one", deserialize_with = "not_null")]
    pub(super) weight: u16,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) backup: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct OctaviaMonitor {
    #[serde(flatten)]
    pub(super) common: CommonAttributes,
    pub(super) pools: Vec<IgnoredAny>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) delay: u32,
    pub(super) timeout: u32,
    pub(super) max_retries: u8,
    pub(super) max_retries_down: u8,
}

/// The limits of a project; null means the default.
#[derive(Debug, Deserialize)]
pub(super) struct OctaviaQuota {
    pub(super) project_id: String,
    #[serde(flatten)]
    pub(super) limits: BTreeMap<String, Value>,
}

/// An address that keeps its owner's spelling.
#[derive(Clone, Debug)]
pub(super) struct GivenAddressText(pub(super) GivenAddress);

/// A prefix that keeps its owner's spelling.
#[derive(Clone, Debug)]
pub(super) struct CidrText(pub(super) GivenCidr);

impl<'de> Deserialize<'de> for GivenAddressText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from).map(GivenAddressText)
    }
}

impl<'de> Deserialize<'de> for CidrText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from).map(CidrText)
    }
}

fn parsed<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let text = String::deserialize(from)?;
    text.parse().map_err(|error| serde::de::Error::custom(format_args!("{text:?}: {error}")))
}

/// Parses a time. Octavia writes UTC without a time zone: `2026-11-19T01:02:03`.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let zoned = text.parse::<Timestamp>().ok();
    let time = zoned.or_else(|| Offset::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok());
    time.map(Some).ok_or_else(|| serde::de::Error::custom(format_args!("{text:?} is no time")))
}

fn yes() -> bool {
    true
}

fn one() -> u16 {
    1
}

/// Refuses null where a default would be a guess.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    T::deserialize(from)
}
