//! `meridian ovsdb dump`: the rows of a table, by the server's own schema.

use std::io::{BufWriter, Write};

use ovsdb::wire::schema::TableSchema;
use serde_json::json;

use super::connection::{self, Target, failure};
use super::selected::{self, Column, Row, SelectError};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::filter;
use crate::output::{Format, Natural, NaturalRow, Table, cell, csv_line, csv_row};
use crate::telemetry;

/// Print the rows of a table
///
/// In JSON a single value is a scalar, an optional one that or null, a set an array, a map an object; UUIDs are strings.
/// The column's type decides: a set of one is an array. Rows are sorted by name, where there is one, then by the columns
/// printed, then by UUID, so that two dumps can be compared.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{EXIT_CODES}", filter::LANGUAGE))]
pub(super) struct Args {
    /// The database, e.g. OVN_Northbound
    database: String,
    /// The table, e.g. Logical_Switch
    table: String,
    /// The columns to print, in this order; all without
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Only rows for which this holds; repeated: all must hold
    #[arg(long = "where", value_name = "EXPR")]
    wheres: Vec<String>,
    /// How rows are printed
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

    // The UUID and the name decide the order, printed or not.
    let mut asked = printed.clone();
    for name in ["name", "_uuid"] {
        if !asked.iter().any(|(column, _)| column == name)
            && let Ok(kind) = filter::column(name, &args.table, table)
        {
            asked.push((name.to_owned(), kind));
        }
    }
    let names: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
    let select = json!({"op": "select", "table": args.table, "where": wheres, "columns": names});
    let answer = rpc.call_raw("transact", &json!([args.database, select])).await.map_err(failure)?;
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

/// The columns to print with their types.
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

/// By name, then the others as asked, then the UUID.
fn order(names: &[&str]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|at| match names[*at] {
        "name" => 0,
        "_uuid" => 2,
        _ => 1,
    });
    order
}

/// Prints the first so many columns of each row.
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
