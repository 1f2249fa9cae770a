//! Creates a logical switch in an OVN Northbound database, unless one of this name exists.
//!
//! ```sh
//! cargo run --example create -- unix:/run/ovn/ovnnb_db.sock net1
//! ```

use std::error::Error;

use ovsdb::{Client, ClientConfig, CommitError, Model, Str, Table, Uuid};

#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Switch")]
struct LogicalSwitch {
    name: Str,
}

/// Returns the UUID of the switch. Two programs that run this at once create one switch, not two: the transaction fails if the answer to
/// `matching` has changed, and the client decides again.
pub async fn create(remotes: &str, name: &str) -> Result<Uuid, Box<dyn Error>> {
    let model = Model::new("OVN_Northbound").table::<LogicalSwitch>();
    let client = Client::open(ClientConfig::new(remotes.parse()?), model);
    client.synced().await?;
    let switch = LogicalSwitch { name: name.into() };
    let decide = client.transact(|view| {
        if let Some(row) = view.matching(LogicalSwitch::NAME, &switch.name).first() {
            return Ok::<Uuid, CommitError>(row.uuid());
        }
        // The caller chooses the UUID, so a repeated attempt cannot create a second row.
        let row = Uuid::new_v4();
        view.insert(row, &switch);
        Ok(row)
    });
    let row = decide.await?;
    // The snapshot contains the commit.
    assert_eq!(client.snapshot().get::<LogicalSwitch>(row), Some(&switch));
    client.close().await;
    Ok(row)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(remotes), Some(name)) = (args.next(), args.next()) else {
        return Err("usage: create REMOTES NAME".into());
    };
    println!("{}", create(&remotes, &name).await?);
    Ok(())
}
