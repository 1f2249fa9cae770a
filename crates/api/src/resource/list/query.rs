//! What the query of a list says.

use std::cmp::Ordering;
use std::fmt::Display;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::Fault;

/// The query of a list or show, taken apart. Names and values of filters are checked against the noun later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// All pairs as they came; links repeat them.
    pairs: Vec<(String, String)>,
    /// Attributes to show; empty means all.
    pub fields: Vec<String>,
    /// Sort keys, the first decides first.
    pub sort: Vec<(String, Direction)>,
    /// Size of a page; none is no paging.
    pub limit: Option<usize>,
    /// The id of the object beside which the page begins.
    pub marker: Option<String>,
    /// The page ends before the marker instead of beginning after it.
    pub page_reverse: bool,
    /// Only what was changed then or later.
    pub changed_since: Option<Timestamp>,
    /// Everything else, in order: filters.
    pub filters: Vec<(String, String)>,
}

/// Up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Small ones first.
    Ascending,
    /// Large ones first.
    Descending,
}

impl Direction {
    pub(super) fn apply(self, ordering: Ordering) -> Ordering {
        match self {
            Direction::Ascending => ordering,
            Direction::Descending => ordering.reverse(),
        }
    }
}

/// A word of the server itself, not a filter.
const WAIT: &str = "wait";

impl Query {
    /// Takes the pairs of a query string apart.
    pub fn new(pairs: Vec<(String, String)>) -> Result<Self, Fault> {
        let mut query = Query::default();
        let mut keys = Vec::new();
        let mut directions = Vec::new();
        for (key, value) in &pairs {
            match key.as_str() {
                "fields" => query.fields.extend(non_empty(value)),
                "sort_key" => keys.push(value.clone()),
                "sort_dir" => directions.push(direction(value)?),
                "limit" => query.limit = size(value)?,
                "marker" => query.marker = non_empty(value),
                "page_reverse" => query.page_reverse = truth("page_reverse", value)?,
                "changed_since" => query.changed_since = Some(time(value)?),
                WAIT => {}
                _ => query.filters.push((key.clone(), value.clone())),
            }
        }
        if keys.len() != directions.len() {
            return Err(Fault::bad("The number of sort_keys and sort_dirs must be same"));
        }
        query.sort = keys.into_iter().zip(directions).collect();
        query.pairs = pairs;
        Ok(query)
    }

    /// The size of a page, if there are pages, where the operator allows `most`.
    pub(super) fn page_size(&self, most: Option<u64>) -> Option<usize> {
        let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        match (self.limit, most) {
            (Some(limit), Some(most)) => Some(limit.min(most)),
            (limit, most) => limit.or(most),
        }
    }

    /// Where the pages beside this one are: the same query, beginning at its last or ending at its first object.
    pub(super) fn links<K: Display>(
        &self,
        short: bool,
        ends: Option<(&K, &K)>,
    ) -> Vec<(&'static str, String)> {
        let mut links = Vec::new();
        if !short || self.page_reverse {
            links.push(("next", self.beside(ends.map(|(_, last)| last), false)));
        }
        if !short || !self.page_reverse {
            links.push(("previous", self.beside(ends.map(|(first, _)| first), true)));
        }
        links
    }

    fn beside<K: Display>(&self, marker: Option<&K>, reverse: bool) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in &self.pairs {
            if key != "marker" && key != "page_reverse" {
                query.append_pair(key, value);
            }
        }
        if let Some(marker) = marker {
            query.append_pair("marker", &marker.to_string());
        }
        if reverse {
            query.append_pair("page_reverse", "True");
        }
        query.finish()
    }
}

fn non_empty(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn direction(value: &str) -> Result<Direction, Fault> {
    match value {
        "asc" => Ok(Direction::Ascending),
        "desc" => Ok(Direction::Descending),
        other => Err(Fault::bad(format!(
            "['{other}'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'"
        ))),
    }
}

fn size(value: &str) -> Result<Option<usize>, Fault> {
    match value.parse() {
        Ok(0) => Ok(None),
        Ok(limit) => Ok(Some(limit)),
        Err(_) => Err(Fault::bad(format!("Limit must be an integer 0 or greater and not '{value}'"))),
    }
}

pub(super) fn truth(name: &str, value: &str) -> Result<bool, Fault> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Fault::invalid(name, format!("'{value}' cannot be converted to boolean"))),
    }
}

/// With or without the `Z` at the end: always UTC.
fn time(value: &str) -> Result<Timestamp, Fault> {
    let parsed = value.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = value.parse().ok()?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    parsed.ok_or_else(|| {
        let reason = format!("'{value}' is not a time such as 2026-01-31T12:00:00Z");
        Fault::new(400, "InvalidInput", format!("Invalid input for changed_since. Reason: {reason}."))
    })
}
