use super::*;
use crate::text::strategy;
use proptest::prelude::*;

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

#[test]
fn security_group_rules() {
    // The pieces in the order other readers of these rows expect.
    let pg = Match::PortGroup(Side::Out, group("pg_a_b"));
    let rule = pg.clone().and(Match::Is(Predicate::Ip4)).and(Match::ip(End::Src, net("10.0.0.0/24")));
    let tcp = rule.clone().and(Match::Is(Predicate::Tcp)).and(Match::range(Field::TcpDst, 80, 90));
    assert_eq!(
        tcp.to_string(),
        "outport == @pg_a_b && ip4 && ip4.src == 10.0.0.0/24 && tcp && tcp.dst >= 80 && tcp.dst <= 90"
    );
    let one = pg.clone().and(Match::Is(Predicate::Ip4)).and(Match::Is(Predicate::Udp)).and(Match::range(
        Field::UdpDst,
        53,
        53,
    ));
    assert_eq!(one.to_string(), "outport == @pg_a_b && ip4 && udp && udp.dst == 53");
    let remote = pg
        .and(Match::Is(Predicate::Ip6))
        .and(Test::AddressSet(Family::V6, End::Src, group("pg_c_ip6")).into());
    assert_eq!(remote.to_string(), "outport == @pg_a_b && ip6 && ip6.src == $pg_c_ip6");
    let drop = Match::PortGroup(Side::In, group("neutron_pg_drop")).and(Match::Is(Predicate::Ip));
    assert_eq!(drop.to_string(), "inport == @neutron_pg_drop && ip");
}

#[test]
fn router_policies() {
    let metadata = Match::port(Side::In, "lrp-1").and(Match::ip(End::Dst, net("169.254.169.254/32")));
    assert_eq!(metadata.to_string(), "inport == \"lrp-1\" && ip4.dst == 169.254.169.254");
    let pods = |set: &str| Match::Test(Test::AddressSet(Family::V4, End::Src, group(set)));
    let egress =
        pods("eip").or(pods("svc")).and(Test::AddressSet(Family::V4, End::Dst, group("nodes")).into());
    assert_eq!(egress.to_string(), "(ip4.src == $eip || ip4.src == $svc) && ip4.dst == $nodes");
    let mark =
        Match::ip(End::Src, net("10.1.0.5/32")).and(Test::Number(Field::PktMark, Relation::Eq, 0).into());
    assert_eq!(mark.to_string(), "ip4.src == 10.1.0.5 && pkt.mark == 0");
    assert_eq!(
        Match::Test(Test::Mac(End::Dst, "0A:58:cb:cb:00:02".parse().unwrap())).to_string(),
        "eth.dst == 0a:58:cb:cb:00:02"
    );
}

#[test]
fn parentheses_and_literals() {
    let (a, b, c) = (Match::Is(Predicate::Ip4), Match::Is(Predicate::Tcp), Match::Is(Predicate::Udp));
    for (expr, text) in [
        (Match::All(vec![]), "1"),
        (Match::Any(vec![]), "0"),
        (Match::All(vec![Match::Any(vec![a.clone()]), b.clone()]), "ip4 && tcp"),
        (a.clone().and(b.clone().or(c.clone())), "ip4 && (tcp || udp)"),
        (a.clone().and(b.clone()).or(c.clone()), "(ip4 && tcp) || udp"),
        (Match::Not(Test::Bit(Bit::CtReply)), "!ct.rpl"),
        (Match::Not(Test::Resident("x".into())), "!is_chassis_resident(\"x\")"),
        (Match::Not(Test::Number(Field::TcpDst, Relation::Ge, 80)), "!(tcp.dst >= 80)"),
        (
            Match::Not(Test::Ip(End::Src, vec![net("10.0.0.0/8"), net("fd00::/8")])),
            "!(ip4.src == 10.0.0.0/8 || ip6.src == fd00::/8)",
        ),
        (Match::Code(Code::Icmp4Type, 8), "icmp4.type == 8"),
        (Match::Port(Side::In, vec!["a".into(), "b".into()]), "inport == {\"a\", \"b\"}"),
        (Match::Port(Side::In, vec![]), "0"),
        (Match::port(Side::In, "a\"b\\c\u{1}"), "inport == \"a\\\"b\\\\c\\u0001\""),
        (Match::ip(End::Src, net("10.0.0.7/24")), "ip4.src == 10.0.0.0/24"),
        (
            Match::Test(Test::Ip(End::Src, vec![net("10.0.0.0/8"), net("fd00::/8"), net("11.0.0.0/8")]))
                .and(Match::Is(Predicate::Tcp)),
            "(ip4.src == {10.0.0.0/8, 11.0.0.0/8} || ip6.src == fd00::/8) && tcp",
        ),
        (Test::Resident("cr-lrp-1".into()).into(), "is_chassis_resident(\"cr-lrp-1\")"),
    ] {
        assert_eq!(expr.to_string(), text);
    }
}

#[test]
fn group_names() {
    assert_eq!(group("pg_1.x").as_str(), "pg_1.x");
    for name in ["", "1a", "a-b", "a b", "é", "a$"] {
        assert!(GroupName::new(name).is_err(), "{name}");
    }
}

/// Reads back the subset that the builder writes, with OVN's own rule that `&&` and `||` may not meet without parentheses.
/// Returns the truth of the expression for a packet given as the set of true atoms.
fn eval(text: &str, truth: &dyn Fn(&str) -> bool) -> bool {
    let mut reader = Reader { rest: text, truth };
    let value = reader.expression();
    assert_eq!(reader.rest, "", "left over in {text}");
    value
}

struct Reader<'a> {
    rest: &'a str,
    truth: &'a dyn Fn(&str) -> bool,
}

impl Reader<'_> {
    fn expression(&mut self) -> bool {
        let mut value = self.term();
        let mut seen = None;
        while let Some(op) = ["&&", "||"].into_iter().find(|op| self.rest.starts_with(&format!(" {op} "))) {
            assert!(seen.is_none_or(|s| s == op), "{op} without parentheses before {}", self.rest);
            seen = Some(op);
            self.rest = &self.rest[4..];
            let right = self.term();
            value = if op == "&&" { value & right } else { value | right };
        }
        value
    }

    fn term(&mut self) -> bool {
        if let Some(rest) = self.rest.strip_prefix("!(") {
            self.rest = rest;
            return !self.parenthesis();
        }
        if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest;
            return self.parenthesis();
        }
        if let Some(rest) = self.rest.strip_prefix('!') {
            self.rest = rest;
            return !self.atom();
        }
        self.atom()
    }

    fn parenthesis(&mut self) -> bool {
        let value = self.expression();
        self.rest = self.rest.strip_prefix(')').expect("closing parenthesis");
        value
    }

    fn atom(&mut self) -> bool {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        match atom {
            "1" => true,
            "0" => false,
            atom => (self.truth)(atom),
        }
    }
}

fn any_tree() -> impl Strategy<Value = Match> {
    let leaf = prop_oneof![
        Just(Match::Is(Predicate::Ip4)),
        Just(Match::Is(Predicate::Tcp)),
        Just(Match::Test(Test::Bit(Bit::CtReply))),
        Just(Match::Not(Test::Bit(Bit::CtReply))),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let many = || proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            many().prop_map(Match::All),
            many().prop_map(Match::Any),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.or(b)),
        ]
    })
}

fn meaning(expr: &Match, truth: &dyn Fn(&str) -> bool) -> bool {
    match expr {
        Match::Is(predicate) => truth(predicate.symbol()),
        Match::Test(Test::Bit(bit)) => truth(bit.symbol()),
        Match::Not(Test::Bit(bit)) => !truth(bit.symbol()),
        Match::All(parts) => parts.iter().all(|part| meaning(part, truth)),
        Match::Any(parts) => parts.iter().any(|part| meaning(part, truth)),
        _ => unreachable!("not generated"),
    }
}

proptest! {
    #[test]
    fn text_means_what_the_tree_means(tree in any_tree(), bits in 0u8..8) {
        let truth = move |atom: &str| match atom {
            "ip4" => bits & 1 != 0,
            "tcp" => bits & 2 != 0,
            "ct.rpl" => bits & 4 != 0,
            other => panic!("unknown atom {other:?}"),
        };
        prop_assert_eq!(eval(&tree.to_string(), &truth), meaning(&tree, &truth));
    }

    #[test]
    fn quoting_is_json(text in ".{0,20}") {
        let quoted = Quoted(&text).to_string();
        prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
    }

    #[test]
    fn prefixes_have_no_host_bits(addr in strategy::host_addr()) {
        let text = Match::ip(End::Src, addr.to_net()).to_string();
        let shown = text.rsplit(' ').next().unwrap();
        if let Ok(net) = shown.parse::<IpNet>() {
            prop_assert_eq!(net, net.trunc());
        } else {
            prop_assert_eq!(shown.parse::<IpAddr>().unwrap(), addr.addr);
        }
    }
}
