//! The load balancers of a server as text: a table, and the failed members.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write as _;

use api::status::LoadBalancerStatus;

use crate::output::{Look, Table, visible};

/// A line for each load balancer, then a line for each failed member. Empty if there are no load balancers.
pub(super) fn text(balancers: &[LoadBalancerStatus], coloured: bool) -> String {
    if balancers.is_empty() {
        return String::new();
    }
    let mut out = format!("\nload balancers: {}\n\n", balancers.len());
    let mut table = Table::new(["load balancer", "VIP", "floating IP", "state", "members", "outside at"]);
    for balancer in balancers {
        table.looking(row(balancer));
    }
    out.push_str(&table.render(coloured));
    for balancer in balancers {
        // The table shows a load balancer without any router.
        let is_partly_unrouted = !balancer.routers.is_empty() && balancer.vips.iter().any(|vip| vip.unrouted);
        if let Some(reason) = &balancer.reason
            && (balancer.provisioning_status == "ERROR" || is_partly_unrouted)
        {
            let _ = writeln!(out, "! {}: {reason}", label(balancer));
        }
        for member in &balancer.failed {
            let (name, address, port) = (label(balancer), member.address, member.protocol_port);
            let _ = writeln!(out, "! {name}: member {address} port {port}: {}", member.reason);
        }
        let unnamed = balancer.members.failed.saturating_sub(balancer.failed.len());
        if unnamed > 0 {
            let _ = writeln!(out, "! {}: {unnamed} more members failed", label(balancer));
        }
    }
    out
}

fn label(balancer: &LoadBalancerStatus) -> String {
    if balancer.name.is_empty() { balancer.id.to_string() } else { visible(&balancer.name) }
}

fn row(balancer: &LoadBalancerStatus) -> [(String, Look); 6] {
    let vips: Vec<_> = balancer.vips.iter().map(|vip| vip.address.to_string()).collect();
    let floating: Vec<_> =
        balancer.vips.iter().filter_map(|vip| vip.floating_ip).map(|it| it.to_string()).collect();
    let floating = match floating.is_empty() {
        true => ("-".to_owned(), Look::Faint),
        false => (floating.join(" "), Look::Plain),
    };
    let state = match (balancer.provisioning_status.as_str(), balancer.operating_status.as_str()) {
        ("ACTIVE", operating @ "ONLINE") => (operating.to_owned(), Look::Good),
        ("ACTIVE", operating @ "OFFLINE") => (operating.to_owned(), Look::Faint),
        ("ACTIVE", operating) => (operating.to_owned(), Look::Bad),
        (provisioning, _) => (provisioning.to_owned(), Look::Bad),
    };
    let members = &balancer.members;
    let serving = members.all.saturating_sub(members.failed + members.set_aside);
    let look = if members.failed > 0 { Look::Bad } else { Look::Plain };
    let outside = match (balancer.routers.as_slice(), balancer.chassis.as_slice()) {
        ([], _) => ("no router: nobody answers".to_owned(), Look::Bad),
        (_, []) => ("no gateway".to_owned(), Look::Faint),
        (_, chassis) => (chassis.join(" "), Look::Plain),
    };
    [
        (label(balancer), Look::Strong),
        (vips.join(" "), Look::Plain),
        floating,
        state,
        (format!("{serving} of {} serve", members.all), look),
        outside,
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_load_balancer_has_its_place_and_its_members() {
        let balancer = |name: &str, operating: &str, routers: &[&str], failed: usize| -> LoadBalancerStatus {
            let trouble = json!({
                "id": "6b1c0000-0000-4000-8000-000000000009", "address": "10.0.0.108", "protocol_port": 80,
                "reason": "it does not answer the probes of its health monitor",
            });
            serde_json::from_value(json!({
                "id": "6b1c0000-0000-4000-8000-000000000001", "name": name, "project_id": "p",
                "provisioning_status": "ACTIVE", "operating_status": operating, "routers": routers,
                "chassis": if routers.is_empty() { json!([]) } else { json!(["ch1"]) },
                "vips": [{"address": "10.0.0.10", "floating_ip": if failed > 0 { json!("192.0.2.200") } else { json!(null) }}],
                "members": {"all": 3, "failed": failed, "set_aside": 0},
                "failed": if failed > 0 { json!([trouble]) } else { json!([]) },
            }))
            .unwrap()
        };
        let all = [balancer("web", "DEGRADED", &["edge"], 2), balancer("", "ONLINE", &[], 0)];
        insta::assert_snapshot!(text(&all, false), @r"

        load balancers: 2

        load balancer                         VIP        floating IP  state     members       outside at
        ------------------------------------  ---------  -----------  --------  ------------  -------------------------
        web                                   10.0.0.10  192.0.2.200  DEGRADED  1 of 3 serve  ch1
        6b1c0000-0000-4000-8000-000000000001  10.0.0.10  -            ONLINE    3 of 3 serve  no router: nobody answers
        ! web: member 10.0.0.108 port 80: it does not answer the probes of its health monitor
        ! web: 1 more members failed
        ");
        let mut hostile = balancer("a\u{1b}[2J", "DEGRADED", &["edge"], 2);
        hostile.provisioning_status = "ERROR".to_owned();
        hostile.reason = Some("the Northbound refuses its rows: constraint violation".to_owned());
        let shown = text(&[hostile], false);
        assert!(!shown.contains('\u{1b}'), "a name moves the cursor: {shown:?}");
        assert!(
            shown.contains("! a\\u{1b}[2J: the Northbound refuses its rows: constraint violation"),
            "{shown}"
        );
        let mut half = balancer("web", "ONLINE", &["edge"], 0);
        half.vips[0].unrouted = true;
        half.reason = Some("nobody answers for 10.0.0.10".to_owned());
        assert!(text(&[half], false).contains("! web: nobody answers for 10.0.0.10"));
        assert_eq!(text(&[], false), "");
    }
}
