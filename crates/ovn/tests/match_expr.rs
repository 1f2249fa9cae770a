//! Our match expressions, parsed by OVN itself: `ovn-trace` parses its packet description with the same parser.

mod server;

use std::path::Path;
use std::process::Command;

use ovn::text::match_expr::*;
use server::Process;

/// A switch with one port, straight into the Southbound.
const WORLD: &str = r#"
    {"op":"insert","table":"Datapath_Binding","uuid":"00000000-0000-0000-0000-000000000001",
     "row":{"tunnel_key":1,"external_ids":["map",[["name","sw"],["logical-switch","00000000-0000-0000-0000-000000000003"]]]}},
    {"op":"insert","table":"Port_Binding","row":{"logical_port":"lsp","tunnel_key":1,
     "datapath":["uuid","00000000-0000-0000-0000-000000000001"]}}"#;

/// ovn-trace's error about an expression that does not parse; empty if it does.
fn complaint(socket: &Path, text: &str) -> String {
    let out = Command::new("ovn-trace")
        .arg(format!("--db=unix:{}", socket.display()))
        .args(["--summary", "sw", text])
        .output()
        .expect("run ovn-trace");
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    match said.lines().find(|line| line.contains("error parsing")) {
        // It parsed; a packet cannot be made of it, which is no fault.
        Some(line)
            if line.contains("Constraints are ambiguous")
                || line.contains("Constraints are contradictory") =>
        {
            String::new()
        }
        Some(line) => line.to_owned(),
        None => String::new(),
    }
}

fn expressions() -> Vec<Match> {
    let net = |text: &str| text.parse().unwrap();
    let port = || Match::port(Side::In, "lsp");
    let mut all = vec![
        Match::Port(Side::In, vec!["lsp".into(), "a\"b\\c\u{1}é^x\u{7f}".into()]),
        port().and(Match::All(vec![])),
        port().and(Match::Any(vec![])),
        port().and(Match::ip(End::Src, net("10.0.0.7/24"))),
        port().and(Match::Test(Test::Ip(
            End::Dst,
            vec![net("10.0.0.0/8"), net("fd00::/8"), net("11.0.0.1/32")],
        ))),
        port().and(Match::Not(Test::Ip(End::Dst, vec![net("10.0.0.0/8"), net("fd00::/8")]))),
        port().and(Match::Not(Test::Ip(End::Dst, vec![]))),
        port().and(Match::Is(Predicate::Ip4).or(Predicate::Ip6.into())).or(Predicate::Arp.into()),
        port().and(Test::Resident("cr-lrp".into()).into()).and(Match::Not(Test::Resident("x".into()))),
        port().and(Test::Mac(End::Src, "0a:58:cb:cb:00:02".parse().unwrap()).into()),
        port().and(Match::Not(Test::Mac(End::Dst, "0a:58:cb:cb:00:02".parse().unwrap()))),
        Match::port(Side::Out, "lsp"),
    ];
    all.extend(Predicate::ALL.iter().map(|predicate| port().and((*predicate).into())));
    for bit in Bit::ALL {
        all.push(port().and(Test::Bit(*bit).into()));
        all.push(port().and(Match::Not(Test::Bit(*bit))));
    }
    for field in Field::ALL {
        all.push(port().and(Match::range(*field, 80, 90)));
        all.push(port().and(Match::Not(Test::Number(*field, Relation::Ge, 80))));
    }
    all.extend(Code::ALL.iter().map(|code| port().and(Match::Code(*code, 1))));
    all
}

#[test]
fn ovn_reads_what_we_write() {
    let mut process = Process::start("ovn-sb-23.03");
    process.transact("OVN_Southbound", WORLD).unwrap();
    let socket = process.socket();
    assert_eq!(complaint(&socket, "inport == \"lsp\""), "");
    assert!(complaint(&socket, "inport == \"lsp\" && !tcp").contains("Nominal"), "the check can fail");
    assert!(
        complaint(&socket, "inport == \"lsp\" && ip4 || ip6").contains("parenthesized"),
        "the check can fail"
    );
    for expression in expressions() {
        let text = expression.to_string();
        assert_eq!(complaint(&socket, &text), "", "{text}");
    }
}
