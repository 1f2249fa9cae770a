//! The cost of holding 100,000 ports: CPU and memory of the first load, of a reload that changes nothing, and of one changed
//! row. `cargo bench -p meridian-ovsdb --bench replica [-- ROWS]`.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use ovsdb::replica::{Index, Model, References, Replica, UpdateVersion};
use ovsdb::wire::DatabaseSchema;
use ovsdb::{Map, Set, Str, Table, Uuid};

#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "SB", table = "Port_Binding")]
struct PortBinding {
    logical_port: Str,
    #[ovsdb(column = "type")]
    kind: Str,
    mac: Set<Str>,
    chassis: Option<Uuid>,
    datapath: Uuid,
    tunnel_key: i64,
    external_ids: Map<Str, Str>,
    options: Map<Str, Str>,
    nat_addresses: Set<Str>,
    up: Option<bool>,
    tag: Option<i64>,
    parent_port: Option<Str>,
    requested_chassis: Option<Uuid>,
    virtual_parent: Option<Str>,
}

struct ByLogicalPort;

impl Index for ByLogicalPort {
    type Row = PortBinding;
    type Key = Str;
    fn keys(row: &PortBinding, emit: &mut dyn FnMut(Str)) {
        emit(row.logical_port.clone());
    }
}

const SCHEMA: &str = r#"{"name":"SB","version":"1.0.0","tables":{"Port_Binding":{"columns":{
    "logical_port":{"type":"string"},
    "type":{"type":"string"},
    "mac":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "chassis":{"type":{"key":"uuid","min":0}},
    "datapath":{"type":"uuid"},
    "tunnel_key":{"type":"integer"},
    "external_ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
    "options":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
    "nat_addresses":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "up":{"type":{"key":"boolean","min":0}},
    "tag":{"type":{"key":"integer","min":0}},
    "parent_port":{"type":{"key":"string","min":0}},
    "requested_chassis":{"type":{"key":"uuid","min":0}},
    "virtual_parent":{"type":{"key":"string","min":0}}}}}}"#;

/// The n-th UUID of a kind, scattered like real ones.
fn id(kind: u64, n: usize) -> Uuid {
    let mix = |v: u64| (v ^ v >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let high = mix(kind << 40 | n as u64);
    Uuid::from_u64_pair(high ^ high >> 31, mix(high.rotate_left(17)))
}

fn row(text: &mut String, n: usize) {
    let network = n / 200;
    let ip = format!("10.{}.{}.{}", network >> 8, network & 255, n % 200 + 10);
    let [.., b, c, d] = n.to_be_bytes();
    write!(
        text,
        r#""{}":{{"initial":{{"chassis":["uuid","{}"],"datapath":["uuid","{}"],"external_ids":["map",[["name","port-{n}"],["neutron:cidrs","{ip}/24"],["neutron:device_id","{}"],["neutron:device_owner","compute:nova"],["neutron:host_id","compute-{:03}"],["neutron:mtu","1442"],["neutron:network_name","neutron-{}"],["neutron:port_capabilities",""],["neutron:port_name","port-{n}"],["neutron:project_id","{}"],["neutron:revision_number","4"],["neutron:security_group_ids","{}"],["neutron:vnic_type","normal"]]],"logical_port":"{}","mac":"fa:16:3e:{b:02x}:{c:02x}:{d:02x} {ip}","options":["map",[["requested-chassis","compute-{:03}"]]],"requested_chassis":["uuid","{}"],"tunnel_key":{},"up":true}}}}"#,
        id(1, n),
        id(2, n % 250),
        id(3, network),
        id(4, n),
        n % 250,
        id(3, network),
        id(5, network / 4).simple(),
        id(6, network / 4),
        id(7, n),
        n % 250,
        id(2, n % 250),
        n % 200 + 1,
    )
    .expect("a String takes all text");
}

fn load(rows: usize) -> String {
    let mut text = String::with_capacity(rows * 1200 + 100);
    text.push_str(r#"{"Port_Binding":{"#);
    for n in 0..rows {
        text.push_str(if n == 0 { "" } else { "," });
        row(&mut text, n);
    }
    text.push_str("}}");
    text.shrink_to_fit();
    text
}

/// A line of `/proc/self/status`, in MB.
fn status(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'));
    let kib: f64 = found.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}

/// CPU seconds of this process so far.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let rows = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(100_000);
    let text = load(rows);
    let text_mb = text.len() as f64 / 1e6;
    println!("{rows} rows, {text_mb:.1} MB of text, resident {:.1} MB", status("VmRSS"));
    let mut replica = Replica::new(
        Model::new("SB")
            .index::<ByLogicalPort>()
            .index::<References<PortBinding, { PortBinding::DATAPATH.position() }>>(),
    );
    replica.fit(&DatabaseSchema::parse(SCHEMA).expect("a schema")).expect("it fits");

    let (before, resident) = (cpu(), status("VmRSS") - text_mb / 1.048576);
    let body = 0..text.len();
    let delta = replica.reload_owned(UpdateVersion::V2, text, body).expect("loads");
    let spent = cpu() - before;
    println!(
        "first load:  {spent:.3} s CPU, {:.0} MB/s; resident +{:.1} MB, peak {:.1} MB",
        text_mb / spent,
        status("VmRSS") - resident,
        status("VmHWM"),
    );
    assert_eq!(delta.len(), rows);
    drop(delta);
    let grown = status("VmRSS") - resident;
    println!("held:        {grown:.1} MB, {:.0} bytes a row", grown * 1048576.0 / rows as f64);

    let body = load(rows);
    let before = cpu();
    let delta = replica.reload(UpdateVersion::V2, &body).expect("loads");
    println!(
        "reload:      {:.3} s CPU, {} changes, peak {:.1} MB",
        cpu() - before,
        delta.len(),
        status("VmHWM")
    );
    drop(body);

    let rounds = 2_000;
    let bodies: Vec<_> = (0..rounds)
        .map(|n| {
            format!(
                r#"{{"Port_Binding":{{"{}":{{"modify":{{"up":{},"external_ids":["map",[["neutron:revision_number","{n}"]]]}}}}}}}}"#,
                id(1, n * 37 % rows),
                n % 2 == 0
            )
        })
        .collect();
    let (before, start) = (cpu(), Instant::now());
    for body in &bodies {
        let snapshot = replica.snapshot();
        black_box(replica.apply(UpdateVersion::V2, body).expect("applies"));
        drop(snapshot);
    }
    println!(
        "one change:  {:.2} us CPU ({:.2} us of wall clock), with a snapshot held",
        (cpu() - before) * 1e6 / rounds as f64,
        start.elapsed().as_secs_f64() * 1e6 / rounds as f64
    );

    let snapshot = replica.snapshot();
    let uuids: Vec<Uuid> = (0..rows).map(|n| id(1, n)).collect();
    let before = cpu();
    let found = uuids.iter().filter(|uuid| snapshot.get::<PortBinding>(**uuid).is_some()).count();
    println!("get:         {:.0} ns CPU", (cpu() - before) * 1e9 / found as f64);
    let before = cpu();
    let bound = snapshot.table::<PortBinding>().iter().filter(|(_, row)| row.up == Some(true)).count();
    println!("scan:        {:.1} ns CPU a row ({bound} up)", (cpu() - before) * 1e9 / rows as f64);
}
