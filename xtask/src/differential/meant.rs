//! The differences that are meant, with their reasons: `xtask/differential/meant.txt`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::compare::{Difference, METADATA_PORT};

/// A class of differences, where `*` stands for any string, and the reason for it.
#[derive(Debug)]
struct Meant {
    class: String,
    reason: String,
    met: usize,
}

/// All differences of a run: those that are meant, and the rest by class.
#[derive(Debug)]
pub(super) struct Judge {
    meant: Vec<Meant>,
    /// The number of each difference that nobody has explained, with its first example.
    unexplained: BTreeMap<String, (usize, String)>,
}

impl Judge {
    /// Parses the file: `CLASS: REASON` in each line, comments after `#`.
    pub(super) fn parse(text: &str) -> Result<Judge> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let meant = lines.map(|line| {
            let (class, reason) = line
                .rsplit_once(" :: ")
                .with_context(|| format!("{line:?} has no reason: CLASS :: REASON"))?;
            Ok(Meant { class: class.trim().to_owned(), reason: reason.trim().to_owned(), met: 0 })
        });
        Ok(Judge { meant: meant.collect::<Result<_>>()?, unexplained: BTreeMap::new() })
    }

    /// Takes a difference that was met in an answer. Returns whether it is meant.
    pub(super) fn take(&mut self, difference: &Difference, request: &str) -> bool {
        // An explanation for all objects holds for metadata ports as well.
        let general = difference.class.strip_prefix(METADATA_PORT).unwrap_or(&difference.class);
        let explains = |meant: &Meant| {
            [difference.class.as_str(), general].iter().any(|class| matches(&meant.class, class))
        };
        if let Some(meant) = self.meant.iter_mut().find(|meant| explains(meant)) {
            meant.met += 1;
            return true;
        }
        let example = || {
            eprintln!("{}\n      {request}\n      {}", difference.class, difference.values);
            (0, format!("{request}\n      {}", difference.values))
        };
        self.unexplained.entry(difference.class.clone()).or_insert_with(example).0 += 1;
        false
    }

    /// The differences without an explanation.
    pub(super) fn unexplained(&self) -> impl Iterator<Item = String> {
        self.unexplained.iter().map(|(class, (count, example))| format!("{count} x {class}\n      {example}"))
    }

    /// The differences that were met and are meant, with the number of each.
    pub(super) fn met(&self) -> impl Iterator<Item = String> {
        let met = self.meant.iter().filter(|meant| meant.met > 0);
        met.map(|meant| format!("{} x {}: {}", meant.met, meant.class, meant.reason))
    }

    /// The explanations of differences that were not met.
    pub(super) fn missed(&self) -> impl Iterator<Item = &str> {
        self.meant.iter().filter(|meant| meant.met == 0).map(|meant| meant.class.as_str())
    }
}

/// Whether a string has the form of a pattern, in which `*` stands for any string.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((begin, rest)) => text.strip_prefix(begin).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(class: &str) -> Difference {
        Difference { class: class.to_owned(), values: "ours 1, Neutron 2".to_owned() }
    }

    #[test]
    fn differences_are_meant_unexplained_or_gone() {
        let mut judge =
            Judge::parse("# why\n\nports + x :: an extension\nPUT *[a=1]*: 4* :: stricter\nold ~ :: gone\n")
                .unwrap();
        assert!(judge.take(&difference("ports + x"), "GET ports"));
        assert!(judge.take(&difference("PUT ports [a=1] as alice: 400, Neutron 200"), "PUT ports"));
        assert!(!judge.take(&difference("PUT ports [a=1] as alice: 200, Neutron 400"), "PUT ports"));
        assert!(judge.take(&difference("metadata port in ports + x"), "GET ports"));
        assert!(!judge.take(&difference("ports + xy"), "GET ports"));
        assert!(!judge.take(&difference("ports + xy"), "GET ports again"));
        let unexplained: Vec<String> = judge.unexplained().collect();
        assert_eq!(unexplained.len(), 2);
        assert!(unexplained[1].starts_with("2 x ports + xy\n      GET ports\n"), "{unexplained:?}");
        assert_eq!(judge.met().count(), 2);
        assert_eq!(judge.missed().collect::<Vec<_>>(), ["old ~"], "it no longer occurs");
    }

    #[test]
    fn an_explanation_has_a_reason() {
        let error = Judge::parse("ports + x\n").unwrap_err().to_string();
        assert!(error.contains("ports + x") && error.contains("CLASS :: REASON"), "{error}");
        Judge::parse(include_str!("../../differential/meant.txt")).unwrap();
    }
}
