//! `meridian ovsdb schema`: prints the tables and columns of a database.

use ovsdb::wire::Atom;
use ovsdb::wire::Datum;
use ovsdb::wire::{BaseKind, ColumnSchema, DatabaseSchema, TableSchema};
use serde_json::Value;

use super::connection::{self, Target, failure};
use crate::cli::{json, print};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Outcome};
use crate::output::Table;
use crate::telemetry;

/// Print the schema of a database, or of one of its tables
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// The database, e.g. OVN_Northbound
    database: String,
    /// Print only this table [default: all tables]
    table: Option<String>,
    /// Print the schema in this format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "table")]
    output: Output,
    #[command(flatten)]
    connection: connection::ConnectionArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// A table for people
    Table,
    /// As the server sends it, on one line; input for check-schema
    Json,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        self.connection.overrides()
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let mut rpc = Target::new(&config.ovsdb, Some(&args.database))?.open(Some(&args.database)).await?;
    let schema = connection::schema(&mut rpc, &args.database).await?;
    if let Some(name) = &args.table {
        connection::table(&schema, name)?;
    }
    match args.output {
        Output::Json => {
            let mut value = rpc.call("get_schema", &[&args.database]).await.map_err(failure)?;
            if let (Some(name), Some(Value::Object(tables))) = (&args.table, value.get_mut("tables")) {
                tables.retain(|table, _| table == name);
            }
            print(&(json(&value) + "\n"))
        }
        Output::Table => {
            let table = match args.table.as_ref().and_then(|name| schema.tables.get(name.as_str())) {
                Some(table) => columns(table),
                None => tables(&schema),
            };
            print(&table.render(telemetry::coloured(config.log.color.value, &std::io::stdout())))
        }
    }
}

fn tables(schema: &DatabaseSchema) -> Table {
    let mut out = Table::new(["table", "columns", "root", "rows at most", "unique"]);
    for (name, table) in &schema.tables {
        let indexes = table.indexes.iter().map(|index| index.join("+")).collect::<Vec<_>>().join(", ");
        out.row([
            name.to_string(),
            table.columns.len().to_string(),
            if table.is_root { "yes" } else { "" }.to_owned(),
            table.max_rows.map_or(String::new(), |rows| rows.to_string()),
            indexes,
        ]);
    }
    out
}

fn columns(table: &TableSchema) -> Table {
    let mut out = Table::new(["column", "type", "constraints"]);
    for (name, column) in &table.columns {
        out.row([name.to_string(), column.kind.to_string(), constraints(column)]);
    }
    out
}

fn constraints(column: &ColumnSchema) -> String {
    let key = base(&column.kind.key);
    let mut all = match &column.kind.value {
        None => key,
        Some(value) => {
            let keys = key.into_iter().map(|text| format!("keys {text}"));
            keys.chain(base(value).into_iter().map(|text| format!("values {text}"))).collect()
        }
    };
    if column.ephemeral {
        all.push("ephemeral".into());
    }
    if !column.mutable {
        all.push("immutable".into());
    }
    all.join("; ")
}

fn base(base: &BaseKind) -> Vec<String> {
    let mut all = Vec::new();
    let limits = base.limits();
    if let Some(Datum::Set(choices)) = &limits.choices {
        let words: Vec<String> = choices.iter().map(|atom| format!("`{atom}`")).collect();
        all.push(format!("one of {}", words.join(", ")));
    }
    let number = |atom: &Option<Atom>| atom.as_ref().map(ToString::to_string);
    let length = |length: Option<u64>| length.map(|length| length.to_string());
    all.extend(range("", number(&limits.min), number(&limits.max)));
    all.extend(range("length ", length(limits.min_length), length(limits.max_length)));
    all
}

fn range(what: &str, min: Option<String>, max: Option<String>) -> Option<String> {
    match (min, max) {
        (None, None) => None,
        (Some(min), None) => Some(format!("{what}from {min}")),
        (None, Some(max)) => Some(format!("{what}up to {max}")),
        (Some(min), Some(max)) => Some(format!("{what}{min} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_spelt_out() {
        let schema = DatabaseSchema::parse(
            r#"{"name":"d","version":"1.0.0","tables":{"T":{"isRoot":true,"maxRows":1,"indexes":[["a","b"],["c"]],"columns":{
                "a":{"type":{"key":{"type":"integer","minInteger":1,"maxInteger":4095},"min":0}},
                "b":{"type":{"key":{"type":"string","enum":["set",["x","y"]]}},"mutable":false},
                "c":{"type":{"key":{"type":"string","minLength":2},"value":{"type":"real","maxReal":1.5},"min":0,"max":"unlimited"},"ephemeral":true}}}}}"#,
        )
        .unwrap();
        assert_eq!(
            columns(&schema.tables["T"]).render(false),
            "column  type                                constraints\n\
             ------  ----------------------------------  ----------------------------------------------\n\
             a       optional integer                    1 to 4095\n\
             b       string                              one of `x`, `y`; immutable\n\
             c       map of 0 or more string-real pairs  keys length from 2; values up to 1.5; ephemeral\n"
                .replace(
                    "----------------------------------------------\n",
                    "-----------------------------------------------\n"
                )
        );
        assert_eq!(
            tables(&schema).render(false),
            "table  columns  root  rows at most  unique\n\
             -----  -------  ----  ------------  ------\n\
             T      3        yes   1             a+b, c\n"
        );
    }
}
