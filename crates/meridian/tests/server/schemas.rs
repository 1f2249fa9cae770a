//! Databases with the schema of a newer OVN than the installed one: they get the same rows, with the columns that only they have. No
//! ovn-northd runs, because the installed one is older.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use central::{Daemon, Database, find_program};
use serde_json::{Value, json};

use crate::cloud::{Cloud, ctl, eventually, rows_of};
use crate::world::{World, addresses, id, members};

/// Database servers with the schemas of one OVN version.
struct Databases {
    _servers: [Daemon; 2],
    dir: tempfile::TempDir,
}

impl Databases {
    fn of(version: &str) -> Databases {
        let dir = tempfile::tempdir().unwrap();
        let servers = [Database::Northbound, Database::Southbound].map(|database| {
            let server = serve(dir.path(), database, version);
            // Creates the row that ovn-northd would create first.
            ctl(dir.path(), database.short(), "init");
            server
        });
        Databases { _servers: servers, dir }
    }

    /// The rows of a Northbound table with all columns. ovn-nbctl knows only those of its own version.
    fn rows(&self, table: &str) -> Vec<Value> {
        let out = Command::new(find_program("ovsdb-client").unwrap())
            .args(["--format=json", "--data=json", "--no-leader-only", "dump"])
            .arg(format!("unix:{}", self.dir.path().join("nb.sock").display()))
            .args(["OVN_Northbound", table])
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        rows_of(&String::from_utf8(out.stdout).unwrap())
    }
}

/// Starts a server on a new database. The helper of `central` would convert it to the installed schema.
fn serve(dir: &Path, database: Database, version: &str) -> Daemon {
    let short = database.short();
    let file = |suffix: &str| dir.join(format!("{short}.{suffix}"));
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ovn/testdata/schema");
    let schema = schemas.join(format!("ovn-{short}-{version}.json"));
    let mut tool = Command::new(find_program("ovsdb-tool").unwrap());
    assert!(tool.arg("create").args([file("db"), schema]).status().unwrap().success());
    let mut command = Command::new(find_program("ovsdb-server").unwrap());
    command
        .arg(file("db"))
        .arg(format!("--remote=punix:{}", file("sock").display()))
        .arg(format!("--unixctl={}", file("ctl").display()))
        .args(["--no-chdir", "-vconsole:warn", "-vsyslog:off"])
        .stdout(Stdio::null());
    let daemon = Daemon::start("ovsdb-server", &mut command, &file("log")).unwrap();
    eventually("ovsdb-server listens", || UnixStream::connect(file("sock")).ok());
    daemon
}

/// Creates every kind of object and checks its rows.
fn a_whole_world_is_written(version: &str) {
    let databases = Databases::of(version);
    let cloud = Cloud::on(databases.dir.path(), &[]);
    let router = json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true});
    let mut world = World::on(cloud, &["ch1", "ch2", "ch3"], router);
    let network = json!({"name": "inside", "dns_domain": "cloud.example."});
    let network = id(&world.create("networks", "network", network));
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24",
                        "dns_nameservers": ["192.0.2.53"],
                        "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]});
    let subnet = id(&world.create("subnets", "subnet", subnet));
    let six = json!({"network_id": network, "ip_version": 6, "cidr": "2001:db8::/64",
                     "ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"});
    let six = id(&world.create("subnets", "subnet", six));
    world.connect(&subnet);
    world.connect(&six);
    let group = id(&world.create("security-groups", "security_group", json!({"name": "web"})));
    for rule in [
        json!({"protocol": "tcp", "port_range_min": 80, "port_range_max": 443}),
        json!({"remote_group_id": group, "ethertype": "IPv6"}),
        json!({"protocol": "icmp", "remote_ip_prefix": "192.0.2.0/24"}),
    ] {
        let mut rule = rule;
        rule["security_group_id"] = json!(group);
        rule["direction"] = json!("ingress");
        world.create("security-group-rules", "security_group_rule", rule);
    }
    let port = |name: &str, rest: Value| {
        let mut port = json!({"network_id": network, "dns_name": name, "security_groups": [group]});
        port.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        id(&world.create("ports", "port", port))
    };
    let pair = json!({"ip_address": "10.0.0.100", "mac_address": "00:00:5e:00:01:01"});
    let options = json!([{"opt_name": "bootfile-name", "opt_value": "pxe.0"}]);
    let web = port("web", json!({"allowed_address_pairs": [pair], "extra_dhcp_opts": options}));
    let other = port("other", json!({}));
    let gateways = world.gateways("add", json!([{ "network_id": world.n1 }, { "network_id": world.n2 }]));
    assert_eq!(addresses(&gateways).len(), 2);
    let fips = [id(&world.floating_ip(&world.n1, &web)), id(&world.floating_ip(&world.n2, &other))];
    let route = json!({"router": {"routes": [{"destination": "10.77.0.0/16", "nexthop": "10.0.0.77"}]}});
    world.put(&format!("{}/add_extraroutes", world.path()), route);
    // A gateway on a network without subnets has no address. A newer OVN accepts a router port without addresses.
    let bare = json!({"name": "N3", "router:external": true, "provider:network_type": "flat",
                      "provider:physical_network": "phy3"});
    let bare = id(&world.create("networks", "network", bare));
    let second = id(&world.create("routers", "router", json!({"name": "R2"})));
    let element = json!({"router": {"external_gateways": [{ "network_id": bare }]}});
    world.put(&format!("routers/{second}/add_external_gateways"), element);

    let rows = |table: &str| databases.rows(table);
    let counts: Vec<(&str, usize)> = [
        ("Logical_Switch", 4),
        ("Logical_Router", 2),
        // Two gateways, one interface for both IP versions, and the gateway without an address.
        ("Logical_Router_Port", if router_ports_may_be_bare(version) { 5 } else { 4 }),
        // The default routes of three gateways, and the route to the metadata service.
        ("Logical_Router_Static_Route", 4),
        ("Logical_Router_Policy", 2),
        ("BFD", 2),
        ("HA_Chassis_Group", 2),
        ("HA_Chassis", 6),
        ("NAT", 4),
        ("DNS", 1),
        ("Port_Group", 3),
    ]
    .into();
    for (table, count) in counts {
        let found = rows(table);
        assert_eq!(found.len(), count, "{table} of {version}: {found:#?}");
    }
    let gateway_ports = world.gateway_ports();
    let routes = rows("Logical_Router_Static_Route");
    let ways: BTreeSet<_> = routes
        .iter()
        .filter(|route| route["ip_prefix"] == "0.0.0.0/0")
        .map(|route| {
            assert!(rows("BFD").iter().any(|session| session["_uuid"] == route["bfd"]), "{route}");
            (route["nexthop"].as_str().unwrap(), route["output_port"].as_str().unwrap())
        })
        .collect();
    let lrp: Vec<String> = gateway_ports.iter().map(|port| format!("lrp-{port}")).collect();
    assert_eq!(ways, [("192.0.2.1", lrp[0].as_str()), ("198.51.100.1", lrp[1].as_str())].into());
    for (nat, gateway) in fips.iter().zip(&gateway_ports) {
        let nats = rows("NAT");
        let row = nats.iter().find(|row| row["_uuid"] == nat.as_str()).unwrap();
        assert_eq!((&row["type"], &row["gateway_port"]), (&json!("dnat_and_snat"), &json!(gateway)));
    }
    let dhcp = rows("DHCP_Options");
    for (wanted, kind) in
        [(json!({"subnet_id": subnet}), "10.0.0.0/24"), (json!({"subnet_id": six}), "2001:db8::/64")]
    {
        let of = |row: &&Value| row["external_ids"]["subnet_id"] == wanted["subnet_id"];
        assert!(dhcp.iter().filter(of).all(|row| row["cidr"] == kind), "{dhcp:#?}");
        assert!(dhcp.iter().any(|row| of(&row)), "{dhcp:#?}");
    }
    assert!(dhcp.iter().any(|row| row["external_ids"]["port_id"] == web.as_str()), "{dhcp:#?}");
    let acls = rows("ACL");
    for part in ["tcp.dst >= 80 && tcp.dst <= 443", "_ip6", "icmp4"] {
        assert!(acls.iter().any(|acl| acl["match"].as_str().unwrap().contains(part)), "{part}: {acls:#?}");
    }
    what_only_newer_ones_have(&databases, version, &web);

    // All rows are in place. The server sees this too, also just after a restart.
    world.cloud.converged();
    assert_eq!(problems(&world.cloud), [] as [Value; 0]);
    world.cloud.crash();
    world.cloud.converged();
    assert_eq!(problems(&world.cloud), [] as [Value; 0]);

    // The objects are deleted again.
    for fip in &fips {
        world.delete(&format!("floatingips/{fip}"));
    }
    for router in [&world.router, &second] {
        let none = json!({"router": {"external_gateways": []}});
        world.put(&format!("routers/{router}/update_external_gateways"), none);
    }
    for table in ["BFD", "HA_Chassis_Group", "HA_Chassis", "NAT"] {
        assert_eq!(rows(table), [] as [Value; 0], "{table} of {version}");
    }
    world.cloud.converged();
}

fn router_ports_may_be_bare(version: &str) -> bool {
    version != "23.03"
}

/// Columns and values that the OVN of Debian 12 does not know.
fn what_only_newer_ones_have(databases: &Databases, version: &str, port: &str) {
    let dns = databases.rows("DNS");
    let owned = dns[0].get("options").map(|options| options["ovn-owned"].clone());
    assert_eq!(owned, (version != "23.03").then(|| json!("true")), "{dns:?}");
    let ports = databases.rows("Logical_Switch_Port");
    let security = &ports.iter().find(|row| row["name"] == port).unwrap()["port_security"];
    let vrrp = members(security).iter().any(|entry| entry.starts_with("VRRPv3 "));
    assert_eq!(vrrp, version == "26.03", "{security}");
    let bare = databases.rows("Logical_Router_Port").iter().any(|port| port["networks"] == json!([]));
    assert_eq!(bare, router_ports_may_be_bare(version));
}

/// The problems of all components that the server reports.
fn problems(cloud: &Cloud) -> Vec<Value> {
    let status = cloud.status();
    let components = status["components"].as_array().unwrap();
    let of = |component: &Value| component["problems"].as_array().cloned().unwrap_or_default();
    let trouble = status["trouble"].as_array().cloned().unwrap_or_default();
    components.iter().flat_map(of).chain(trouble).collect()
}

#[test]
fn a_whole_world_is_written_to_ovn_23_03() {
    a_whole_world_is_written("23.03");
}

#[test]
fn a_whole_world_is_written_to_ovn_25_03() {
    a_whole_world_is_written("25.03");
}

#[test]
fn a_whole_world_is_written_to_ovn_26_03() {
    a_whole_world_is_written("26.03");
}
