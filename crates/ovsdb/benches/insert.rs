//! The cost of inserting rows: composing, sending, and applying the updates to the replica, against a real ovsdb-server. `cargo
//! bench -p meridian-ovsdb --bench insert [-- ROWS]`. Prints CPU, which no framework counts.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ovsdb::{Client, ClientConfig, Map, Model, Set, Str, Table, Transaction, Uuid};

#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Bench", table = "Port")]
struct Port {
    name: Str,
    addresses: Set<Str>,
    port_security: Set<Str>,
    external_ids: Map<Str, Str>,
    options: Map<Str, Str>,
    enabled: Option<bool>,
    tag: Option<i64>,
    tunnel_key: i64,
}

const SCHEMA: &str = r#"{"name":"Bench","version":"1.0.0","tables":{"Port":{"isRoot":true,"columns":{
    "name":{"type":"string"},
    "addresses":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "port_security":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "external_ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
    "options":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
    "enabled":{"type":{"key":"boolean","min":0}},
    "tag":{"type":{"key":"integer","min":0}},
    "tunnel_key":{"type":"integer"}},"indexes":[["name"]]}}}"#;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first bits are scattered, because ovsdb-server hashes rows by them.
fn uuid(kind: u64, n: usize) -> Uuid {
    Uuid::from_u64_pair((n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), kind << 56 | n as u64)
}

fn port(n: usize) -> Port {
    let (mac, network) =
        (format!("fa:16:3e:{:02x}:{:02x}:{:02x}", n >> 16 & 255, n >> 8 & 255, n & 255), n / 50);
    let address: Str = format!("{mac} 10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255).into();
    Port {
        name: uuid(1, n).to_string().into(),
        addresses: [address.clone()].into(),
        port_security: [address].into(),
        external_ids: [
            ("neutron:network_name".into(), format!("neutron-{}", uuid(2, network)).into()),
            ("neutron:project_id".into(), uuid(3, network % 100).simple().to_string().into()),
            ("neutron:device_id".into(), uuid(4, n).to_string().into()),
            ("neutron:revision_number".into(), "4".into()),
        ]
        .into(),
        options: [("requested-chassis".into(), format!("compute-{}", n % 500).into())].into(),
        enabled: Some(true),
        tag: None,
        tunnel_key: n as i64,
    }
}

/// CPU time of this process so far; in steps of 10 ms.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: usize = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(50_000);
    let dir = tempfile::tempdir()?;
    let place = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(place("schema"), SCHEMA)?;
    let created = Command::new("ovsdb-tool").args(["create", &place("db"), &place("schema")]).status()?;
    assert!(created.success(), "ovsdb-tool failed");
    let mut server = Command::new("ovsdb-server");
    server.args([&place("db"), &format!("--remote=punix:{}", place("sock"))]);
    server.args([&format!("--unixctl={}", place("ctl")), "-vconsole:off", "--no-chdir"]);
    let _server = Server(server.stdin(Stdio::null()).spawn()?);

    let remotes = format!("unix:{}", place("sock")).parse()?;
    let client = Client::open(ClientConfig::new(remotes), Model::new("Bench").table::<Port>());
    client.synced().await?;
    let mut next = 0;
    println!("{:>10} {:>10} {:>14} {:>12}", "rows/txn", "rows", "CPU us/row", "rows/s");
    for (batch, count) in [(1, rows / 25), (100, rows), (1000, rows)] {
        // The rows are created before the measurement begins.
        let ports: Vec<Port> = (next..next + count).map(port).collect();
        let (before, begin) = (cpu(), Instant::now());
        for chunk in ports.chunks(batch) {
            let mut txn = Transaction::new();
            for port in chunk {
                txn.insert(uuid(9, next), port);
                next += 1;
            }
            client.commit(&txn).await?;
        }
        let (spent, took) = (cpu() - before, begin.elapsed());
        let per_row = spent.as_secs_f64() * 1e6 / count as f64;
        println!("{batch:>10} {count:>10} {per_row:>14.1} {:>12.0}", count as f64 / took.as_secs_f64());
        assert_eq!(client.snapshot().table::<Port>().len(), next, "the replica has what was written");
    }
    Ok(())
}
