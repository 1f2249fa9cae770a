//! Shortens log lines that are too long.
//!
//! Tenants choose parts of the names and errors in log lines, and a database may hold megabytes of them. Log readers cut such lines in the
//! middle of a character, refuse them, or fill their disk.

use std::io::{self, Write};

use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

/// The longest line, in bytes.
const LINE: usize = 8 * 1024;
/// The longest string within a JSON line that exceeds `LINE`, in bytes.
const TEXT: usize = 1024;

/// Writes each line to `to`, and shortens lines that are too long.
pub(super) struct CutLines<M> {
    pub(super) to: M,
    /// Whether lines are JSON. A shortened line is then still valid JSON.
    pub(super) json: bool,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for CutLines<M> {
    type Writer = CutWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        CutWriter { to: self.to.make_writer(), json: self.json }
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        CutWriter { to: self.to.make_writer_for(meta), json: self.json }
    }
}

/// Receives one whole line per write, because the formatter writes whole lines.
pub(super) struct CutWriter<W> {
    to: W,
    json: bool,
}

impl<W: Write> Write for CutWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match line.len() <= LINE {
            true => self.to.write_all(line)?,
            false => self.to.write_all(&cut(line, self.json))?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn cut(line: &[u8], json: bool) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    if json && let Ok(mut value) = serde_json::from_str(&text) {
        shorten(&mut value);
        return format!("{value}\n").into_bytes();
    }
    format!("{}\n", shortened(text.trim_end(), LINE)).into_bytes()
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT => *text = shortened(text, TEXT),
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}

/// The start of a string, with the number of omitted bytes.
fn shortened(text: &str, longest: usize) -> String {
    let head = &text[..text.floor_char_boundary(longest)];
    format!("{head}... ({} bytes more)", text.len() - head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str, json: bool) -> String {
        let mut writer = CutWriter { to: Vec::new(), json };
        writer.write_all(line.as_bytes()).unwrap();
        String::from_utf8(writer.to).unwrap()
    }

    #[test]
    fn a_line_of_a_sane_length_stays_as_it_is() {
        assert_eq!(written("INFO a: b\n", false), "INFO a: b\n");
        assert_eq!(written("{\"a\":1}\n", true), "{\"a\":1}\n");
    }

    #[test]
    fn a_long_line_is_cut_at_a_character_and_says_so() {
        let line = format!("WARN {}\n", "ü".repeat(1 << 20));
        let text = written(&line, false);
        assert!(text.len() < LINE + 40 && text.ends_with(" bytes more)\n"), "{} bytes", text.len());
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_long_line_of_json_stays_json() {
        let line = serde_json::json!({"level": "WARN", "fields": ["x".repeat(1 << 20), 7], "short": "y"});
        let value: Value = serde_json::from_str(&written(&format!("{line}\n"), true)).unwrap();
        assert_eq!(
            (&value["level"], &value["short"], &value["fields"][1]),
            (&"WARN".into(), &"y".into(), &7.into())
        );
        assert!(value["fields"][0].as_str().unwrap().ends_with("bytes more)"));
        // A line that should be JSON but is not is cut like a text line.
        assert!(written(&"{".repeat(LINE * 2), true).len() < LINE + 40);
    }
}
