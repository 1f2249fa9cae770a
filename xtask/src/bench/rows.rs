//! The rows that fill the servers, as Neutron would write them for a cloud of that size. Pure.
//!
//! Everything follows from a number, so every client sees the same rows, and no client needs to look up an identifier.

use serde_json::{Value, json};

/// Ports on one network.
pub(crate) const PORTS_PER_NETWORK: usize = 200;

/// The kind of object in an identifier; it becomes the second group.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Port = 0x1000,
    Network = 0x2000,
    Device = 0x3000,
    SecurityGroup = 0x4000,
}

/// The identifier of the n-th object of a kind. The first digits are scattered, because ovsdb-server hashes rows by them and
/// would be very slow with equal ones.
pub(crate) fn uuid(kind: Kind, index: usize) -> String {
    const GOLDEN: u32 = 0x9e37_79b1;
    let scattered = (index as u32 + 1).wrapping_mul(GOLDEN);
    format!("{scattered:08x}-{:04x}-4000-8000-{index:012x}", kind as u16)
}

/// One port as Neutron describes it.
pub(crate) struct Port(pub(crate) usize);

impl Port {
    pub(crate) fn uuid(&self) -> String {
        uuid(Kind::Port, self.0)
    }

    fn network(&self) -> usize {
        self.0 / PORTS_PER_NETWORK
    }

    fn ip(&self) -> String {
        let network = self.network();
        format!("10.{}.{}.{}", network >> 8 & 0xff, network & 0xff, self.0 % PORTS_PER_NETWORK + 10)
    }

    /// `MAC IP`, as `addresses`, `port_security` and `mac` hold it.
    pub(crate) fn address(&self) -> String {
        let [.., b, c, d] = self.0.to_be_bytes();
        format!("fa:16:3e:{b:02x}:{c:02x}:{d:02x} {}", self.ip())
    }

    /// The chassis it should be on.
    pub(crate) fn host(&self) -> String {
        format!("compute-{:03}", self.0 % 250)
    }

    /// The keys that Neutron writes.
    pub(crate) fn external_ids(&self) -> Vec<(String, String)> {
        let network = self.network();
        [
            ("neutron:cidrs", format!("{}/24", self.ip())),
            ("neutron:device_id", uuid(Kind::Device, self.0)),
            ("neutron:device_owner", "compute:nova".to_owned()),
            ("neutron:network_name", format!("neutron-{}", uuid(Kind::Network, network))),
            ("neutron:port_name", format!("port-{}", self.0)),
            ("neutron:project_id", format!("{:032x}", network / 4 + 1)),
            ("neutron:revision_number", "4".to_owned()),
            ("neutron:security_group_ids", uuid(Kind::SecurityGroup, network / 4)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    fn southbound(&self) -> Value {
        json!({
            "logical_port": self.uuid(),
            "type": "",
            "datapath": ["uuid", uuid(Kind::Network, self.network())],
            "tunnel_key": self.0 % PORTS_PER_NETWORK + 1,
            "mac": self.address(),
            "options": map([("requested-chassis".to_owned(), self.host())]),
            "external_ids": map(self.external_ids()),
            "up": true,
        })
    }

    fn northbound(&self) -> Value {
        json!({
            "name": self.uuid(),
            "addresses": self.address(),
            "port_security": self.address(),
            "options": map([("requested-chassis".to_owned(), self.host())]),
            "external_ids": map(self.external_ids()),
            "enabled": true,
            "up": true,
        })
    }
}

fn map(pairs: impl IntoIterator<Item = (String, String)>) -> Value {
    json!(["map", pairs.into_iter().map(|(key, value)| json!([key, value])).collect::<Vec<_>>()])
}

fn insert(table: &str, uuid: String, row: Value) -> Value {
    json!({ "op": "insert", "table": table, "uuid": uuid, "row": row })
}

fn networks(ports: usize) -> usize {
    ports.div_ceil(PORTS_PER_NETWORK)
}

/// The transactions that fill a Southbound database: datapaths, then port bindings.
pub(crate) fn southbound(ports: usize) -> impl Iterator<Item = Vec<Value>> {
    let datapaths = (0..networks(ports)).map(|n| {
        let ids = [
            ("logical-switch", uuid(Kind::Network, n)),
            ("name", format!("neutron-{}", uuid(Kind::Network, n))),
            ("name2", format!("net-{n}")),
        ];
        let row = json!({ "tunnel_key": n + 1, "external_ids": map(ids.map(|(k, v)| (k.to_owned(), v))) });
        insert("Datapath_Binding", uuid(Kind::Network, n), row)
    });
    let bindings = batches(0..ports)
        .map(|batch| batch.map(|n| insert("Port_Binding", Port(n).uuid(), Port(n).southbound())).collect());
    std::iter::once(datapaths.collect()).chain(bindings)
}

/// The transactions that fill a Northbound database: switches with their ports.
pub(crate) fn northbound(ports: usize) -> impl Iterator<Item = Vec<Value>> {
    batches(0..ports).map(move |batch| {
        let mut operations = Vec::new();
        for network in batch.start / PORTS_PER_NETWORK..networks(batch.end) {
            let first = network * PORTS_PER_NETWORK;
            let members = first..(first + PORTS_PER_NETWORK).min(ports);
            operations.push(switch(uuid(Kind::Network, network), members.clone()));
            operations
                .extend(members.map(|n| insert("Logical_Switch_Port", Port(n).uuid(), Port(n).northbound())));
        }
        operations
    })
}

/// A switch with these ports.
pub(crate) fn switch(id: String, members: std::ops::Range<usize>) -> Value {
    let ports: Vec<_> = members.map(|n| json!(["uuid", Port(n).uuid()])).collect();
    let row = json!({ "name": format!("neutron-{id}"), "ports": ["set", ports] });
    insert("Logical_Switch", id, row)
}

/// Whole networks, about a thousand rows at a time.
fn batches(ports: std::ops::Range<usize>) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = ports.end;
    ports.step_by(PORTS_PER_NETWORK * 5).map(move |start| start..(start + PORTS_PER_NETWORK * 5).min(end))
}

/// The key whose value distinguishes one change from the next.
pub(crate) const SEQUENCE_KEY: &str = "bench_seq";

/// A change of one port binding: its sequence key gets a new value, all else stays.
pub(crate) fn change(port: usize, sequence: usize) -> Value {
    json!({
        "op": "mutate",
        "table": "Port_Binding",
        "where": [["_uuid", "==", ["uuid", Port(port).uuid()]]],
        "mutations": [
            ["external_ids", "delete", ["set", [SEQUENCE_KEY]]],
            ["external_ids", "insert", ["map", [[SEQUENCE_KEY, sequence.to_string()]]]],
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn inserted(transactions: impl Iterator<Item = Vec<Value>>, table: &str) -> Vec<Value> {
        transactions.flatten().filter(|op| op["table"] == table).collect()
    }

    #[test]
    fn as_many_ports_as_asked_for_also_when_the_last_network_is_not_full() {
        for ports in [1, 199, 200, 201, 1000, 1001, 2345] {
            let bindings = inserted(southbound(ports), "Port_Binding");
            let unique: BTreeSet<_> = bindings.iter().map(|op| op["uuid"].to_string()).collect();
            assert_eq!((bindings.len(), unique.len()), (ports, ports));
            assert_eq!(inserted(northbound(ports), "Logical_Switch_Port").len(), ports);
            assert_eq!(inserted(northbound(ports), "Logical_Switch").len(), networks(ports));
        }
    }

    #[test]
    fn tunnel_keys_are_unique_within_a_datapath() {
        let keys: BTreeSet<_> = inserted(southbound(1000), "Port_Binding")
            .iter()
            .map(|op| (op["row"]["datapath"].to_string(), op["row"]["tunnel_key"].to_string()))
            .collect();
        assert_eq!(keys.len(), 1000);
    }

    #[test]
    fn addresses_are_unique() {
        let addresses: BTreeSet<_> = (0..100_000).map(|n| Port(n).address()).collect();
        assert_eq!(addresses.len(), 100_000);
        assert_eq!(Port(0x01_02_03).address(), "fa:16:3e:01:02:03 10.1.74.61");
    }
}
