//! Prints the logical switches of an OVN Northbound database, and then each change of them.
//!
//! ```sh
//! cargo run --example watch -- unix:/run/ovn/ovnnb_db.sock
//! ```

use std::error::Error;
use std::future::ready;
use std::io::Write;
use std::pin::pin;

use futures_util::StreamExt;
use ovsdb::{Client, ClientConfig, FeedEvent, Model, Str, Table};

/// The columns that this program needs. The client monitors no others.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Switch")]
struct LogicalSwitch {
    name: Str,
}

/// Prints each change, up to this number of rows.
pub async fn watch(remotes: &str, rows: usize, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let model = Model::new("OVN_Northbound").table::<LogicalSwitch>();
    let client = Client::open(ClientConfig::new(remotes.parse()?), model);
    // The feed of `subscribe_all` begins with the existing rows, so one loop handles both.
    let deltas = client.subscribe_all().filter_map(|event| {
        ready(match event {
            FeedEvent::Changed { delta, .. } => Some(delta),
            _ => None,
        })
    });
    let mut deltas = pin!(deltas);
    let mut left = rows;
    while left > 0
        && let Some(delta) = deltas.next().await
    {
        for change in delta.table::<LogicalSwitch>() {
            match (&change.before, &change.after) {
                (None, Some(new)) => writeln!(out, "added {}", new.name)?,
                (Some(old), None) => writeln!(out, "removed {}", old.name)?,
                (Some(old), Some(new)) => writeln!(out, "renamed {} to {}", old.name, new.name)?,
                (None, None) => {}
            }
            left = left.saturating_sub(1);
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let remotes = std::env::args().nth(1).ok_or("usage: watch REMOTES")?;
    watch(&remotes, usize::MAX, &mut std::io::stdout()).await
}
