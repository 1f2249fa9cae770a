//! `meridian ovsdb dump`: the rows of a table, by the server's own schema.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::Write;

use ovsdb::wire::datum::Datum;
use ovsdb::wire::schema::{ColumnKind, TableSchema};
use serde::Deserialize;
use serde_json::json;

use super::connection::{self, Target, failure};
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

/// The answer to one select.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Selected {
    Rows {
        rows: Vec<HashMap<String, Datum>>,
    },
    Error {
        error: String,
        #[serde(default)]
        details: String,
    },
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let mut rpc = Target::new(&config.ovsdb, Some(&args.database))?.open(Some(&args.database)).await?;
    let schema = connection::schema(&mut rpc, &args.database).await?;
    let table = connection::table(&schema, &args.table)?;
    let columns = columns(&args.columns, &args.table, table)?;
    let usage = |error| {
        Failure::new(Exit::Usage, error)
            .try_(format!("`meridian ovsdb schema {} {}` for its columns", args.database, args.table))
    };
    let wheres = args
        .wheres
        .iter()
        .map(|text| filter::parse(text, &args.table, table))
        .collect::<Result<Vec<_>, _>>()
        .map_err(usage)?;

    // The UUID and the name decide the order, printed or not.
    let mut asked: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let hidden =
        ["_uuid", "name"].into_iter().filter(|name| *name == "_uuid" || table.columns.contains_key(*name));
    asked.extend(hidden.filter(|name| !columns.iter().any(|(column, _)| column == name)));
    let select = json!({"op": "select", "table": args.table, "where": wheres, "columns": asked});
    let answer = rpc.call_raw("transact", &json!([args.database, select])).await.map_err(failure)?;
    let results: Vec<Selected> = serde_json::from_str(answer.get()).map_err(|error| {
        Failure::new(Exit::Protocol, error).while_("the rows that the server sent make no sense")
    })?;
    let mut rows = match results.into_iter().next() {
        Some(Selected::Rows { rows }) => rows,
        Some(Selected::Error { error, details }) => {
            return Err(Failure::told(
                Exit::Refused,
                format!("the server refused to select: {error}: {details}"),
            ));
        }
        None => return Err(Failure::told(Exit::Protocol, "the server answered a select with nothing")),
    };
    for (name, kind) in &columns {
        for row in &mut rows {
            let datum = row.remove(name).unwrap_or_else(|| kind.default_datum());
            row.insert(name.clone(), kind.coerce(datum));
        }
    }
    sort(&mut rows, &columns);
    let text =
        render(&rows, &columns, args.output, telemetry::coloured(config.log.color.value, &std::io::stdout()));
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)
}

/// The columns to print with their types.
fn columns(asked: &[String], name: &str, table: &TableSchema) -> Outcome<Vec<(String, ColumnKind)>> {
    let all = || ["_uuid"].into_iter().chain(table.columns.keys().map(|name| name.as_str()));
    let asked: Vec<&str> = if asked.is_empty() {
        all().collect()
    } else {
        asked.iter().map(|column| column.trim()).filter(|column| !column.is_empty()).collect()
    };
    let typed = |column: &&str| filter::column(column, name, table).map(|kind| ((*column).to_owned(), kind));
    asked
        .iter()
        .map(typed)
        .collect::<Result<_, String>>()
        .map_err(|problem| Failure::told(Exit::Usage, format!("--columns: {problem}")))
}

fn sort(rows: &mut [HashMap<String, Datum>], columns: &[(String, ColumnKind)]) {
    let compare = |a: Option<&Datum>, b: Option<&Datum>| match (a, b) {
        (Some(Datum::Set(a)), Some(Datum::Set(b))) => a.cmp(b),
        (Some(Datum::Map(a)), Some(Datum::Map(b))) => a.cmp(b),
        _ => Ordering::Equal,
    };
    rows.sort_by(|a, b| {
        let printed = columns.iter().map(|(name, _)| name.as_str());
        let order = ["name"].into_iter().chain(printed.filter(|name| *name != "_uuid")).chain(["_uuid"]);
        order
            .map(|name| compare(a.get(name), b.get(name)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
}

fn render(
    rows: &[HashMap<String, Datum>],
    columns: &[(String, ColumnKind)],
    format: Format,
    coloured: bool,
) -> String {
    let empty = Datum::default();
    let headers = || columns.iter().map(|(name, _)| name.as_str());
    let mut text = String::new();
    let mut table = Table::new(headers());
    if format == Format::Csv {
        text = csv_line(headers()) + "\r\n";
    }
    for row in rows {
        let datum = |name: &String| row.get(name).unwrap_or(&empty);
        let values: Vec<Natural<'_>> =
            columns.iter().map(|(name, kind)| Natural { datum: datum(name), kind }).collect();
        match format {
            Format::Table => table.row(values.iter().map(|value| cell(*value))),
            Format::Csv => {
                text.push_str(&csv_row(&values));
                text.push_str("\r\n");
            }
            Format::Json => {
                let row = NaturalRow(headers().zip(values).collect());
                text.push_str(&crate::cli::json(&row));
                text.push('\n');
            }
        }
    }
    if format == Format::Table { table.render(coloured) } else { text }
}
