//! Prints the configuration as TOML, each key with the origin of its value.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write;

use super::Config;

impl Config {
    /// The configuration as a valid TOML file, with the documentation above each key and the origin of its value behind it. A key that is
    /// not set is a comment.
    pub(crate) fn to_toml(&self) -> String {
        let mut out = String::new();
        let mut config = self.clone();
        let mut last = "";
        for (key, field) in config.fields() {
            if key.section != last {
                let gap = if last.is_empty() { "" } else { "\n" };
                let _ = writeln!(out, "{gap}[{}]", key.section);
                last = key.section;
            }
            let _ = writeln!(out, "# {} ({})", key.doc, key.variable());
            let _ = match field.to_toml() {
                Some(value) => writeln!(out, "{} = {value}  # from {}", key.name, field.origin()),
                None => writeln!(out, "# {} is not set", key.name),
            };
        }
        out
    }
}
