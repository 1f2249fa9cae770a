//! Output formats of rows: plain JSON, CSV, and tables.
//!
//! Everything here is pure: values in, strings out. All formats print [`Natural`]: a value with the type that shapes it.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod csv;
mod json;
mod table;

pub(crate) use csv::{csv_line, csv_row};
pub(crate) use json::{Natural, NaturalRow};
pub(crate) use table::{Look, Table, cell, visible};

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// One JSON object per line
    Json,
    /// Comma-separated values with a header (RFC 4180)
    Csv,
}

/// The format of a status, plan or explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Said {
    /// For people
    Text,
    /// As JSON
    Json,
}

#[cfg(test)]
mod tests;
