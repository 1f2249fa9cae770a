//! A full reload: the difference between the replica and the server's complete content.
//!
//! Rows are decoded from the end of the message to its beginning. If the caller gives up ownership of the message, its tail is freed on the
//! way. So a first load takes about as much memory as the larger of message and rows, not as both.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use uuid::Uuid;

use super::apply::{StagedRows, UpdateVersion};
use super::codec::Codec;
use super::delta::Change;
use super::error::ApplyError;
use super::split::{self, RowText, RowTexts};
use super::table::{AnyStaged, AnyTable, TableState};

/// The number of decoded bytes after which their memory is freed.
const STRIDE: usize = 4 << 20;

/// A message, borrowed or owned.
pub(super) enum Text<'a> {
    /// A message that belongs to the caller.
    Borrowed(&'a str),
    /// A message that may be freed from its end.
    Owned(String),
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }

    /// Drops everything from a position on, which is no longer needed.
    fn cut(&mut self, at: usize) {
        if let Self::Owned(text) = self {
            text.truncate(at);
            text.shrink_to_fit();
        }
    }
}

/// Stages a reload. The body begins at `at` in the message and ends with it; it is the whole content.
pub(super) fn stage(
    tables: &[Arc<dyn AnyTable>],
    version: UpdateVersion,
    mut text: Text<'_>,
    at: usize,
) -> Result<Vec<(usize, AnyStaged)>, ApplyError> {
    let body = &text.as_str()[at..];
    let mut parts: Vec<(usize, RowTexts)> = split::tables(body, at)?
        .into_iter()
        // Tables that the model does not contain are skipped.
        .filter_map(|(name, rows)| Some((tables.iter().position(|table| table.name() == &*name)?, rows)))
        .collect();
    let mut staged = Vec::with_capacity(tables.len());
    for (position, table) in tables.iter().enumerate() {
        let listed = parts.iter().find(|(part, _)| *part == position).map_or(&[][..], |(_, rows)| rows);
        staged.push((position, table.stage_gone(listed)));
    }
    parts.retain(|(_, rows)| !rows.is_empty());
    parts.iter_mut().for_each(|(_, rows)| rows.sort_unstable_by_key(|row| row.at.start));
    // If a table occurs twice, its parts may enclose another table. Then nothing can be cut off.
    let apart = parts.is_sorted_by(|(_, a), (_, b)| a[a.len() - 1].at.end <= b[0].at.start);
    for (position, rows) in parts.iter_mut().rev() {
        let (table, changes) = (&tables[*position], &mut staged[*position].1);
        while let Some(last) = rows.last() {
            let batch = rows.partition_point(|row| row.at.end + STRIDE <= last.at.end);
            table.stage_initial(version, text.as_str(), &rows[batch..], changes)?;
            if apart {
                text.cut(rows[batch].at.start);
            }
            rows.truncate(batch);
        }
    }
    Ok(staged)
}

impl<C: Codec> TableState<C> {
    /// Stages the deletion of all rows that a reload does not list. The list has room for those that it does.
    pub(super) fn stage_gone(&self, listed: &[RowText]) -> StagedRows<C::Row> {
        let mut staged = StagedRows::default();
        if self.rows.is_empty() && self.unreadable.is_empty() {
            staged.changes.reserve_exact(listed.len());
            return staged;
        }
        let mut listed: Vec<Uuid> = listed.iter().map(|row| row.uuid).collect();
        listed.sort_unstable();
        let gone = |uuid: &Uuid| listed.binary_search(uuid).is_err();
        for (row, before) in self.rows.shared().filter(|(row, _)| gone(&row.uuid())) {
            let before = Some(Arc::clone(before));
            staged.changes.push(Change { uuid: row.uuid(), before, after: None });
        }
        staged.unreadable.extend(self.unreadable.keys().filter(|uuid| gone(uuid)).map(|uuid| (*uuid, None)));
        staged
    }
}
