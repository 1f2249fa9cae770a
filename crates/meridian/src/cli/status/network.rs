//! The network of a server as text: its chassis in a line, its gateways in a table.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write as _;

use api::status::{NetworkStatus, RouterGateway, RouterStatus};

use crate::output::{Look, Table};

/// Keeps only the routers with this name or id.
pub(super) fn selected(network: &mut NetworkStatus, wanted: &str) {
    network.routers.retain(|router| router.name == wanted || router.id.to_string() == wanted);
    network.load_balancers.clear();
}

/// A line about the chassis, then a line for each default route of each gateway.
pub(super) fn text(network: &NetworkStatus, coloured: bool) -> String {
    let chassis = &network.chassis;
    let gateways = chassis.iter().filter(|chassis| chassis.gateway).count();
    let mut out = match (network.gateways.all, network.gateways.without_traffic) {
        (0, _) => "network: no router has a gateway\n".to_owned(),
        (1, 0) => "network: the only gateway can carry traffic\n".to_owned(),
        (1, _) => "network: the only gateway carries no traffic\n".to_owned(),
        (all, 0) => format!("network: all {all} gateways can carry traffic\n"),
        (all, idle) => format!("network: {idle} of {all} gateways carry no traffic\n"),
    };
    let _ = write!(out, "chassis: {} ({gateways} gateway-capable)", chassis.len());
    let dead: Vec<_> = chassis.iter().filter(|chassis| !chassis.alive).map(|it| it.name.as_str()).collect();
    if !dead.is_empty() {
        let _ = write!(out, "; down: {}", dead.join(", "));
    }
    let _ = writeln!(out, "\nrouters: {}", network.routers.len());
    if network.routers.is_empty() {
        return out;
    }
    let mut table = Table::new(["router", "gateway", "network", "chassis", "default route", "bfd", "used"]);
    for router in &network.routers {
        of_router(&mut table, router);
    }
    out.push('\n');
    out.push_str(&table.render(coloured));
    for router in &network.routers {
        for warning in &router.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
    }
    out
}

fn of_router(table: &mut Table, router: &RouterStatus) {
    let name = if router.name.is_empty() { router.id.to_string() } else { router.name.clone() };
    let name = if router.admin_state_up { name } else { format!("{name} (off)") };
    let mut name = Some(name);
    if router.gateways.is_empty() {
        table.looking([(name.take().unwrap_or_default(), Look::Plain), ("none".to_owned(), Look::Faint)]);
    }
    for gateway in &router.gateways {
        of_gateway(table, &mut name, gateway);
    }
}

fn of_gateway(table: &mut Table, name: &mut Option<String>, gateway: &RouterGateway) {
    let addresses: Vec<_> = gateway.addresses.iter().map(ToString::to_string).collect();
    let chassis = match (&gateway.status.chassis, gateway.group.as_slice()) {
        (Some(chassis), _) => (chassis.clone(), Look::Good),
        (None, []) => ("none can carry it".to_owned(), Look::Bad),
        (None, group) => (format!("none yet of {}", group.join(", ")), Look::Bad),
    };
    let mut place = Some([
        (addresses.join(" "), Look::Plain),
        (
            if gateway.network.is_empty() {
                gateway.status.network_id.to_string()
            } else {
                gateway.network.clone()
            },
            Look::Plain,
        ),
        chassis,
    ]);
    let mut row = |route: [(String, Look); 3]| {
        let place = place.take().unwrap_or_default();
        table
            .looking([(name.take().unwrap_or_default(), Look::Strong)].into_iter().chain(place).chain(route));
    };
    if gateway.status.routes.is_empty() {
        row([("none".to_owned(), Look::Faint), Default::default(), Default::default()]);
    }
    for route in &gateway.status.routes {
        let bfd = match route.bfd.as_deref() {
            None => ("-".to_owned(), Look::Faint),
            Some(state @ "up") => (state.to_owned(), Look::Good),
            Some(state) => (state.to_owned(), Look::Bad),
        };
        let used = match (&gateway.status.chassis, route.installed) {
            (_, false) => ("no: not in OVN", Look::Faint),
            (None, true) => ("no: on no chassis", Look::Bad),
            (Some(_), true) if !route.is_used() => ("no: BFD is not up", Look::Bad),
            (Some(_), true) => ("yes", Look::Plain),
        };
        row([
            (format!("{} via {}", route.destination, route.nexthop), Look::Plain),
            bfd,
            (used.0.to_owned(), used.1),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn network() -> NetworkStatus {
        let route = |hop: &str, bfd: &str, installed: bool| json!({"destination": "0.0.0.0/0", "nexthop": hop, "bfd": bfd, "installed": installed});
        let (port, net) = ("6b1c0000-0000-4000-8000-000000000001", "6b1c0000-0000-4000-8000-000000000002");
        let router = json!({
            "id": "6b1c0000-0000-4000-8000-000000000003", "name": "R", "project_id": "p", "admin_state_up": true,
            "enable_default_route_ecmp": true, "enable_default_route_bfd": true, "warnings": ["mind the gap"],
            "gateways": [
                {"port_id": port, "network_id": net, "network": "N1", "chassis": "ch1", "host": "one",
                 "addresses": ["192.0.2.100"], "group": ["ch1", "ch2"], "routes": [route("192.0.2.1", "up", true)]},
                {"port_id": port, "network_id": net, "network": "N2", "chassis": null, "host": null,
                 "addresses": ["198.51.100.7"], "group": ["ch2"], "routes": [route("198.51.100.1", "down", false)]},
            ],
        });
        let mut bare = router.clone();
        bare["id"] = json!("6b1c0000-0000-4000-8000-000000000004");
        (bare["name"], bare["gateways"], bare["warnings"]) = (json!("bare"), json!([]), json!([]));
        let chassis = json!({"name": "ch1", "host": "one", "alive": false, "gateway": true, "physical_networks": [], "hosted": 1});
        let gateways = json!({"all": 2, "without_traffic": 1});
        serde_json::from_value(json!({"chassis": [chassis], "routers": [router, bare], "gateways": gateways}))
            .unwrap()
    }

    #[test]
    fn each_gateway_has_its_place_and_its_routes() {
        insta::assert_snapshot!(text(&network(), false), @r"
        network: 1 of 2 gateways carry no traffic
        chassis: 1 (1 gateway-capable); down: ch1
        routers: 2

        router  gateway       network  chassis          default route               bfd   used
        ------  ------------  -------  ---------------  --------------------------  ----  --------------
        R       192.0.2.100   N1       ch1              0.0.0.0/0 via 192.0.2.1     up    yes
                198.51.100.7  N2       none yet of ch2  0.0.0.0/0 via 198.51.100.1  down  no: not in OVN
        bare    none
        warning: mind the gap
        ");
    }

    #[test]
    fn colours_mark_what_works_and_what_does_not() {
        let text = text(&network(), true);
        assert!(text.contains("\x1b[32mup\x1b[0m") && text.contains("\x1b[31mdown\x1b[0m"), "{text}");
    }

    #[test]
    fn one_router_is_found_by_name_and_by_id() {
        for wanted in ["bare", "6b1c0000-0000-4000-8000-000000000004"] {
            let mut network = network();
            selected(&mut network, wanted);
            assert_eq!(network.routers.len(), 1);
            assert_eq!(network.routers[0].name, "bare");
        }
    }
}
