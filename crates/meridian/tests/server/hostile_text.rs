//! Strings of API clients end up in columns that ovn-northd compiles to matches and actions. For any string, the API rejects it, or the
//! logical flows equal those of a harmless string, except inside of quoted strings. The same holds for the names that OVN's DNS answers.
//!
//! Each attribute that reaches the Northbound is a line of [`attributes`]. The real ovn-northd compiles.

mod coverage;

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::plant::Plant;
use crate::two_servers::postgres;
use crate::world::id;

/// Strings with a meaning in OVN's lexer, in JSON, in lists in columns, or in C.
pub(crate) const ATTACKS: &[&str] = &[
    // Ends put_dhcp_opts(), sends the packet to another port past its security groups, and begins another put_dhcp_opts().
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

/// The request that carries a string.
enum Target {
    /// Updates an existing object.
    Update { path: String, noun: &'static str },
    /// Creates an object, after deleting the one created last.
    Create { collection: String, noun: &'static str, last: Option<String> },
    /// Calls an action of an existing object. The body is sent unchanged.
    Call { path: String, noun: &'static str, action: &'static str },
}

/// The attributes of a request that carries the given string.
type BodyOf = Box<dyn Fn(&str) -> Value>;

/// An attribute whose string may reach the Northbound.
struct Attribute {
    name: String,
    target: Target,
    harmless: String,
    /// The body of a request with this string.
    body: BodyOf,
}

/// The ids of the existing objects.
#[derive(Default)]
struct Objects {
    outside: String,
    network: String,
    subnet: String,
    /// The IPv6 subnet of the same network.
    subnet_v6: String,
    /// A subnet without a router, so that its gateway and pools may change. It has a port.
    free_subnet: String,
    router: String,
    group: String,
    floating_ip: String,
    /// Ports of instances: one with every DHCP option, one for owner and device attributes, and one that is bound.
    ports: [String; 3],
    /// The network of `free_subnet`.
    free: String,
    /// A router whose gateways and interfaces change.
    edge: String,
    pool: String,
    /// A network whose subnets are allocated from the pool.
    pooled: String,
}

/// The API's name of a DHCP option, a harmless value, and the IP version.
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

/// Every attribute whose string may reach the Northbound.
fn attributes(objects: &Objects) -> Vec<Attribute> {
    let mut all = Vec::new();
    let update = |path: &str, noun: &'static str| Target::Update { path: path.to_owned(), noun };
    let create =
        |collection: &str, noun| Target::Create { collection: collection.to_owned(), noun, last: None };
    let mut add = |name: &str, target, harmless: &str, body: BodyOf| {
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
    add("port binding:host_id", port(2), "ch1.example", Box::new(|text| json!({"binding:host_id": text})));
    add("port binding:vnic_type", port(2), "normal", Box::new(|text| json!({"binding:vnic_type": text})));
    // A request replaces the whole binding profile, so each of its strings has a port of its own.
    let nested = objects.ports[0].clone();
    let profiles: Vec<(&str, &str, BodyOf)> = vec![
        ("migrating_to", "", Box::new(|text| json!({"migrating_to": text}))),
        ("parent_name", &objects.ports[0], Box::new(|text| json!({"parent_name": text, "tag": 5}))),
        ("tag", "", Box::new(move |text| json!({"parent_name": nested, "tag": text}))),
        ("vtep", "s", Box::new(|text| json!({"vtep-physical-switch": text, "vtep-logical-switch": text}))),
        ("capabilities", "x", Box::new(|text| json!({"capabilities": [text]}))),
        (
            "local_link_information",
            "x",
            Box::new(|text| json!({"local_link_information": [{"port_id": text}]})),
        ),
        ("key", "x", Box::new(|text| json!({text: text}))),
    ];
    for (n, (name, harmless, profile)) in profiles.into_iter().enumerate() {
        let (network, address) = (objects.free.clone(), format!("10.3.0.{}", 20 + n));
        let body = move |text: &str| {
            json!({"network_id": network, "fixed_ips": [{"ip_address": address}], "security_groups": [],
                   "binding:host_id": "ch1", "binding:profile": profile(text)})
        };
        let name = format!("port binding:profile {name}");
        add(&name, create("ports", "port"), harmless, Box::new(body));
    }
    let bindings = || create(&format!("ports/{}/bindings", objects.ports[2]), "binding");
    add("port bindings host", bindings(), "ch2.example", Box::new(|text| json!({"host": text})));
    add(
        "port bindings profile",
        bindings(),
        "x",
        Box::new(
            |text| json!({"host": "ch3.example", "profile": {"migrating_to": text}, "project_id": text}),
        ),
    );
    // All objects with an owner have a project, and most have a name, a description and tags.
    let owned = [
        ("networks", "network", json!({"name": "n"})),
        ("subnets", "subnet", json!({"network_id": objects.free, "ip_version": 4, "cidr": "10.4.0.0/24"})),
        ("subnetpools", "subnetpool", json!({"prefixes": ["10.65.0.0/16"], "default_prefixlen": 24})),
        (
            "ports",
            "port",
            json!({"network_id": objects.free, "fixed_ips": [{"ip_address": "10.3.0.40"}], "security_groups": []}),
        ),
        ("routers", "router", json!({})),
        ("floatingips", "floatingip", json!({"floating_network_id": objects.outside})),
        ("security-groups", "security_group", json!({})),
        ("address-scopes", "address_scope", json!({"ip_version": 4})),
    ];
    for (collection, noun, base) in owned {
        let scope = noun == "address_scope";
        let body = move |text: &str| {
            let mut body = base.clone();
            body["project_id"] = json!(text);
            if scope {
                body["name"] = json!(text);
                return body;
            }
            body["description"] = json!(text);
            // A tag must be shorter than a project id.
            body["tags"] = json!([text.chars().take(60).collect::<String>()]);
            if noun != "floatingip" {
                body["name"] = json!(text);
            }
            body
        };
        add(
            &format!("{noun} project, name, description and tags"),
            create(collection, noun),
            "p",
            Box::new(body),
        );
    }
    for (path, noun) in [
        (format!("networks/{}", objects.network), "network"),
        (format!("subnets/{}", objects.subnet), "subnet"),
        (format!("subnetpools/{}", objects.pool), "subnetpool"),
        (format!("ports/{}", objects.ports[1]), "port"),
        (format!("routers/{}", objects.router), "router"),
        (format!("floatingips/{}", objects.floating_ip), "floatingip"),
        (format!("security-groups/{}", objects.group), "security_group"),
    ] {
        let tags = Target::Call { path: format!("{path}/tags"), noun, action: "tags" };
        add(&format!("{noun} tags"), tags, "a", Box::new(|text| json!({"tags": [text]})));
    }
    add("rbac_policy target_tenant and project", create("rbac-policies", "rbac_policy"), "p", {
        let network = objects.network.clone();
        Box::new(move |text| {
            json!({"object_type": "network", "object_id": network, "action": "access_as_shared",
                   "target_tenant": text, "project_id": text})
        })
    });
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
    let subnet_v6 = update(&format!("subnets/{}", objects.subnet_v6), "subnet");
    let resolver = |text: &str| json!({"dns_nameservers": [text]});
    add("subnet dns_nameservers v6", subnet_v6, "2001:db8::53", Box::new(resolver));
    let free = || update(&format!("subnets/{}", objects.free_subnet), "subnet");
    add("subnet gateway_ip", free(), "10.3.0.1", Box::new(|text| json!({"gateway_ip": text})));
    add(
        "subnet allocation_pools start",
        free(),
        "10.3.0.5",
        Box::new(|text| json!({"allocation_pools": [{"start": text, "end": "10.3.0.99"}]})),
    );
    add(
        "subnet allocation_pools end",
        free(),
        "10.3.0.99",
        Box::new(|text| json!({"allocation_pools": [{"start": "10.3.0.5", "end": text}]})),
    );
    add(
        "subnet pool prefixes",
        create("subnetpools", "subnetpool"),
        "10.64.0.0/16",
        Box::new(|text| json!({"name": "pool", "prefixes": [text], "default_prefixlen": 24})),
    );
    add("subnet cidr", create("subnets", "subnet"), "10.1.0.0/24", {
        let network = objects.network.clone();
        Box::new(move |text| json!({"network_id": network, "ip_version": 4, "cidr": text}))
    });
    add("subnet service_types", free(), "compute:nova", Box::new(|text| json!({"service_types": [text]})));
    add("subnet subnetpool_id", create("subnets", "subnet"), &objects.pool, {
        let network = objects.pooled.clone();
        Box::new(move |text| json!({"network_id": network, "ip_version": 4, "subnetpool_id": text}))
    });
    for (action, harmless) in [("add_prefixes", "10.67.0.0/16"), ("remove_prefixes", "10.67.0.0/16")] {
        let path = format!("subnetpools/{}/{action}", objects.pool);
        let call = Target::Call { path, noun: "subnetpool", action };
        add(&format!("subnetpool {action}"), call, harmless, Box::new(|text| json!({"prefixes": [text]})));
    }
    let call =
        |action| Target::Call { path: format!("routers/{}/{action}", objects.edge), noun: "router", action };
    for action in ["add_router_interface", "remove_router_interface"] {
        let subnet = objects.free_subnet.clone();
        let body = move |text: &str| json!({"subnet_id": subnet, "advertise_host": text});
        add(&format!("router {action}"), call(action), "x", Box::new(body));
    }
    for action in ["add_external_gateways", "update_external_gateways", "remove_external_gateways"] {
        let outside = objects.outside.clone();
        let body = move |text: &str| {
            let gateway = json!({"network_id": outside, "external_fixed_ips": [{"ip_address": text}], "qos_policy_id": text});
            json!({"router": {"external_gateways": [gateway]}})
        };
        add(&format!("router {action}"), call(action), "192.0.2.201", Box::new(body));
    }
    let routed = |action| Target::Call {
        path: format!("routers/{}/{action}", objects.router),
        noun: "router",
        action,
    };
    for action in ["add_extraroutes", "remove_extraroutes"] {
        let routes = |route: Value| json!({"router": {"routes": [route]}});
        add(
            &format!("router {action} destination"),
            routed(action),
            "10.6.0.0/16",
            Box::new(move |text| routes(json!({"destination": text, "nexthop": "10.0.0.77"}))),
        );
        add(
            &format!("router {action} nexthop"),
            routed(action),
            "10.0.0.77",
            Box::new(move |text| routes(json!({"destination": "10.6.0.0/16", "nexthop": text}))),
        );
    }
    add(
        "router availability_zone_hints",
        create("routers", "router"),
        "az1",
        Box::new(|text| json!({"availability_zone_hints": [text]})),
    );
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
    let outside = objects.outside.clone();
    add("router external_fixed_ips", router(), "192.0.2.200", {
        let info =
            move |text: &str| json!({"network_id": outside, "external_fixed_ips": [{"ip_address": text}]});
        Box::new(move |text| json!({"external_gateway_info": info(text)}))
    });
    let security_group = || update(&format!("security-groups/{}", objects.group), "security_group");
    add("security group name", security_group(), "g", Box::new(|text| json!({"name": text})));
    add("security group description", security_group(), "g", Box::new(|text| json!({"description": text})));
    // One rule for each attribute, distinguished by its port.
    for (n, (key, harmless)) in [
        ("description", "d"),
        ("remote_ip_prefix", "10.9.0.0/16"),
        ("protocol", "tcp"),
        ("direction", "ingress"),
        ("ethertype", "IPv4"),
        ("remote_group_id", &objects.group),
        ("project_id", "p"),
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
    for (key, harmless) in [("port_range_min", "2000"), ("port_range_max", "2010")] {
        let group = objects.group.clone();
        let body = move |text: &str| {
            let mut rule = json!({"security_group_id": group, "direction": "egress", "protocol": "udp",
                                  "port_range_min": 2000, "port_range_max": 2010, "description": key});
            rule["remote_ip_prefix"] =
                json!(if key == "port_range_min" { "10.21.0.0/16" } else { "10.22.0.0/16" });
            rule[key] = json!(text);
            rule
        };
        let rules = create("security-group-rules", "security_group_rule");
        add(&format!("security group rule {key}"), rules, harmless, Box::new(body));
    }
    for (key, harmless) in
        [("floating_ip_address", "192.0.2.220"), ("dns_name", "web"), ("dns_domain", "cloud.example.")]
    {
        let outside = objects.outside.clone();
        let body = move |text: &str| json!({"floating_network_id": outside, key: text});
        add(&format!("floating IP {key}"), create("floatingips", "floatingip"), harmless, Box::new(body));
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
    // Hosts that a port may prepare to migrate to.
    for host in ["ch2", "ch3"] {
        cloud.chassis(host, &["phy1"], "");
    }
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
    let free = create("networks", "network", json!({"name": "free"}));
    let free_subnet = json!({"network_id": free, "ip_version": 4, "cidr": "10.3.0.0/24"});
    let free_subnet = create("subnets", "subnet", free_subnet);
    create("ports", "port", json!({"network_id": free, "fixed_ips": [{"ip_address": "10.3.0.9"}]}));
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
    let of_instance = json!({"port": {"device_owner": "compute:nova", "binding:host_id": "ch1.example"}});
    cloud.put(&format!("ports/{}", ports[2]), of_instance);
    let edge = create("routers", "router", json!({"name": "edge"}));
    let pool = create(
        "subnetpools",
        "subnetpool",
        json!({"name": "pool", "prefixes": ["10.66.0.0/16"], "default_prefixlen": 24}),
    );
    let pooled = create("networks", "network", json!({"name": "pooled"}));
    Objects {
        pooled,
        outside,
        network,
        subnet,
        subnet_v6: six,
        free_subnet,
        router,
        group,
        floating_ip,
        ports,
        free,
        edge,
        pool,
    }
}

impl Attribute {
    /// Sends a string; returns whether the API accepted it. Otherwise the answer must be an error in the API's own form.
    #[track_caller]
    fn send(&mut self, cloud: &Cloud, text: &str) -> bool {
        let body = (self.body)(text);
        let answer = match &mut self.target {
            Target::Call { path, .. } => cloud.ask("PUT", &format!("/v2.0/{path}"), Some(body)),
            Target::Update { path, noun } => {
                cloud.ask("PUT", &format!("/v2.0/{path}"), Some(json!({*noun: body})))
            }
            Target::Create { collection, noun, last } => {
                if let Some(last) = last.take() {
                    cloud.delete(&format!("{collection}/{last}"));
                }
                let answer = cloud.ask("POST", &format!("/v2.0/{collection}"), Some(json!({*noun: body})));
                // The id of a binding is its host.
                let id = if *noun == "binding" { "host" } else { "id" };
                *last = answer.body[*noun][id].as_str().map(str::to_owned);
                answer
            }
        };
        if let 200 | 201 = answer.status {
            return true;
        }
        let (status, kind, message) = answer.refusal();
        let refused = (400..=422).contains(&status) && !kind.is_empty() && !message.is_empty();
        assert!(refused, "{}: {text:?}: {answer:?}", self.name);
        assert!(text != self.harmless, "{}: the harmless {text:?}: {answer:?}", self.name);
        // The number of objects must stay the same, because the flows are counted.
        if matches!(self.target, Target::Create { .. }) {
            let harmless = self.harmless.clone();
            assert!(self.send(cloud, &harmless), "{} with {harmless:?}", self.name);
        }
        false
    }
}

/// A flow: pipeline, table, priority, match and actions.
type Flow = (String, i64, i64, String, String);

/// The result of ovn-northd's compilation of the Northbound.
pub(crate) struct Compiled {
    /// The logical flows, each with its number of occurrences.
    flows: BTreeMap<Flow, usize>,
    /// The DNS names that instances can query, for each network. ovn-northd does not parse them, so they are compared unchanged.
    names: Vec<String>,
}

/// Waits for ovn-northd and reads its result for the current Northbound.
pub(crate) fn compiled(cloud: &Cloud) -> Compiled {
    cloud.converged();
    cloud.nbctl("--wait=sb sync");
    let mut flows = BTreeMap::new();
    for row in cloud.southbound("Logical_Flow") {
        let text = |column: &str| without_content(row[column].as_str().unwrap());
        let number = |column: &str| row[column].as_i64().unwrap();
        let flow = (text("pipeline"), number("table_id"), number("priority"), text("match"), text("actions"));
        *flows.entry(flow).or_default() += 1;
    }
    let mut names: Vec<String> =
        cloud.southbound("DNS").iter().map(|row| row["records"].to_string()).collect();
    names.sort_unstable();
    Compiled { flows, names }
}

impl Compiled {
    /// Asserts that ovn-northd compiled nothing else after `attack`.
    #[track_caller]
    pub(crate) fn assert_same(&self, found: &Compiled, attack: &str) {
        let differs =
            |(flow, count): &(&Flow, &usize), from: &BTreeMap<Flow, usize>| from.get(*flow) != Some(*count);
        let more: Vec<_> = found.flows.iter().filter(|flow| differs(flow, &self.flows)).collect();
        let fewer: Vec<_> = self.flows.iter().filter(|flow| differs(flow, &found.flows)).collect();
        assert!(
            more.is_empty() && fewer.is_empty(),
            "{attack} changed flows\nbefore: {fewer:#?}\nafter: {more:#?}"
        );
        assert_eq!(self.names, found.names, "{attack} changed names");
    }
}

/// A match or an action without the content of its strings, whose ends are found as by OVN's lexer, and without random MAC addresses.
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

/// Generated strings; each begins with a character that no number, address or name begins with.
fn generated(count: usize) -> Vec<String> {
    let strategy = "[\"{};()=$@^|&\\\\\n]([\"{};()=$@^|&\\\\ \n]|[a-z0-9.,:]|\\PC){0,40}";
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn no_text_of_a_client_becomes_a_part_of_a_logical_flow() {
    // PostgreSQL rejects some strings, and must not be the first to reject them. The connections to OVN's databases use TLS, as in a cloud.
    let (postgres, _dir) = postgres();
    let plant = Plant::encrypted();
    let cloud = plant.cloud(&["--database", &postgres.url("meridian")]);
    let objects = objects(&cloud);
    let mut attributes = attributes(&objects);
    for attribute in &mut attributes {
        let harmless = attribute.harmless.clone();
        assert!(attribute.send(&cloud, &harmless), "{} with {harmless:?}", attribute.name);
    }
    let expected = compiled(&cloud);
    // The compared flows must cover all features: DHCP of both IP versions, routes, rules, NAT and names.
    for part in [
        "put_dhcp_opts",
        "bootfile_name = \"\"",
        "router = 10.3.0.1",
        "put_dhcpv6_opts",
        "ct_dnat",
        "10.7.0.0/16",
        "192.0.2.200",
        "tcp.dst == 1000",
    ] {
        let has = |(_, _, _, matches, actions): &Flow| matches.contains(part) || actions.contains(part);
        assert!(expected.flows.keys().any(has), "no flow has {part}: {:#?}", expected.flows);
    }
    assert!(expected.names.iter().any(|names| names.contains("web")), "{:?}", expected.names);
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
        expected.assert_same(&compiled(&cloud), &format!("{attack:?}, taken by {named:?},"));
    }
    assert!(taken > 100, "names and descriptions may be any text: {taken}");
}
