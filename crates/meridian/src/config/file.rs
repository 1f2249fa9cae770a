//! Reads the TOML file. Every key must be known, and each problem names its line.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{Config, Origin, Problem};
use crate::nearest;

/// Sets the keys of the file. Reports each problem and continues with the rest.
pub(super) fn read(config: &mut Config, path: &Path, text: &str, problems: &mut Vec<Problem>) {
    let lines = Lines(text);
    let place = |at: usize| format!("{}:{}", path.display(), lines.line(at));
    // The first error in the file is the cause, and the parser does not report the errors in order.
    let (table, errors) = DeTable::parse_recoverable(text);
    let begin = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    if let Some(error) = errors.iter().min_by_key(|error| begin(error)) {
        problems.push(Problem { place: place(begin(error)), what: format!("no TOML: {}", error.message()) });
        return;
    }
    let keys = Config::keys();
    let mut sections: Vec<&str> = keys.iter().map(|key| key.section).collect();
    sections.dedup();
    // Sections in the order of the file, which is not the order of the parsed map.
    let mut found: Vec<_> = table.get_ref().iter().collect();
    found.sort_by_key(|(name, _)| name.span().start);
    for (section, value) in found {
        let at = section.span().start;
        let section = section.get_ref().as_ref();
        if !sections.contains(&section) {
            let what = match keys.iter().find(|key| key.name == section) {
                Some(key) => format!("`{section}` belongs in the section [{}]", key.section),
                None => {
                    let hint = nearest::hint(section, sections.iter().copied());
                    format!("unknown section `{section}`{hint}; there are {}", sections.join(", "))
                }
            };
            problems.push(Problem { place: place(at), what });
            continue;
        }
        let DeValue::Table(table) = value.get_ref() else {
            problems.push(Problem {
                place: place(at),
                what: format!("`{section}` is a section: write [{section}]"),
            });
            continue;
        };
        let mut found: Vec<_> = table.iter().collect();
        found.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in found {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            let mut fields = config.fields();
            let field = fields.iter_mut().find(|(key, _)| key.section == section && key.name == name);
            let Some((_, field)) = field else {
                problems.push(Problem { place: place(at), what: unknown(section, name) });
                continue;
            };
            let origin = Origin::File { path: path.to_owned(), line: lines.line(at) };
            if let Err(what) = field.set_toml(value.get_ref(), origin) {
                problems.push(Problem { place: place(at), what: format!("`{section}.{name}`: {what}") });
            }
        }
    }
}

/// The problem of an unknown key, with a hint: the most similar key of the section, else the section that has the key, else all keys of the
/// section.
fn unknown(section: &str, name: &str) -> String {
    let keys = Config::keys();
    let here = || keys.iter().filter(|key| key.section == section).map(|key| key.name);
    let what = format!("unknown key `{section}.{name}`");
    if let Some(near) = nearest::nearest(name, here()) {
        return format!("{what}; did you mean `{section}.{near}`?");
    }
    if let Some(key) = keys.iter().find(|key| key.name == name) {
        return format!("{what}; did you mean `{}`?", key.path());
    }
    format!("{what}; [{section}] has {}", here().collect::<Vec<_>>().join(", "))
}

struct Lines<'a>(&'a str);

impl Lines<'_> {
    /// The line number of a byte, counted from 1.
    fn line(&self, at: usize) -> usize {
        self.0.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }
}
