//! `meridian ovsdb txn`: runs one transaction, given in the JSON of the protocol.

use std::io::Read;

use ovsdb::client::RpcError;
use serde_json::Value;

use super::connection::{self, Target, failure};
use crate::cli::print;
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Run one transaction and print its result
///
/// Takes the operations of RFC 7047 section 5.2 as a JSON array, or a single operation without the array. Prints the result as the server
/// sends it, on one line. All operations take effect or none: the exit code is 0 only if all succeeded; otherwise the error names the
/// operation that failed and the reason.
///
/// Example: meridian ovsdb txn OVN_Northbound '[{"op":"insert","table":"Logical_Switch","row":{"name":"sw0"}}]'
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// The database, e.g. OVN_Northbound
    database: String,
    /// The operations; `-` reads them from standard input, `@FILE` from a file
    #[arg(value_name = "OPS_JSON")]
    operations: String,
    #[command(flatten)]
    connection: connection::ConnectionArgs,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        self.connection.overrides()
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let text = read(&args.operations)?;
    let operations = parse(&text, &args.database).map_err(|problem| {
        Failure::told(Exit::Usage, problem).try_("`meridian ovsdb txn --help` for an example")
    })?;
    let mut rpc = Target::new(&config.ovsdb, Some(&args.database))?.open(Some(&args.database)).await?;
    connection::check_database(&mut rpc, &args.database).await?;
    let mut params = vec![Value::from(args.database.as_str())];
    params.extend(operations.iter().cloned());
    let answer = rpc.call_raw("transact", &params).await.map_err(|error| match error {
        error @ (RpcError::Io { .. } | RpcError::Closed { .. } | RpcError::Timeout { .. }) => failure(error)
            .while_("the server did not reply to the transaction, so it is not known whether it took effect")
            .try_("to read the rows with `meridian ovsdb dump` before sending it again"),
        other => failure(other),
    })?;
    print(&format!("{answer}\n"))?;
    let results: Vec<Value> = serde_json::from_str(answer.get())
        .map_err(|error| Failure::new(Exit::Protocol, error).while_("cannot parse the result"))?;
    match failed(&operations, &results) {
        None => Ok(()),
        Some((what, error)) => {
            let failure = Failure::told(Exit::Refused, format!("{what}; nothing was changed"));
            Err(if error == "permission error" { failure.try_(PERMISSION) } else { failure })
        }
    }
}

/// The advice if the server's role-based access control forbids an operation.
const PERMISSION: &str = "a remote without a role (a connection of the server has one if `ovn-sbctl list Connection` shows \
                          it under `role`), or the certificate of the client that the role lets write there";

fn read(operations: &str) -> Outcome<String> {
    let local = |what: String| move |error: std::io::Error| Failure::new(Exit::Local, error).while_(what);
    if operations == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(local("cannot read the operations from standard input".into()))?;
        return Ok(text);
    }
    match operations.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(local(format!("cannot read {file}"))),
        None => Ok(operations.to_owned()),
    }
}

/// Parses the operations: an array, a single operation, or all parameters of `transact` with the database as the first element.
fn parse(text: &str, database: &str) -> Result<Vec<Value>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("the operations are not JSON: {error}"))?;
    let mut operations = match value {
        Value::Array(items) => items,
        object @ Value::Object(_) => vec![object],
        other => return Err(format!("expected an array of operations, found `{other}`")),
    };
    if let Some(Value::String(name)) = operations.first() {
        if name != database {
            return Err(format!("the operations are for the database {name}, not {database}"));
        }
        operations.remove(0);
    }
    for (at, operation) in operations.iter().enumerate() {
        if !operation.get("op").is_some_and(Value::is_string) {
            return Err(format!("operation {} is not an object with an \"op\": `{operation}`", at + 1));
        }
    }
    Ok(operations)
}

/// The failed operation with the reason, and the server's error code; `None` if all operations succeeded.
fn failed(operations: &[Value], results: &[Value]) -> Option<(String, String)> {
    let (at, error) = results.iter().enumerate().find_map(|(at, result)| Some((at, result.get("error")?)))?;
    let error = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
    let details = results[at].get("details").and_then(Value::as_str);
    let why = details.map_or(String::new(), |details| format!(": {details}"));
    let Some(operation) = operations.get(at) else {
        // The server sends one result more than there are operations if all operations succeeded but the commit failed.
        return Some((format!("the commit failed: {error}{why}"), error));
    };
    let word = |key: &str| operation.get(key).and_then(Value::as_str);
    let what = match (word("op"), word("table")) {
        (Some(op), Some(table)) => format!(" ({op}, table {table})"),
        (Some(op), None) => format!(" ({op})"),
        _ => String::new(),
    };
    Some((format!("operation {}{what} failed: {error}{why}", at + 1), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_come_in_three_forms() {
        let op = json!({"op": "comment", "comment": "x"});
        for text in [op.to_string(), format!("[{op}]"), format!("[\"db\",{op}]")] {
            assert_eq!(parse(&text, "db").unwrap(), std::slice::from_ref(&op), "{text}");
        }
        assert_eq!(parse("[]", "db").unwrap(), [] as [Value; 0]);
        for (text, problem) in [
            ("[", "the operations are not JSON: EOF while parsing a list at line 1 column 1"),
            ("3", "expected an array of operations, found `3`"),
            ("[\"other\"]", "the operations are for the database other, not db"),
            ("[{\"op\":\"abort\"},{}]", "operation 2 is not an object with an \"op\": `{}`"),
        ] {
            assert_eq!(parse(text, "db").unwrap_err(), problem);
        }
    }

    #[test]
    fn the_failed_operation_is_named() {
        let operations = [json!({"op": "insert", "table": "T"}), json!({"op": "abort"})];
        let failed = |results: Value| failed(&operations, results.as_array().unwrap()).map(|(what, _)| what);
        assert_eq!(failed(json!([{"uuid": ["uuid", "x"]}, {}])), None);
        assert_eq!(
            failed(json!([{"error": "e", "details": "d"}, null])).as_deref(),
            Some("operation 1 (insert, table T) failed: e: d")
        );
        assert_eq!(
            failed(json!([{}, {"error": "aborted"}])).as_deref(),
            Some("operation 2 (abort) failed: aborted")
        );
        assert_eq!(
            failed(json!([{}, {}, {"error": "constraint violation", "details": "d"}])).as_deref(),
            Some("the commit failed: constraint violation: d")
        );
    }
}
