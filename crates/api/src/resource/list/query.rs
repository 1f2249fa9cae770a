//! The query of a list.

use std::cmp::Ordering;
use std::fmt::Display;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::dialect::Refusal;

/// A parsed query of a list or show. The names and values of filters are checked against the noun later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// All key-value pairs of the request, which links repeat.
    pairs: Vec<(String, String)>,
    /// The rule for links to neighbouring pages.
    links: LinkRule,
    /// Whether a string that is not a boolean means false.
    lenient_bool: bool,
    /// The largest page, unless the operator set one.
    largest_page: Option<u64>,
    /// The attributes to show; empty means all.
    pub fields: Vec<String>,
    /// The sort keys, most significant first.
    pub sort: Vec<(String, Direction)>,
    /// The size of a page; none means no paging.
    pub limit: Option<usize>,
    /// The id of the object next to which the page begins.
    pub marker: Option<String>,
    /// Whether the page ends before the marker instead of beginning after it.
    pub page_reverse: bool,
    /// Shows only objects that changed at this time or later.
    pub changed_since: Option<Timestamp>,
    /// All other pairs, in order: the filters.
    pub filters: Vec<(String, String)>,
}

/// A sort direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
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

/// The grammar of an API's list queries.
#[derive(Clone, Copy, Debug)]
pub struct QueryGrammar {
    /// The spelling of sort keys.
    pub sort: SortGrammar,
    /// Whether a string that is not a boolean means false, and `yes`, `on`, `t` and `y` mean true. Otherwise such strings are refused.
    pub lenient_bool: bool,
    /// Whether an invalid limit means "no paging". Otherwise it is refused.
    pub lenient_limit: bool,
    /// The order of a list whose query has no sort keys. The id breaks ties in any case.
    pub default_sort: &'static [(&'static str, Direction)],
    /// The rule for links to neighbouring pages.
    pub links: LinkRule,
    /// The largest page, also of a query without a limit, unless the operator set one. None means that lists are whole.
    pub largest_page: Option<u64>,
    /// Keys that the server itself uses and that are not filters.
    pub reserved: &'static [&'static str],
}

/// The rule for links to neighbouring pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkRule {
    /// Neutron's rule: both directions, except the one in which the list ended.
    #[default]
    BothSides,
    /// Octavia's rule: the next page if this one is full, the previous one if the query has a marker.
    FullOrMarked,
}

/// The spelling of sort keys in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortGrammar {
    /// Neutron's: `sort_key=name&sort_dir=asc`, one pair for each key.
    Pairs,
    /// Octavia's: `sort=name:asc,id:desc`, or comma-separated lists in `sort_key` and `sort_dir`. A key without a direction is ascending,
    /// and a direction without a key is ignored.
    Lists,
}

impl SortGrammar {
    /// The keys in order, from the values of `sort`, `sort_key` and `sort_dir`.
    fn keys(
        self,
        colon: Vec<(String, Direction)>,
        keys: &[String],
        directions: &[String],
    ) -> Result<Vec<(String, Direction)>, Refusal> {
        match self {
            SortGrammar::Pairs => {
                if keys.len() != directions.len() {
                    return Err(Refusal::UnpairedSort);
                }
                let pair = |(key, towards): (&String, &String)| Ok((key.clone(), direction(towards)?));
                keys.iter().zip(directions).map(pair).collect()
            }
            SortGrammar::Lists if !colon.is_empty() => Ok(colon),
            SortGrammar::Lists => {
                let keys = keys.iter().flat_map(|keys| keys.split(',')).filter(|key| !key.is_empty());
                let mut directions =
                    directions.iter().flat_map(|it| it.split(',')).filter(|it| !it.is_empty());
                let pair = |key: &str| {
                    let towards = directions.next().unwrap_or("asc").to_ascii_lowercase();
                    Ok((key.to_owned(), direction(&towards)?))
                };
                keys.map(pair).collect()
            }
        }
    }
}

impl Query {
    /// Parses the pairs of a query string.
    pub fn parse(pairs: Vec<(String, String)>, grammar: &QueryGrammar) -> Result<Self, Refusal> {
        let QueryGrammar { links, lenient_bool, largest_page, .. } = *grammar;
        let mut query = Query { links, lenient_bool, largest_page, ..Query::default() };
        let (mut colon, mut keys, mut directions) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in &pairs {
            match key.as_str() {
                "fields" => query.fields.extend(non_empty(value)),
                "sort" if grammar.sort == SortGrammar::Lists => colon.extend(colon_sort(value)?),
                "sort_key" => keys.push(value.clone()),
                "sort_dir" => directions.push(value.clone()),
                "limit" if grammar.lenient_limit => query.limit = lenient_size(value)?,
                "limit" => query.limit = size(value)?,
                "marker" => query.marker = non_empty(value),
                "page_reverse" => query.page_reverse = query.truth("page_reverse", value)?,
                "changed_since" => query.changed_since = Some(time(value)?),
                word if grammar.reserved.contains(&word) => {}
                _ => query.filters.push((key.clone(), value.clone())),
            }
        }
        query.sort = grammar.sort.keys(colon, &keys, &directions)?;
        if query.sort.is_empty() {
            let sort = grammar.default_sort.iter().map(|(key, direction)| ((*key).to_owned(), *direction));
            query.sort = sort.collect();
        }
        query.pairs = pairs;
        Ok(query)
    }

    /// Parses a boolean.
    pub(super) fn truth(&self, name: &str, value: &str) -> Result<bool, Refusal> {
        match value.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            word if self.lenient_bool => Ok(["yes", "on", "t", "y"].contains(&word)),
            _ => {
                let reason = format!("'{value}' cannot be converted to boolean");
                Err(Refusal::bad_value(name, value, reason))
            }
        }
    }

    /// The size of a page, if there is paging. `configured` is the operator's largest page.
    pub(super) fn page_size(&self, configured: Option<u64>) -> Option<usize> {
        let most = configured.or(self.largest_page).map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        match (self.limit, most) {
            (Some(limit), Some(most)) => Some(limit.min(most)),
            (limit, most) => limit.or(most),
        }
    }

    /// Whether a marker counts without a limit. Neutron ignores it then.
    pub(super) fn heeds_lone_marker(&self) -> bool {
        self.links == LinkRule::FullOrMarked
    }

    /// The links to neighbouring pages: the same query, beginning at the last object or ending at the first one of this page.
    pub(super) fn links<K: Display>(
        &self,
        short: bool,
        ends: Option<(&K, &K)>,
    ) -> Vec<(&'static str, String)> {
        let (next, previous) = match self.links {
            LinkRule::BothSides => (!short || self.page_reverse, !short || !self.page_reverse),
            LinkRule::FullOrMarked => (!short, self.marker.is_some()),
        };
        let mut links = Vec::new();
        if next {
            links.push(("next", self.beside(ends.map(|(_, last)| last), false)));
        }
        if previous {
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

fn direction(value: &str) -> Result<Direction, Refusal> {
    match value {
        "asc" => Ok(Direction::Ascending),
        "desc" => Ok(Direction::Descending),
        other => Err(Refusal::BadSortDirection(other.to_owned())),
    }
}

/// Parses `name:asc,id:desc`; a key without a direction is ascending.
fn colon_sort(value: &str) -> Result<Vec<(String, Direction)>, Refusal> {
    let keys = value.split(',').filter(|key| !key.is_empty());
    keys.map(|key| {
        let (key, towards) = key.split_once(':').unwrap_or((key, "asc"));
        Ok((key.to_owned(), direction(&towards.to_ascii_lowercase())?))
    })
    .collect()
}

/// Parses a size; `infinite` and values below 1 mean no limit.
fn lenient_size(value: &str) -> Result<Option<usize>, Refusal> {
    match value.parse::<i64>() {
        Ok(limit) => Ok(usize::try_from(limit).ok().filter(|limit| *limit > 0)),
        Err(_) if value == "infinite" => Ok(None),
        Err(_) => Err(Refusal::BadLimit(value.to_owned())),
    }
}

fn size(value: &str) -> Result<Option<usize>, Refusal> {
    match value.parse() {
        Ok(0) => Ok(None),
        Ok(limit) => Ok(Some(limit)),
        Err(_) => Err(Refusal::BadLimit(value.to_owned())),
    }
}

/// Parses a time, with or without the final `Z`: always UTC.
fn time(value: &str) -> Result<Timestamp, Refusal> {
    let parsed = value.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = value.parse().ok()?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    parsed.ok_or_else(|| Refusal::BadTime(value.to_owned()))
}
