//! Comma-separated values by RFC 4180: cells with a comma, a quote or a line end are quoted, and quotes are doubled.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::json::Natural;

/// One line, without its line end.
pub(crate) fn csv_line<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            line.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) || cell.starts_with(' ') || cell.ends_with(' ') {
            line.push('"');
            line.push_str(&cell.replace('"', "\"\""));
            line.push('"');
        } else {
            line.push_str(cell);
        }
    }
    line
}

/// One row: single values bare, sets and maps as JSON, so that every cell is unambiguous.
pub(crate) fn csv_row(values: &[Natural<'_>]) -> String {
    let cells: Vec<String> = values
        .iter()
        .map(|value| match (value.datum.scalar(), value.kind.max, &value.kind.value) {
            (Some(atom), Some(1), None) => atom.to_string(),
            _ => match serde_json::to_string(value) {
                Ok(text) if text == "null" => String::new(),
                Ok(text) => text,
                Err(error) => error.to_string(),
            },
        })
        .collect();
    csv_line(cells.iter().map(String::as_str))
}
