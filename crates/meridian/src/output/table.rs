//! Tables for people: columns as wide as their widest cell, headers in bold where colours are on.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::json::Natural;

/// Rows of cells under headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these headers.
    pub(crate) fn new<H: Into<String>>(headers: impl IntoIterator<Item = H>) -> Self {
        Self { headers: headers.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(|cell| visible(&cell.into())).collect());
    }

    /// The text, a line per row; nothing is padded behind the last column.
    pub(crate) fn render(&self, coloured: bool) -> String {
        let mut widths: Vec<usize> = self.headers.iter().map(|header| header.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let mut out = String::new();
        line(&mut out, &self.headers, &widths, if coloured { ("\x1b[1m", "\x1b[0m") } else { ("", "") });
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        line(&mut out, &rules, &widths, if coloured { ("\x1b[2m", "\x1b[0m") } else { ("", "") });
        for row in &self.rows {
            line(&mut out, row, &widths, ("", ""));
        }
        out
    }
}

fn line(out: &mut String, cells: &[String], widths: &[usize], (on, off): (&str, &str)) {
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let gap = if at == 0 { "" } else { "  " };
        let _ = write!(out, "{gap}{on}{cell}{off}");
        if at + 1 < cells.len() {
            let _ = write!(out, "{:1$}", "", width - cell.width());
        }
    }
    out.push('\n');
}

/// Control characters would move the cursor, or worse: they are shown, not sent.
fn visible(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// A value in a table: as ovs-vsctl shows it, and nothing where an optional one is not there.
pub(crate) fn cell(value: Natural<'_>) -> String {
    if value.datum.is_empty() && value.kind.value.is_none() && value.kind.max == Some(1) {
        return String::new();
    }
    match (value.datum, &value.kind.value) {
        (datum, Some(_)) if datum.is_empty() => "{}".into(),
        // A set of one is still a set.
        (datum, None) if datum.len() == 1 && value.kind.max != Some(1) => format!("[{datum}]"),
        (datum, _) => datum.to_string(),
    }
}
