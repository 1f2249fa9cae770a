//! Parsers of option values. Each error names the expected form.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use ovsdb::session::Remotes;
use smol_str::SmolStr;

use super::NdpProxy;
use crate::ini;

/// The longest name of a network device.
const LONGEST_DEVICE: usize = 15;
/// Tables of the kernel's own: default, main, local; 0 is none.
const KERNEL_TABLES: [u32; 4] = [0, 253, 254, 255];

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    ini::boolean(text).ok_or_else(|| format!("expected true or false, found {text:?}"))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    integer(text, 0..=u64::from(u32::MAX)).map(Duration::from_secs)
}

/// A period: zero would be without end.
pub(super) fn period(text: &str) -> Result<Duration, String> {
    integer(text, 1..=u64::from(u32::MAX)).map(Duration::from_secs)
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    integer(text, 0..=600_000).map(Duration::from_millis)
}

pub(super) fn integer(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let wrong = || format!("expected a number from {} to {}, found {text:?}", range.start(), range.end());
    text.parse().ok().filter(|n| range.contains(n)).ok_or_else(wrong)
}

pub(super) fn parsed<T: FromStr>(text: &str, expected: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected {expected}, found {text:?}"))
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(text.into())
}

pub(super) fn remotes(text: &str) -> Result<Remotes, String> {
    text.parse().map_err(|error: ovsdb::session::RemoteError| error.to_string())
}

pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("expected {}, found {text:?}", words.join(" or "))
    })
}

/// A name the kernel takes for a device, and that stands in FRR's configuration as one word.
pub(super) fn device(text: &str) -> Result<SmolStr, String> {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '!' | '#' | '|' | '?');
    if text.len() > LONGEST_DEVICE || !text.chars().all(plain) || matches!(text, "." | "..") {
        return Err(format!("expected a device name of up to {LONGEST_DEVICE} letters, found {text:?}"));
    }
    Ok(text.into())
}

/// `64999`, or in dots `1.10`.
pub(super) fn as_number(text: &str) -> Result<SmolStr, String> {
    let plain = text.parse::<u32>().is_ok_and(|n| n > 0);
    let dotted = text.split_once('.').is_some_and(|(high, low)| {
        matches!((high.parse::<u16>(), low.parse::<u16>()), (Ok(high), Ok(low)) if high > 0 || low > 0)
    });
    // What parses as a number may still have a sign in front.
    let digits = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if (plain || dotted) && digits {
        return Ok(text.into());
    }
    Err(format!("expected an AS number as 64999 or 1.10, found {text:?}"))
}

pub(super) fn table(text: &str) -> Result<u32, String> {
    let number = integer(text, 1..=u64::from(u32::MAX))?;
    let table = u32::try_from(number).unwrap_or(u32::MAX);
    if KERNEL_TABLES.contains(&table) {
        return Err(format!("table {table} is one of the kernel's own; take another number"));
    }
    Ok(table)
}

pub(super) fn priority(text: &str) -> Result<u32, String> {
    // 0 is the kernel's local table, 32766 and 32767 its main and default ones: behind those nothing would be steered.
    integer(text, 1..=32765).map(|number| u32::try_from(number).unwrap_or(32000))
}

/// `ADDRESS` or `ADDRESS@PHYSNET`, separated by commas.
pub(super) fn prefixes(text: &str) -> Result<BTreeSet<IpNet>, String> {
    let one = |item: String| {
        let prefix = item.parse::<IpNet>().ok().or_else(|| Some(item.parse::<IpAddr>().ok()?.into()));
        prefix
            .map(|prefix| prefix.trunc())
            .ok_or_else(|| format!("expected prefixes as 10.10.0.0/16, found {item:?}"))
    };
    ini::list(text).into_iter().map(one).collect()
}

pub(super) fn ndp_proxies(text: &str) -> Result<BTreeSet<NdpProxy>, String> {
    let one = |item: String| {
        let (address, physnet) = match item.split_once('@') {
            Some((address, physnet)) => (address, Some(SmolStr::new(physnet.trim()))),
            None => (item.as_str(), None),
        };
        let address: Ipv6Addr =
            parsed(address.trim(), "IPv6 addresses as 2001:db8::1 or 2001:db8::1@physnet1")?;
        Ok(NdpProxy { address, physnet })
    };
    ini::list(text).into_iter().map(one).collect()
}
