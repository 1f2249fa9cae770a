//! `meridian ovsdb dump`: prints the rows of a table, with the types of the server's own schema.

use std::io::{BufWriter, Write};

use ovsdb::txn::Select;
use ovsdb::wire::TableSchema;

use super::connection::{self, Target, failure};
use super::selected::{self, Column, Row, SelectError};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::filter;
use crate::output::{Format, Natural, NaturalRow, Table, cell, csv_line, csv_row};
use crate::telemetry;

/// Print the rows of a table
///
/// In JSON, a single value is a scalar, an optional value is a scalar or null, a set is an array, and a map is an object; UUIDs are
/// strings. The type of the column decides: a set with one element is an array. Rows are sorted by name if the table has that column, then
/// by the printed columns, then by UUID, so that two dumps can be compared.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{EXIT_CODES}", filter::LANGUAGE))]
pub(super) struct Args {
    /// The database, e.g. OVN_Northbound
    database: String,
    /// The table, e.g. Logical_Switch
    table: String,
    /// Print these columns, in this order [default: all]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Print only rows that match; if repeated, a row must match all
    #[arg(long = "where", value_name = "EXPR")]
    wheres: Vec<String>,
    /// Print rows in this format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    connection: connection::ConnectionArgs,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        self.connection.overrides()
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let mut rpc = Target::new(&config.ovsdb, Some(&args.database))?.open(Some(&args.database)).await?;
    let schema = connection::schema(&mut rpc, &args.database).await?;
    let table = connection::table(&schema, &args.table)?;
    let printed = columns(&args.columns, &args.table, table)?;
    let clause = |text: &String| filter::parse(text, &args.table, table);
    let wheres = args.wheres.iter().map(clause).collect::<Result<Vec<_>, _>>().map_err(|error| {
        Failure::new(Exit::Usage, error)
            .try_(format!("`meridian ovsdb schema {} {}` for its columns", args.database, args.table))
    })?;

    // The UUID and the name decide the order even if they are not printed.
    let mut asked = printed.clone();
    for name in ["name", "_uuid"] {
        if !asked.iter().any(|(column, _)| column == name)
            && let Ok(kind) = filter::column(name, &args.table, table)
        {
            asked.push((name.to_owned(), kind));
        }
    }
    let names: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
    let select = Select::new(&args.table, names.iter().copied()).and(wheres);
    let answer = rpc.select(&args.database, &select).await.map_err(failure)?;
    let mut rows = selected::read(&answer, &asked).map_err(|error| {
        let exit = match error {
            SelectError::Refused { .. } => Exit::Refused,
            SelectError::Malformed(_) => Exit::Protocol,
        };
        Failure::new(exit, error)
    })?;
    selected::sort(&mut rows, &order(&names));
    let mut out = BufWriter::new(std::io::stdout().lock());
    let coloured = telemetry::coloured(config.log.color.value, &std::io::stdout());
    print(&mut out, &rows, &printed, args.output, coloured)
        .and_then(|()| out.flush())
        .map_err(Failure::output)
}

/// The columns to print, with their types.
fn columns(asked: &[String], name: &str, table: &TableSchema) -> Outcome<Vec<Column>> {
    let all = || ["_uuid"].into_iter().chain(table.columns.keys().map(|name| name.as_str()));
    let mut names: Vec<&str> =
        asked.iter().map(|column| column.trim()).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        names = all().collect();
    }
    let typed = |column: &str| filter::column(column, name, table).map(|kind| (column.to_owned(), kind));
    names
        .into_iter()
        .map(typed)
        .collect::<Result<_, String>>()
        .map_err(|problem| Failure::told(Exit::Usage, format!("--columns: {problem}")))
}

/// The order of the sort keys: the name, then the printed columns in their order, then the UUID.
fn order(names: &[&str]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|at| match names[*at] {
        "name" => 0,
        "_uuid" => 2,
        _ => 1,
    });
    order
}

/// Prints the given columns of each row, which come first in the row.
fn print(
    out: &mut impl Write,
    rows: &[Row],
    columns: &[Column],
    format: Format,
    coloured: bool,
) -> std::io::Result<()> {
    let headers = || columns.iter().map(|(name, _)| name.as_str());
    let mut table = Table::new(headers());
    if format == Format::Csv {
        write!(out, "{}\r\n", csv_line(headers()))?;
    }
    for row in rows {
        let values: Vec<Natural<'_>> =
            columns.iter().zip(row).map(|((_, kind), datum)| Natural { datum, kind }).collect();
        match format {
            Format::Table => table.row(values.iter().map(|value| cell(*value))),
            Format::Csv => write!(out, "{}\r\n", csv_row(&values))?,
            Format::Json => {
                serde_json::to_writer(&mut *out, &NaturalRow(headers().zip(values).collect()))?;
                out.write_all(b"\n")?;
            }
        }
    }
    if format == Format::Table { out.write_all(table.render(coloured).as_bytes()) } else { Ok(()) }
}
