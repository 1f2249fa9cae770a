//! Texts of API clients end in columns that ovn-northd makes into matches and actions. Whatever the text: it is refused, or the
//! logical flows are those of a harmless one, but for the inside of quoted strings.
//!
//! Each attribute that reaches the Northbound is a line of [`attributes`]. The real ovn-northd compiles.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::two_servers::postgres;
use crate::world::id;

/// Texts that mean something to OVN's lexer, to JSON, to lists in columns, or to C.
const ATTACKS: &[&str] = &[
    // Ends put_dhcp_opts(), sends the packet to another port past its security groups, and begins another one.
    "1400); outport = \"11111111-2222-3333-4444-555555555555\"; flags.loopback = 1; next(pipeline=egress,table=8); \
     reg0[3] = put_dhcp_opts(offerip = 1.2.3.4",
    "10.0.0.1}; drop; {10.0.0.1",
    "{10.0.0.0/8,10.0.0.1}); output; reg0[3] = put_dhcp_opts(offerip = {10.0.0.1",
    "\"pxe.0\"); drop; x(y = \"z\"",
    "\"pxe.0\\",
    "a\" || 1 || inport == \"b",
    "a\\\" || 1 || inport == \\\"b",
    "line\nbreak; drop;\r\n",
    "nul\0byte",
    "$as_set @pg_set ^template ${net0/mac}",
    "/* comment */ // drop; /* open",
    "1,2 3\t4;5|6&&7==8",
    "ümläut \u{202e}\u{2028}\u{7f}\u{1}",
    "fa:16:3e:00:00:01 10.0.0.1 unknown dynamic router",
];

/// How a text gets into a request.
enum Target {
    /// An object that is there is changed.
    Update { path: String, noun: &'static str },
    /// An object is created; the last one that was is deleted before.
    Create { collection: &'static str, noun: &'static str, last: Option<String> },
}

/// An attribute whose text may reach the Northbound.
struct Attribute {
    name: String,
    target: Target,
    harmless: String,
    /// The attributes of a request with this text.
    body: Box<dyn Fn(&str) -> Value>,
}

/// The objects that there are.
struct Objects {
    network: String,
    subnet: String,
    router: String,
    group: String,
    floating_ip: String,
    /// Ports of instances: one with everything that DHCP can tell, one for what says whose it is, and one that is bound.
    ports: [String; 3],
}

/// The API's name of an option, a harmless value, and for which version.
const DHCP_OPTIONS: &[(&str, &str, u8)] = &[
    ("netmask", "255.255.255.0", 4),
    ("router", "10.0.0.1", 4),
    ("dns-server", "{10.0.0.2, 10.0.0.3}", 4),
    ("log-server", "10.0.0.2", 4),
    ("lpr-server", "10.0.0.2", 4),
    ("domain-name", "example.org", 4),
    ("swap-server", "10.0.0.2", 4),
    ("ip-forward-enable", "1", 4),
    ("policy-filter", "10.0.0.2", 4),
    ("default-ttl", "64", 4),
    ("mtu", "1400", 4),
    ("router-discovery", "0", 4),
    ("router-solicitation", "10.0.0.2", 4),
    ("arp-timeout", "60", 4),
    ("ethernet-encap", "0", 4),
    ("tcp-ttl", "64", 4),
    ("tcp-keepalive", "60", 4),
    ("nis-server", "10.0.0.2", 4),
    ("ntp-server", "10.0.0.2,10.0.0.3", 4),
    ("lease-time", "3600", 4),
    ("server-id", "10.0.0.1", 4),
    ("T1", "1800", 4),
    ("T2", "3000", 4),
    ("tftp-server", "10.0.0.2", 4),
    ("bootfile-name", "pxe.0", 4),
    ("bootfile-name-alt", "pxe.1", 4),
    ("domain-search", "a.example,b.example", 4),
    ("classless-static-route", "{10.8.0.0/16,10.0.0.1}", 4),
    ("tftp-server-address", "10.0.0.2", 4),
    ("path-prefix", "/boot", 4),
    ("249", "10.8.0.0/16,10.0.0.1", 4),
    ("wpad", "http://wpad.example/", 4),
    ("255", "10.0.0.2", 4),
    ("tag:ipxe,67", "pxe.2", 4),
    ("client-id", "unknown to OVN", 4),
    ("server-id", "fa:16:3e:00:00:99", 6),
    ("ia-addr", "2001:db8::9", 6),
    ("dns-server", "2001:db8::53", 6),
    ("domain-search", "example.org", 6),
    ("bootfile-name", "http://[2001:db8::1]/pxe", 6),
];

/// Every attribute whose text may reach the Northbound.
fn attributes(objects: &Objects) -> Vec<Attribute> {
    let mut all = Vec::new();
    let update = |path: &str, noun: &'static str| Target::Update { path: path.to_owned(), noun };
    let create = |collection, noun| Target::Create { collection, noun, last: None };
    let mut add = |name: &str, target, harmless: &str, body: Box<dyn Fn(&str) -> Value>| {
        all.push(Attribute { name: name.to_owned(), target, harmless: harmless.to_owned(), body });
    };
    let port = |n: usize| update(&format!("ports/{}", objects.ports[n]), "port");
    for (name, harmless, version) in DHCP_OPTIONS {
        let body = move |text: &str| json!({"extra_dhcp_opts": [{"opt_name": name, "opt_value": text, "ip_version": version}]});
        add(&format!("port extra_dhcp_opts {name} v{version}"), port(0), harmless, Box::new(body));
    }
    add(
        "port extra_dhcp_opts opt_name",
        port(0),
        "x",
        Box::new(|text| json!({"extra_dhcp_opts": [{"opt_name": text, "opt_value": "1"}]})),
    );
    add("port name", port(0), "web", Box::new(|text| json!({"name": text})));
    add("port description", port(0), "web", Box::new(|text| json!({"description": text})));
    add("port dns_name", port(0), "web", Box::new(|text| json!({"dns_name": text})));
    add("port mac_address", port(0), "fa:16:3e:00:00:77", Box::new(|text| json!({"mac_address": text})));
    add(
        "port fixed_ips",
        port(0),
        "10.0.0.9",
        Box::new(|text| json!({"fixed_ips": [{"ip_address": text}, {"ip_address": "2001:db8::9"}]})),
    );
    add(
        "port pair ip_address",
        port(0),
        "10.0.0.100",
        Box::new(
            |text| json!({"allowed_address_pairs": [{"ip_address": text, "mac_address": "00:00:5e:00:01:01"}]}),
        ),
    );
    add(
        "port pair mac_address",
        port(0),
        "00:00:5e:00:01:01",
        Box::new(
            |text| json!({"allowed_address_pairs": [{"ip_address": "10.0.0.100", "mac_address": text}]}),
        ),
    );
    let group = objects.group.clone();
    add("port security_groups", port(0), &group, Box::new(|text| json!({"security_groups": [text]})));
    add("port device_id", port(1), "vm", Box::new(|text| json!({"device_id": text})));
    add("port device_owner", port(1), "compute:nova", Box::new(|text| json!({"device_owner": text})));
    add(
        "port tags",
        update(&format!("ports/{}/tags", objects.ports[1]), ""),
        "a",
        Box::new(|text| json!([text])),
    );
    add("port binding:host_id", port(2), "ch1.example", Box::new(|text| json!({"binding:host_id": text})));
    add("port binding:vnic_type", port(2), "normal", Box::new(|text| json!({"binding:vnic_type": text})));
    for key in [
        "migrating_to",
        "parent_name",
        "tag",
        "vtep-physical-switch",
        "capabilities",
        "local_link_information",
    ] {
        let body = move |text: &str| json!({"binding:profile": {key: text}});
        add(&format!("port binding:profile {key}"), port(2), "", Box::new(body));
    }
    add(
        "port binding:profile list",
        port(2),
        "x",
        Box::new(|text| json!({"binding:profile": {"capabilities": [text]}})),
    );
    let network = || update(&format!("networks/{}", objects.network), "network");
    add("network name", network(), "n", Box::new(|text| json!({"name": text})));
    add("network dns_domain", network(), "cloud.example.", Box::new(|text| json!({"dns_domain": text})));
    add("network mtu", network(), "1400", Box::new(|text| json!({"mtu": text})));
    add(
        "network provider:physical_network",
        create("networks", "network"),
        "phy9",
        Box::new(|text| json!({"provider:network_type": "flat", "provider:physical_network": text})),
    );
    add(
        "network availability_zone_hints",
        create("networks", "network"),
        "az1",
        Box::new(|text| json!({"availability_zone_hints": [text]})),
    );
    let subnet = || update(&format!("subnets/{}", objects.subnet), "subnet");
    add("subnet name", subnet(), "s", Box::new(|text| json!({"name": text})));
    add("subnet dns_nameservers", subnet(), "10.0.0.2", Box::new(|text| json!({"dns_nameservers": [text]})));
    add(
        "subnet host_routes destination",
        subnet(),
        "10.7.0.0/16",
        Box::new(|text| json!({"host_routes": [{"destination": text, "nexthop": "10.0.0.7"}]})),
    );
    add(
        "subnet host_routes nexthop",
        subnet(),
        "10.0.0.7",
        Box::new(|text| json!({"host_routes": [{"destination": "10.7.0.0/16", "nexthop": text}]})),
    );
    add("subnet cidr", create("subnets", "subnet"), "10.1.0.0/24", {
        let network = objects.network.clone();
        Box::new(move |text| json!({"network_id": network, "ip_version": 4, "cidr": text}))
    });
    let router = || update(&format!("routers/{}", objects.router), "router");
    add("router name", router(), "r", Box::new(|text| json!({"name": text})));
    add(
        "router routes destination",
        router(),
        "10.7.0.0/16",
        Box::new(|text| json!({"routes": [{"destination": text, "nexthop": "10.0.0.7"}]})),
    );
    add(
        "router routes nexthop",
        router(),
        "10.0.0.7",
        Box::new(|text| json!({"routes": [{"destination": "10.7.0.0/16", "nexthop": text}]})),
    );
    let security_group = || update(&format!("security-groups/{}", objects.group), "security_group");
    add("security group name", security_group(), "g", Box::new(|text| json!({"name": text})));
    add("security group description", security_group(), "g", Box::new(|text| json!({"description": text})));
    // A rule for each, told apart by its port.
    for (n, (key, harmless)) in [
        ("description", "d"),
        ("remote_ip_prefix", "10.9.0.0/16"),
        ("protocol", "tcp"),
        ("direction", "ingress"),
        ("ethertype", "IPv4"),
    ]
    .into_iter()
    .enumerate()
    {
        let group = objects.group.clone();
        let body = move |text: &str| {
            let mut rule = json!({"security_group_id": group, "direction": "ingress", "protocol": "tcp",
                                  "port_range_min": 1000 + n, "port_range_max": 1000 + n});
            rule[key] = json!(text);
            rule
        };
        add(
            &format!("security group rule {key}"),
            create("security-group-rules", "security_group_rule"),
            harmless,
            Box::new(body),
        );
    }
    let floating_ip = || update(&format!("floatingips/{}", objects.floating_ip), "floatingip");
    add("floating IP description", floating_ip(), "f", Box::new(|text| json!({"description": text})));
    let first = objects.ports[0].clone();
    add(
        "floating IP fixed_ip_address",
        floating_ip(),
        "10.0.0.9",
        Box::new(move |text| json!({"port_id": first, "fixed_ip_address": text})),
    );
    all
}

fn objects(cloud: &Cloud) -> Objects {
    cloud.chassis("ch1", &["phy1"], "enable-chassis-as-gw,availability-zones=az1");
    let create = |path: &str, noun: &str, attributes: Value| id(&cloud.create(path, noun, attributes));
    let outside = json!({"router:external": true, "provider:network_type": "flat", "provider:physical_network": "phy1"});
    let outside = create("networks", "network", outside);
    create("subnets", "subnet", json!({"network_id": outside, "ip_version": 4, "cidr": "192.0.2.0/24"}));
    let network = create("networks", "network", json!({"name": "n"}));
    let subnet =
        create("subnets", "subnet", json!({"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"}));
    let six = json!({"network_id": network, "ip_version": 6, "cidr": "2001:db8::/64",
                     "ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"});
    let six = create("subnets", "subnet", six);
    let router = create("routers", "router", json!({"external_gateway_info": {"network_id": outside}}));
    for subnet in [&subnet, &six] {
        cloud.put(&format!("routers/{router}/add_router_interface"), json!({"subnet_id": subnet}));
    }
    let group = create("security-groups", "security_group", json!({"name": "g"}));
    let port = |address: &str, vnic: &str| {
        let fixed = json!([{"ip_address": address}, {"subnet_id": six}]);
        create("ports", "port", json!({"network_id": network, "fixed_ips": fixed, "binding:vnic_type": vnic}))
    };
    let ports = ["10.0.0.9", "10.0.0.10", "10.0.0.11"].map(|address| port(address, "normal"));
    let floating_ip =
        json!({"floating_network_id": outside, "port_id": ports[0], "fixed_ip_address": "10.0.0.9"});
    let floating_ip = create("floatingips", "floatingip", floating_ip);
    Objects { network, subnet, router, group, floating_ip, ports }
}

impl Attribute {
    /// Sends a text; whether it was taken. If not, the answer must be a refusal in the API's own form.
    #[track_caller]
    fn send(&mut self, cloud: &Cloud, text: &str) -> bool {
        let body = (self.body)(text);
        let answer = match &mut self.target {
            // Tags are no object.
            Target::Update { path, noun: "" } => {
                cloud.ask("PUT", &format!("/v2.0/{path}"), Some(json!({"tags": body})))
            }
            Target::Update { path, noun } => {
                cloud.ask("PUT", &format!("/v2.0/{path}"), Some(json!({*noun: body})))
            }
            Target::Create { collection, noun, last } => {
                if let Some(last) = last.take() {
                    cloud.delete(&format!("{collection}/{last}"));
                }
                let answer = cloud.ask("POST", &format!("/v2.0/{collection}"), Some(json!({*noun: body})));
                *last = answer.body[*noun]["id"].as_str().map(str::to_owned);
                answer
            }
        };
        if let 200 | 201 = answer.status {
            return true;
        }
        let (status, kind, message) = answer.refusal();
        let refused = (400..=422).contains(&status) && !kind.is_empty() && !message.is_empty();
        assert!(refused, "{}: {text:?}: {answer:?}", self.name);
        // The multitude of flows is to be the same.
        if matches!(self.target, Target::Create { .. }) {
            let harmless = self.harmless.clone();
            assert!(self.send(cloud, &harmless), "{} with {harmless:?}", self.name);
        }
        false
    }
}

/// A flow: pipeline, table, priority, match and actions.
type Flow = (String, i64, i64, String, String);

/// The logical flows once ovn-northd has compiled what is there now, each with how often it is there.
fn flows(cloud: &Cloud) -> BTreeMap<Flow, usize> {
    cloud.converged();
    cloud.nbctl("--wait=sb sync");
    let mut all = BTreeMap::new();
    for row in cloud.southbound("Logical_Flow") {
        let text = |column: &str| without_content(row[column].as_str().unwrap());
        let number = |column: &str| row[column].as_i64().unwrap();
        let flow = (text("pipeline"), number("table_id"), number("priority"), text("match"), text("actions"));
        *all.entry(flow).or_default() += 1;
    }
    all
}

/// A match or an action without the insides of its strings, as OVN's lexer finds their ends, and without random MAC addresses.
fn without_content(text: &str) -> String {
    let (mut plain, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        plain.push(c);
        if c == '"' {
            while let Some(c) = chars.next() {
                match c {
                    '"' => break,
                    '\\' => drop(chars.next()),
                    _ => {}
                }
            }
            plain.push('"');
        }
    }
    let is_mac = |word: &str| word.len() == 17 && word.split(':').count() == 6;
    let words = plain.split_inclusive([' ', ';', ',', '}', ')']);
    let word = |word: &str| {
        let bare = word.trim_end_matches([' ', ';', ',', '}', ')']);
        if is_mac(bare) { word.replace(bare, "MAC") } else { word.to_owned() }
    };
    words.map(word).collect()
}

/// Generated texts; each has something in front that no number, address or name begins with.
fn generated(count: usize) -> Vec<String> {
    let strategy = "[\"{};()=$@^|&\\\\\n]([\"{};()=$@^|&\\\\ \n]|[a-z0-9.,:]|\\PC){0,40}";
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn no_text_of_a_client_becomes_a_part_of_a_logical_flow() {
    // PostgreSQL has texts of its own that it does not take, and must not be the one to find out.
    let (postgres, _dir) = postgres();
    let cloud = Cloud::with(&["--database", &postgres.url("meridian")]);
    let objects = objects(&cloud);
    let mut attributes = attributes(&objects);
    for attribute in &mut attributes {
        let harmless = attribute.harmless.clone();
        assert!(attribute.send(&cloud, &harmless), "{} with {harmless:?}", attribute.name);
    }
    let expected = flows(&cloud);
    // Of what is compared there must be something: DHCP of both families, routes, rules and translation.
    for part in [
        "put_dhcp_opts",
        "bootfile_name = \"\"",
        "put_dhcpv6_opts",
        "ct_dnat",
        "10.7.0.0/16",
        "tcp.dst == 1000",
    ] {
        let has = |(_, _, _, matches, actions): &Flow| matches.contains(part) || actions.contains(part);
        assert!(expected.keys().any(has), "no flow has {part}: {expected:#?}");
    }
    let long = "x".repeat(300);
    let nearly = "y".repeat(255);
    let attacks = ATTACKS.iter().map(|text| (*text).to_owned()).chain([long, nearly]).chain(generated(4));
    let mut taken = 0;
    for attack in attacks {
        let named: Vec<String> = attributes
            .iter_mut()
            .filter_map(|attribute| attribute.send(&cloud, &attack).then(|| attribute.name.clone()))
            .collect();
        taken += named.len();
        let found = flows(&cloud);
        let differs =
            |(flow, count): &(&Flow, &usize), from: &BTreeMap<Flow, usize>| from.get(*flow) != Some(*count);
        let more: Vec<_> = found.iter().filter(|flow| differs(flow, &expected)).collect();
        let fewer: Vec<_> = expected.iter().filter(|flow| differs(flow, &found)).collect();
        assert!(
            more.is_empty() && fewer.is_empty(),
            "{attack:?} changed flows; taken by {named:?}\nbefore: {fewer:#?}\nafter: {more:#?}"
        );
    }
    assert!(taken > 100, "names and descriptions may be any text: {taken}");
}
