//! References from one value to another: `$name`, `${name}`, `$section.name`, `$$` for a dollar sign.
//!
//! A reference to an option that no file sets is left as it stands: only the option's owner knows its default, and a value
//! with a dollar sign is more often a password than a template.

use super::{DEFAULT, Entry, Ini, option_name, section_name};

/// Maximum depth of references; a circle ends here, and the rest of it stays as it is.
const DEPTH: usize = 8;
/// Maximum number of references that are followed for one value; the rest stays as it is.
const MOST: usize = 256;

pub(super) fn substitute(ini: &Ini, entry: &Entry) -> String {
    expand(ini, &entry.section, &entry.value, DEPTH, &mut { MOST })
}

fn expand(ini: &Ini, section: &str, text: &str, depth: usize, left: &mut usize) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, behind) = reference(after);
        let found = name.filter(|_| depth > 0 && *left > 0).and_then(|name| find(ini, section, name));
        match found {
            Some(found) => {
                *left -= 1;
                out.push_str(&expand(ini, &found.section, &found.value, depth - 1, left));
                rest = behind;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The name behind a dollar sign, and what follows it.
fn reference(text: &str) -> (Option<&str>, &str) {
    if let Some(inner) = text.strip_prefix('{') {
        return match inner.split_once('}') {
            Some((name, behind)) => (Some(name), behind),
            None => (None, text),
        };
    }
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let end = text.find(|c| !word(c)).unwrap_or(text.len());
    let name = text[..end].trim_end_matches(['.', '-']);
    ((!name.is_empty()).then_some(name), &text[name.len()..])
}

/// `section.name`, or a name of the same section or of the default one.
fn find<'i>(ini: &'i Ini, section: &str, name: &str) -> Option<&'i Entry> {
    if let Some((section, name)) = name.split_once('.') {
        return ini.last(&section_name(section), &option_name(name));
    }
    let name = option_name(name);
    ini.last(section, &name).or_else(|| ini.last(DEFAULT, &name))
}
