//! Announcements of the previous agent, while some rows do not parse.
//!
//! Of a row that cannot be read any more the last decision tells what it exposed. At the start there is none: what is announced and
//! wanted by no row may be stale, or be of a row that became unreadable while no agent ran, and still work. So it stays if such a
//! row may have it, from the start until all rows can be read. Then, and from then on, what no row wants goes.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use imbl::OrdSet;
use ipnet::IpNet;

use crate::plane::unclaimed::UnclaimedAnnouncements;

/// The knowledge about the announcements of the previous agent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Inherited {
    /// Nothing, as nothing was decided yet.
    #[default]
    Unknown,
    /// Some rows cannot be read, now and at every decision since the start.
    Doubted(UnclaimedAnnouncements),
    /// All rows could be read once.
    Settled,
}

/// The addresses that rows may have which do not parse.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    any: bool,
    some: BTreeSet<IpAddr>,
}

impl Doubts {
    /// A row that hides addresses: those that its texts still show, if there are any.
    pub(super) fn of_texts(&mut self, texts: impl IntoIterator<Item = String>) {
        let shown: BTreeSet<IpAddr> = texts.into_iter().flat_map(|text| shown(&text)).collect();
        self.any |= shown.is_empty();
        self.some.extend(shown);
    }

    /// A row that hides more than addresses of its own.
    pub(super) fn of_all(&mut self) {
        self.any = true;
    }

    /// The next state, from the previous one and the exposed addresses.
    pub(super) fn after(self, before: &Inherited, exposed: impl Iterator<Item = IpAddr>) -> Inherited {
        let mut known = match before {
            Inherited::Settled => return Inherited::Settled,
            _ if !self.any && self.some.is_empty() => return Inherited::Settled,
            Inherited::Unknown => OrdSet::new(),
            Inherited::Doubted(before) => before.known.clone(),
        };
        known.extend(exposed);
        let may = (!self.any).then(|| self.some.into_iter().collect());
        Inherited::Doubted(UnclaimedAnnouncements { may, known })
    }
}

/// The addresses that can be made out in a text: alone, with a prefix length, or with a port.
fn shown(text: &str) -> Vec<IpAddr> {
    let address = |word: &str| {
        let plain = word.parse().ok().or_else(|| Some(word.parse::<IpNet>().ok()?.addr()));
        plain.or_else(|| word.rsplit_once(':')?.0.trim_matches(['[', ']']).parse().ok())
    };
    text.split_ascii_whitespace().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> BTreeSet<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_are_made_out_in_what_cannot_be_read() {
        for (text, expected) in [
            ("fa:16:3e 172.24.4.10 2001:db8::1", &["172.24.4.10", "2001:db8::1"][..]),
            ("10.0.0.5/24 10.0.0.x/24", &["10.0.0.5"]),
            ("172.24.4.50:80x", &["172.24.4.50"]),
            ("[2001:db8::5]:x", &["2001:db8::5"]),
            ("fa:16:3e:00:00:01 172.24.4.300 is_chassis_resident(x)", &[]),
            ("", &[]),
        ] {
            assert_eq!(shown(text).into_iter().collect::<BTreeSet<_>>(), ips(expected), "{text:?}");
        }
    }

    /// The kept announcements of `10.0.0.1` to `10.0.0.3` after decisions, each with its unreadable strings and its exposed addresses.
    fn held(decisions: &[(&[&str], &[&str])]) -> Vec<u8> {
        let mut inherited = Inherited::Unknown;
        for (texts, exposed) in decisions {
            let mut doubts = Doubts::default();
            texts.iter().for_each(|text| doubts.of_texts([(*text).to_owned()]));
            inherited = doubts.after(&inherited, ips(exposed).into_iter());
        }
        let Inherited::Doubted(unclaimed) = inherited else { return Vec::new() };
        (1..4).filter(|n| unclaimed.has([10, 0, 0, *n].into())).collect()
    }

    #[test]
    fn it_stays_while_a_row_may_have_it_and_until_all_were_read() {
        assert_eq!(held(&[(&["? 10.0.0.1"], &[])]), [1]);
        assert_eq!(held(&[(&["? 10.0.0.1", "10.0.0.2 ?"], &["10.0.0.2"])]), [1]);
        assert_eq!(held(&[(&["?"], &["10.0.0.2"])]), [1, 3], "nobody knows what it may have");
        // What was exposed since is another matter.
        assert_eq!(held(&[(&["?"], &["10.0.0.2"]), (&["?"], &["10.0.0.3"])]), [1]);
        assert_eq!(held(&[(&["?"], &[]), (&["? 10.0.0.1"], &[])]), [1]);
        assert_eq!(held(&[(&[], &[])]), [0; 0]);
        assert_eq!(
            held(&[(&["?"], &[]), (&[], &[]), (&["?"], &[])]),
            [0; 0],
            "once all were read, all is known"
        );
    }
}
