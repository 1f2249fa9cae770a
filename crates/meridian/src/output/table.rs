//! Tables for terminals: columns as wide as their widest cell, headers in bold if colours are on.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::json::Natural;

/// Rows of cells under headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One cell and its style.
#[derive(Clone, Debug, Default)]
struct Cell {
    text: String,
    look: Look,
}

/// The style of a cell, which shows its state if colours are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Look {
    #[default]
    Plain,
    Good,
    Bad,
    Strong,
    Faint,
}

impl Look {
    /// The escape sequences around a cell.
    fn codes(self, coloured: bool) -> (&'static str, &'static str) {
        match self {
            _ if !coloured => ("", ""),
            Look::Plain => ("", ""),
            Look::Good => ("\x1b[32m", "\x1b[0m"),
            Look::Bad => ("\x1b[31m", "\x1b[0m"),
            Look::Strong => ("\x1b[1m", "\x1b[0m"),
            Look::Faint => ("\x1b[2m", "\x1b[0m"),
        }
    }
}

impl Table {
    /// An empty table with these headers.
    pub(crate) fn new<H: Into<String>>(headers: impl IntoIterator<Item = H>) -> Self {
        Self { headers: headers.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.looking(cells.into_iter().map(|cell| (cell, Look::Plain)));
    }

    /// Adds a row of cells with styles.
    pub(crate) fn looking<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = (C, Look)>) {
        let cells = cells.into_iter().map(|(text, look)| Cell { text: visible(&text.into()), look });
        self.rows.push(cells.collect());
    }

    /// The table as a string, a line per row. The last column is not padded.
    pub(crate) fn render(&self, coloured: bool) -> String {
        let mut widths: Vec<usize> = self.headers.iter().map(|header| header.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let mut out = String::new();
        let cells = |text: &mut dyn Iterator<Item = String>, look| -> Vec<Cell> {
            text.map(|text| Cell { text, look }).collect()
        };
        let headers = cells(&mut self.headers.iter().cloned(), Look::Strong);
        let rules = cells(&mut widths.iter().map(|width| "-".repeat(*width)), Look::Faint);
        for row in [&headers, &rules].into_iter().chain(&self.rows) {
            line(&mut out, row, &widths, coloured);
        }
        out
    }
}

fn line(out: &mut String, cells: &[Cell], widths: &[usize], coloured: bool) {
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let gap = if at == 0 { "" } else { "  " };
        let (on, off) = cell.look.codes(coloured);
        let _ = write!(out, "{gap}{on}{}{off}", cell.text);
        if at + 1 < cells.len() {
            let _ = write!(out, "{:1$}", "", width - cell.text.width());
        }
    }
    out.push('\n');
}

/// Escapes control characters, which would otherwise move the cursor or control the terminal.
pub(crate) fn visible(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// A value in the form of ovs-vsctl. An absent optional value is an empty cell.
pub(crate) fn cell(value: Natural<'_>) -> String {
    if value.datum.is_empty() && value.kind.value.is_none() && value.kind.max == Some(1) {
        return String::new();
    }
    match (value.datum, &value.kind.value) {
        (datum, Some(_)) if datum.is_empty() => "{}".into(),
        // A set with one element is still printed as a set.
        (datum, None) if datum.len() == 1 && value.kind.max != Some(1) => format!("[{datum}]"),
        (datum, _) => datum.to_string(),
    }
}
