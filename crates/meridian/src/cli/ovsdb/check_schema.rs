//! `meridian ovsdb check-schema`: compares Meridian's typed tables with the schema files of any OVN or Open vSwitch version.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ovn::TableSpec;
use ovsdb::wire::DatabaseSchema;
use serde::Serialize;

use crate::cli::print;
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Compare Meridian's typed tables with schema files
///
/// Reports for each file whether this program can work with such a database: the columns that do not fit, the optional tables and columns
/// that are absent, and the tables and columns that Meridian does not use. Files are `.ovsschema` files or the output of `meridian ovsdb
/// schema --output json`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Schema files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print the result in this format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object per file and line
    Json,
}

/// The result of comparing one schema with Meridian's tables.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Report {
    file: String,
    database: String,
    version: String,
    fits: bool,
    /// Differences that make the database unusable.
    misfits: Vec<String>,
    /// Optional tables and columns that the schema lacks, columns as `Table.column`.
    absent_tables: Vec<String>,
    absent: Vec<String>,
    /// Tables and columns of the schema that Meridian does not use.
    extra_tables: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Meridian's typed tables of a database.
fn tables(database: &str) -> Result<&'static [TableSpec], String> {
    let all = [ovn::nb::model(), ovn::sb::model(), ovn::vswitch::model()];
    let name = |specs: &[TableSpec]| specs.first().map_or("", |spec| spec.database);
    all.into_iter().find(|specs| name(specs) == database).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|specs| name(specs)).collect();
        format!("Meridian has no tables of the database {database}; it has those of {}", known.join(", "))
    })
}

fn compare(file: &str, schema: &DatabaseSchema) -> Report {
    let mut report = Report {
        file: file.to_owned(),
        database: schema.name.to_string(),
        version: schema.version.to_string(),
        ..Report::default()
    };
    let specs = match tables(&schema.name) {
        Ok(specs) => specs,
        Err(problem) => {
            report.misfits.push(problem);
            return report;
        }
    };
    for spec in specs {
        match spec.fit(schema) {
            Ok(None) => report.absent_tables.push(spec.table.to_owned()),
            Ok(Some(fit)) => {
                let absent = fit.absent.iter().filter_map(|at| spec.columns.get(at));
                report.absent.extend(absent.map(|column| format!("{}.{}", spec.table, column.name)));
                if !fit.extra.is_empty() {
                    let extra = fit.extra.iter().map(ToString::to_string).collect();
                    report.extra.insert(spec.table.to_owned(), extra);
                }
            }
            Err(misfits) => report.misfits.extend(misfits.iter().map(ToString::to_string)),
        }
    }
    let used = |name: &str| specs.iter().any(|spec| spec.table == name);
    let unused = schema.tables.keys().filter(|name| !used(name));
    report.extra_tables = unused.map(ToString::to_string).collect();
    report.fits = report.misfits.is_empty();
    report
}

impl Report {
    fn text(&self) -> String {
        let verdict = if self.fits { "fits" } else { "does not fit" };
        let mut out = format!("{}: {} {} {verdict}\n", self.file, self.database, self.version);
        for misfit in &self.misfits {
            let _ = writeln!(out, "  misfit: {misfit}");
        }
        let mut list = |what: &str, items: &[String]| {
            if !items.is_empty() {
                let _ = writeln!(out, "  {what}: {}", items.join(", "));
            }
        };
        list("absent, not needed, tables", &self.absent_tables);
        list("absent, not needed, columns", &self.absent);
        list("extra, not used, tables", &self.extra_tables);
        for (table, columns) in &self.extra {
            list(&format!("extra, not used, columns of {table}"), columns);
        }
        out
    }
}

fn read(file: &Path) -> Outcome<DatabaseSchema> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::Local, error).while_(format!("cannot read {}", file.display()))
    })?;
    DatabaseSchema::parse(&text).map_err(|error| {
        Failure::new(Exit::Local, error).while_(format!("{} holds no schema", file.display())).try_(
            "an .ovsschema file, e.g. of /usr/share/ovn, or the output of `meridian ovsdb schema --output json`",
        )
    })
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut misfits = 0;
    for file in &args.files {
        let report = compare(&file.display().to_string(), &read(file)?);
        misfits += usize::from(!report.fits);
        match args.output {
            Output::Text => print(&report.text())?,
            Output::Json => print(&(super::super::json(&report) + "\n"))?,
        }
    }
    match misfits {
        0 => Ok(()),
        n => Err(Failure::told(Exit::Refused, format!("{n} of {} schemas do not fit", args.files.len()))
            .try_("a version of OVN between 23.03 and 26.03, or a newer Meridian")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_all_said() {
        let schema = DatabaseSchema::parse(
            r#"{"name":"Open_vSwitch","version":"9.9.9","tables":{"Zebra":{"columns":{}},
                "Open_vSwitch":{"columns":{"external_ids":{"type":"string"},"new":{"type":"string"}}}}}"#,
        )
        .unwrap();
        let report = compare("f", &schema);
        assert!(!report.fits);
        assert!(report.misfits.contains(&"table Bridge does not exist".to_owned()), "{report:?}");
        assert!(
            report.misfits.contains(
                &"table Open_vSwitch, column external_ids: expected map of string-string pairs, the schema says string"
                    .to_owned()
            ),
            "{report:?}"
        );
        assert_eq!(report.extra_tables, ["Zebra"]);
        let text = report.text();
        assert!(text.starts_with("f: Open_vSwitch 9.9.9 does not fit\n  misfit: "), "{text}");
    }

    #[test]
    fn an_unknown_database_names_those_we_know() {
        let schema = DatabaseSchema::parse(r#"{"name":"hardware_vtep","tables":{}}"#).unwrap();
        assert_eq!(
            compare("f", &schema).misfits,
            [
                "Meridian has no tables of the database hardware_vtep; it has those of OVN_Northbound, OVN_Southbound, Open_vSwitch"
            ]
        );
    }

    #[test]
    fn absent_and_extra_are_told_apart() {
        let text = include_str!("../../../../ovn/testdata/schema/ovn-nb-23.03.json");
        let report = compare("f", &DatabaseSchema::parse(text).unwrap());
        assert!(report.fits, "{report:?}");
        assert!(!report.absent.is_empty() && !report.extra.is_empty() && !report.extra_tables.is_empty());
        for absent in &report.absent {
            let (table, column) = absent.split_once('.').unwrap();
            assert!(!report.extra.get(table).is_some_and(|extra| extra.iter().any(|name| name == column)));
        }
    }
}
