//! Configuration files as oslo.config reads them: what existing agents are configured with.
//!
//! The dialect is oslo's, line by line: `[section]`, `name = value` or `name: value`, comments on lines of their own, lines that
//! begin with a blank go on with the value before, one pair of matching quotes around a value is taken off, a name may be
//! given several times. General INI readers differ in each of these (a name that spans lines, escapes, quotes within a
//! value), and know no line numbers, hence a reader of our own. What the options mean is for their owners to say.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod substitute;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The section of options that stand outside of any.
pub const DEFAULT: &str = "DEFAULT";

/// One `name = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The section in lower case, save [`DEFAULT`].
    pub section: String,
    /// The option's name in lower case, with `_` for `-`.
    pub name: String,
    /// The value; continued lines are separated by line breaks.
    pub value: String,
    /// The line's position.
    pub place: Place,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A line that is none of the dialect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct IniError {
    /// The position.
    pub place: Place,
    /// The error.
    pub what: IniProblem,
}

/// The errors of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IniProblem {
    /// It begins with a blank, and there is no value before it.
    #[error("a line that begins with a blank continues a value, and there is none before it")]
    Continuation,
    /// A section's name is not closed or is empty.
    #[error("a section is written [name]")]
    Section,
    /// Neither `=` nor `:`.
    #[error("neither a comment, nor [section], nor name = value")]
    Assignment,
    /// Nothing in front of `=`.
    #[error("there is no name in front of the value")]
    Name,
}

/// The entries of one or more files, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ini {
    /// As they stand in the files; the later ones win.
    pub entries: Vec<Entry>,
}

impl Ini {
    /// Adds what a file says.
    pub fn read(&mut self, file: &str, text: &str) -> Result<(), IniError> {
        let file: Arc<str> = file.into();
        let mut section = DEFAULT.to_owned();
        // Whether the last entry may be continued.
        let mut open = false;
        let before = self.entries.len();
        // A byte order mark and line ends of other systems are no part of the text.
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let place = Place { file: Arc::clone(&file), line: at + 1 };
            let fail = |what| Err(IniError { place: place.clone(), what });
            let line = line.trim_end();
            if line.is_empty() {
                open = false;
            } else if line.starts_with([' ', '\t']) {
                let Some(last) = self.entries[before..].last_mut().filter(|_| open) else {
                    return fail(IniProblem::Continuation);
                };
                last.value.push('\n');
                last.value.push_str(line.trim_start());
            } else if let Some(rest) = line.strip_prefix('[') {
                let name = rest.split_once(']').map(|(name, _)| name.trim()).filter(|name| !name.is_empty());
                let Some(name) = name else { return fail(IniProblem::Section) };
                section = section_name(name);
                open = false;
            } else if line.starts_with(['#', ';']) {
                // As oslo: a comment ends a value.
                open = false;
            } else {
                let Some((name, value)) = line.split_once(['=', ':']) else {
                    return fail(IniProblem::Assignment);
                };
                let name = option_name(name);
                if name.is_empty() {
                    return fail(IniProblem::Name);
                }
                self.entries.push(Entry {
                    section: section.clone(),
                    name,
                    value: unquote(value.trim()).to_owned(),
                    place,
                });
                open = true;
            }
        }
        Ok(())
    }

    /// The last value of an option, with references to other options replaced.
    pub fn get(&self, section: &str, name: &str) -> Option<String> {
        let (section, name) = (section_name(section), option_name(name));
        self.last(&section, &name).map(|entry| substitute::substitute(self, entry))
    }

    /// An entry's value, with references to other options replaced.
    pub fn value(&self, entry: &Entry) -> String {
        substitute::substitute(self, entry)
    }

    fn last(&self, section: &str, name: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.section == section && entry.name == name)
    }
}

/// Sections are told apart without their case, as `[AGENT]` and `[agent]` are both in use.
fn section_name(name: &str) -> String {
    if name.eq_ignore_ascii_case(DEFAULT) { DEFAULT.to_owned() } else { name.to_lowercase() }
}

fn option_name(name: &str) -> String {
    name.trim().to_lowercase().replace('-', "_")
}

/// Takes one pair of matching quotes off.
fn unquote(value: &str) -> &str {
    ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(value)
}

/// A truth value in one of oslo's words; `None` for anything else.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// A list with commas, its blanks and empty items left out. Brackets around it are taken off.
pub fn list(text: &str) -> Vec<String> {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let items = text.split([',', '\n']).map(|item| unquote(item.trim()).trim());
    items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
