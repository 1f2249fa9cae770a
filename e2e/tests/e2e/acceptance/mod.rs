//! The BGP agent's acceptance scenarios on real nodes: rows that ovn-northd wrote, a real switch, kernel and FRR.
//!
//! Two nodes run the agent, with the names of the scenarios: `ch-a`, which most scenarios examine, and `ch-b`. Their ovn-controllers are
//! stopped, so ports are bound to chassis only when a scenario runs `ovn-sbctl`. An expectation is complete: the tests compare the whole
//! state of a node.

mod balancers;
mod networks;
mod northbound;
mod provider;
mod site;
mod tenants;
mod translation;

use lab::{Need, Test};

pub(crate) fn tests() -> Vec<Test> {
    let test = |name, sentence, run| {
        Test::new(name, sentence, &[Need::Vrf, Need::Dummy, Need::Vlan], run).meridian()
    };
    vec![
        test(
            "acceptance::provider_ports",
            "scenarios 1 to 8, 22, 32, 33 and 38: ports of a provider network are exposed where they are bound and up, and nowhere else; nothing is withdrawn while the Southbound is away, and FRR is told nothing twice",
            provider::scenarios,
        ),
        test(
            "acceptance::translation",
            "scenarios 9 to 13 and 19: floating IPs go with their VM or their gateway, gateways with their chassis",
            translation::scenarios,
        ),
        test(
            "acceptance::tenants",
            "scenarios 14 to 18, 20, 21, 36 and 38: tenants are exposed behind their gateway, subnet by subnet",
            tenants::scenarios,
        ),
        test(
            "acceptance::balancers",
            "scenarios 23 to 25 and 37: load balancers are exposed on their members' account, and all comes out the same when the Northbound is read",
            balancers::scenarios,
        ),
        test(
            "acceptance::networks",
            "scenarios 5, 26 and 28: VLANs get their device, late patch ports their flows, and nothing is left of a switch that is deleted",
            networks::scenarios,
        ),
    ]
}
