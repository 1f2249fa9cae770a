//! Bodies for a node's inputs from other programs: FRR's answers and configuration, a switch's flows, iproute2's table names.

use std::collections::BTreeSet;

use node::flows::openflow::{self, HEADER, Header};
use node::frr::adrift::{self, Adrift};
use node::frr::{self, BgpdState, Desired, Observed, Redistribute, config, vty};
use node::kernel::tables::RtTables;

/// A switch's list of flows: each parsed message can be written, and a parsed flow matches the same way again.
pub fn flow_stats(data: &[u8]) {
    if let Some(first) = data.first_chunk::<HEADER>() {
        let _ = Header::decode(*first).map(|header| openflow::speaks_ours(header, &data[HEADER..]));
    }
    let _ = openflow::refusal(data);
    let mut flows = BTreeSet::new();
    let _ = openflow::take(data, &mut flows);
    for seen in &flows {
        let message = openflow::delete(seen, 1);
        assert!(message.len() >= HEADER + 40);
        if let Some(flow) = seen.flow {
            assert_eq!(openflow::add(flow, 1).len(), HEADER + 40 + 24 + 40);
        }
    }
}

/// An answer on a vty socket: its end is found at the same position for all ways to split the stream.
pub fn vty_reply(data: &[u8]) {
    let whole = vty::split(data, 0);
    if let Some((end, status)) = whole {
        assert!(data[..end].windows(4).all(|four| four[..3] != [0, 0, 0]));
        assert_eq!(data[end..end + 4], [0, 0, 0, status]);
    }
    let mut seen = 0;
    let pieces = (0..=data.len()).find_map(|now| {
        let found = vty::split(&data[..now], seen);
        seen = now;
        found
    });
    assert_eq!(pieces, whole);
}

/// A running configuration: any string parses, and a plan for it contains no step twice.
pub fn running_config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let router_id = frr::default_router_id(&text);
    let want = Desired {
        asn: "64999".into(),
        vrf: "bgp-vrf".into(),
        router_id: None,
        redistribute: [Redistribute::Connected].into(),
    };
    adrift::untied(&text, &["bgp-vrf".into()].into());
    frr::behind::table(&text);
    // The plan is also checked for an instance that has to be entered again.
    for adrift in [None, Some(("bgp-vrf".into(), Adrift::Due))] {
        let (tree, adrift) = (config::parse(&text), adrift.into_iter().collect());
        let state = BgpdState { tree, router_id, adrift, ..Default::default() };
        let part = frr::plan::plan(&want, &Observed::Bgpd(state));
        assert!(part.steps.len() <= 1);
        for step in &part.steps {
            assert!(!step.op.lines.is_empty() && step.op.lines.iter().all(|line| !line.contains('\n')));
        }
    }
}

/// The names of tables: each name that is found is on a line of the file.
pub fn rt_tables(data: &[u8]) {
    let names = RtTables::parse(&String::from_utf8_lossy(data));
    for (number, name) in names.iter() {
        assert!(names.iter().any(|(n, other)| other == name && Some(n) == names.number(name)));
        assert!(!name.is_empty(), "{number}");
    }
}
