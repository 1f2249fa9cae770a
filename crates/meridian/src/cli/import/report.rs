//! The report at the end of an import, for people and as JSON.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;

use api::import::{Outlook, Remark, Takeover};
use serde::Serialize;

use crate::cli::{json, print};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Said;

/// The outcome.
#[derive(Debug, Serialize)]
pub(super) struct ImportReport {
    /// Objects of each noun.
    pub(super) objects: BTreeMap<&'static str, usize>,
    /// Those that cannot be taken over.
    pub(super) left_out: Vec<Remark>,
    pub(super) notes: Vec<String>,
    /// The changes of the Northbound in the first pass.
    pub(super) northbound: Option<Outlook>,
    /// The database that contains it now, if it was stored.
    pub(super) stored: Option<String>,
}

impl ImportReport {
    pub(super) fn of(takeover: &Takeover) -> Self {
        ImportReport {
            objects: takeover.counts(),
            left_out: takeover.left_out.clone(),
            notes: takeover.notes.clone(),
            northbound: takeover.northbound.clone(),
            stored: None,
        }
    }

    /// Prints it. Fails if the import was refused, because of objects of `service`.
    pub(super) fn finish(&self, output: Said, is_refused: bool, service: &str) -> Outcome {
        print(&match output {
            Said::Text => self.to_string(),
            Said::Json => json(self) + "\n",
        })?;
        if is_refused {
            let count = self.left_out.len();
            return Err(Failure::told(
                Exit::Refused,
                format!("cannot import {count} objects; nothing is stored"),
            )
            .try_(format!("--leave-out to continue without them, or change them in {service}")));
        }
        Ok(())
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "objects: {}", list(&self.objects))?;
        if let Some(northbound) = &self.northbound {
            writeln!(f, "rows of the Northbound that keep their UUIDs: {}", list(&northbound.kept))?;
            writeln!(f, "rows that the first pass creates: {}", list(&northbound.made))?;
            writeln!(f, "rows that the first pass removes: {}", list(&northbound.removed))?;
            if !northbound.strangers.is_empty() {
                writeln!(f, "rows that belong to no object and stay as they are:")?;
            }
            for row in &northbound.strangers {
                let is_balancer = row.table == "Load_Balancer" && !row.name.starts_with("pf-floatingip-");
                let whose = match row.neutron {
                    true if is_balancer => ", written by Octavia: see `meridian import octavia`",
                    true => ", written by Neutron",
                    false => "",
                };
                writeln!(f, "  {} {} {}{whose}", row.table, row.uuid, row.name)?;
            }
        }
        if !self.left_out.is_empty() {
            writeln!(f, "objects that cannot be imported:")?;
        }
        for Remark { noun, id, text } in &self.left_out {
            writeln!(f, "  {noun} {id}: {text}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        match &self.stored {
            Some(store) => writeln!(f, "stored in {store}"),
            None => writeln!(f, "nothing was stored"),
        }
    }
}

fn list(counts: &BTreeMap<&'static str, usize>) -> String {
    let all: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
