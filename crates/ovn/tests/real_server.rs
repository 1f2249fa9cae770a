//! The write target against real ovsdb-servers with the Northbound schema of every supported version.

mod server;

use std::collections::BTreeSet;

use ovn::text::Text;
use ovn::{ident, nb, target};
use ovsdb::{Map, Ref, Set, Str, Uuid, Weak};
use reconcile::{Applied, Class, ObjectId, Plan, Scope, StepResult, Target};
use target::{Desired, Op, Ownership, RowTarget, Rules};

use server::Server;

const VERSIONS: [&str; 3] = ["23.03", "25.03", "26.03"];

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn object(kind: &str, n: u128) -> ObjectId {
    ObjectId::new(kind, n.to_string())
}

fn ids<const N: usize>(pairs: [(&str, &str); N]) -> Map<Str, Str> {
    pairs.map(|(key, value)| (key.into(), value.into())).into()
}

fn port(n: u128, name: &str) -> nb::LogicalSwitchPort {
    nb::LogicalSwitchPort {
        name: name.into(),
        addresses: Set::from([Text::new(&format!("fa:16:3e:00:00:{n:02x} 10.0.0.{n} fd00::{n:x}"))]),
        options: ids([("requested-chassis", "host1")]),
        external_ids: ids([("neutron:cidrs", "10.0.0.1/24")]),
        ..Default::default()
    }
}

/// A network with ports, a router with a gateway, a security group and a load balancer.
fn cloud(ports: &[(u128, &str)]) -> Desired {
    let mut want = Desired::new();
    let members = ports.iter().map(|(n, _)| Ref::new(uuid(*n)));
    want.own(
        object("network", 0x100),
        uuid(0x100),
        nb::LogicalSwitch {
            name: "neutron-net".into(),
            ports: members.collect(),
            other_config: ids([("mcast_snoop", "false")]),
            ..Default::default()
        },
    );
    for (n, name) in ports {
        want.own(object("port", *n), uuid(*n), port(*n, name));
    }
    router(&mut want);
    let rule = nb::Acl {
        priority: 1002,
        direction: nb::Direction::ToLport,
        matches: "outport == @pg_a && ip4".into(),
        action: nb::AclAction::AllowRelated,
        ..Default::default()
    };
    want.own(object("rule", 0x301), uuid(0x301), rule);
    let group = nb::PortGroup {
        name: "pg_a".into(),
        acls: Set::from([Ref::new(uuid(0x301))]),
        ports: ports.iter().map(|(n, _)| Weak::new(uuid(*n))).collect(),
        ..Default::default()
    };
    want.own(object("security-group", 0x300), uuid(0x300), group);
    let check = nb::LoadBalancerHealthCheck { vip: Text::new("10.0.0.10:80"), ..Default::default() };
    want.own(object("lb", 0x400), uuid(0x401), check);
    let balancer = nb::LoadBalancer {
        name: "lb".into(),
        vips: [(Text::new("10.0.0.10:80"), Text::new("10.0.0.4:80,10.0.0.5:80"))].into(),
        protocol: Some(nb::LbProtocol::Tcp),
        health_check: Set::from([Ref::new(uuid(0x401))]),
        selection_fields: Set::from([nb::SelectionField::IpSrc, nb::SelectionField::IpDst]),
        ..Default::default()
    };
    want.own(object("lb", 0x400), uuid(0x400), balancer);
    let on = nb::LogicalSwitch { load_balancer: Set::from([Weak::new(uuid(0x400))]), ..Default::default() };
    want.share(object("lb", 0x400), uuid(0x100), on, nb::LogicalSwitch::LOAD_BALANCER);
    want
}

fn router(want: &mut Desired) {
    let gateway = object("gateway", 0x202);
    let router = nb::LogicalRouter { name: "neutron-r".into(), enabled: Some(true), ..Default::default() };
    want.own(object("router", 0x200), uuid(0x200), router);
    let chassis = nb::HaChassis { chassis_name: "ch1".into(), priority: 1, ..Default::default() };
    want.own(gateway.clone(), uuid(0x204), chassis);
    let group = nb::HaChassisGroup {
        name: "neutron-lrp-1".into(),
        ha_chassis: Set::from([Ref::new(uuid(0x204))]),
        ..Default::default()
    };
    want.own(gateway.clone(), uuid(0x203), group);
    let port = nb::LogicalRouterPort {
        name: "lrp-1".into(),
        mac: Text::new("fa:16:3e:00:01:01"),
        networks: Set::from([Text::new("192.0.2.1/24")]),
        ha_chassis_group: Some(Ref::new(uuid(0x203))),
        options: ids([("gateway_mtu", "1400")]),
        ..Default::default()
    };
    want.own(gateway.clone(), uuid(0x202), port);
    let bfd =
        nb::Bfd { logical_port: "lrp-1".into(), dst_ip: Text::new("192.0.2.254"), ..Default::default() };
    want.own(gateway.clone(), uuid(0x205), bfd);
    let route = nb::LogicalRouterStaticRoute {
        ip_prefix: Text::new("0.0.0.0/0"),
        nexthop: Text::new("192.0.2.254"),
        output_port: Some("lrp-1".into()),
        bfd: Some(Weak::new(uuid(0x205))),
        ..Default::default()
    };
    want.own(gateway.clone(), uuid(0x206), route);
    let nat = nb::Nat {
        kind: nb::NatType::Snat,
        external_ip: Text::new("192.0.2.1"),
        logical_ip: Text::new("10.0.0.0/24"),
        gateway_port: Some(Weak::new(uuid(0x202))),
        ..Default::default()
    };
    want.own(gateway.clone(), uuid(0x207), nat);
    let hung = nb::LogicalRouter {
        ports: Set::from([Ref::new(uuid(0x202))]),
        static_routes: Set::from([Ref::new(uuid(0x206))]),
        nat: Set::from([Ref::new(uuid(0x207))]),
        ..Default::default()
    };
    let columns = nb::LogicalRouter::PORTS | nb::LogicalRouter::STATIC_ROUTES | nb::LogicalRouter::NAT;
    want.share(gateway.clone(), uuid(0x200), hung, columns);
    let neighbour = nb::StaticMacBinding {
        logical_port: "lrp-1".into(),
        ip: Text::new("192.0.2.254"),
        mac: Text::new("fa:16:3e:00:01:fe"),
        override_dynamic_mac: true,
    };
    want.own(gateway, ident::marked_uuid("cloud", "gateway", "0x202", "neighbour"), neighbour);
}

struct Run {
    target: RowTarget<Server>,
}

impl Run {
    fn new(version: &str) -> Self {
        let server = Server::start(version);
        Run { target: RowTarget::new(server, Ownership::new("cloud"), Rules::northbound()) }
    }

    async fn plan(&mut self, want: &Desired) -> Plan<Op> {
        let have = self.target.observe(Scope::Full).await.unwrap();
        self.target.plan(want, &BTreeSet::new(), &have)
    }

    async fn apply(&mut self, want: &Desired) -> (Plan<Op>, Applied) {
        let plan = self.plan(want).await;
        let applied = self.target.apply(&plan).await.unwrap();
        (plan, applied)
    }

    async fn settle(&mut self, want: &Desired) {
        let (plan, applied) = self.apply(want).await;
        for (step, result) in plan.steps.iter().zip(&applied.results) {
            assert!(matches!(result, StepResult::Done), "{}: {result:?}", step.op);
        }
        let left = self.plan(want).await;
        assert!(left.is_empty(), "left over:\n{left}");
        assert_eq!(left.want, left.have);
    }
}

const FOREIGN: &str = r#"
    {"op":"insert","table":"Logical_Switch_Port","uuid":"00000000-0000-0000-0000-000000000f01","row":{"name":"theirs"}},
    {"op":"insert","table":"Logical_Switch","uuid":"00000000-0000-0000-0000-000000000f00","row":{"name":"theirs",
     "ports":["uuid","00000000-0000-0000-0000-000000000f01"],"external_ids":["map",[["k","v"]]]}}"#;

const MEDDLE: &str = r#"
    {"op":"mutate","table":"Logical_Router","where":[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000200"]]],
     "mutations":[["policies","insert",["uuid","00000000-0000-0000-0000-000000000f02"]],
                  ["options","insert",["map",[["theirs","1"]]]]]},
    {"op":"insert","table":"Logical_Router_Policy","uuid":"00000000-0000-0000-0000-000000000f02",
     "row":{"priority":1,"match":"ip4","action":"drop"}},
    {"op":"update","table":"Logical_Switch","where":[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000100"]]],
     "row":{"name":"renamed"}},
    {"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000100"]]],
     "mutations":[["external_ids","insert",["map",[["junk","1"]]]],
                  ["ports","delete",["uuid","00000000-0000-0000-0000-000000000004"]]]}"#;

#[tokio::test]
async fn a_cloud_is_made_repaired_changed_and_removed() {
    for version in VERSIONS {
        let mut run = Run::new(version);
        run.target.database().transact(FOREIGN).unwrap();
        run.settle(&cloud(&[(4, "p4"), (5, "p5")])).await;

        run.target.database().transact(MEDDLE).unwrap();
        run.settle(&cloud(&[(4, "p4"), (5, "p5")])).await;
        let view = run.target.observe(Scope::Full).await.unwrap();
        let router = view.snapshot().get::<nb::LogicalRouter>(uuid(0x200)).unwrap();
        assert_eq!(router.policies, Set::from([Ref::new(uuid(0xf02))]), "{version}: somebody's policy stays");
        assert_eq!(router.options, ids([("theirs", "1")]));
        let switch = view.snapshot().get::<nb::LogicalSwitch>(uuid(0x100)).unwrap();
        assert_eq!(
            (switch.name.as_str(), switch.external_ids.get("junk").map(|v| &**v)),
            ("neutron-net", Some("1"))
        );

        run.settle(&cloud(&[(5, "p5-new"), (6, "p6")])).await;
        let view = run.target.observe(Scope::Full).await.unwrap();
        assert_eq!(view.snapshot().table::<nb::LogicalSwitchPort>().len(), 3, "two of ours and theirs");

        run.settle(&Desired::new()).await;
        let view = run.target.observe(Scope::Full).await.unwrap();
        let theirs = view.snapshot().get::<nb::LogicalSwitch>(uuid(0xf00)).unwrap();
        assert_eq!(theirs.ports, Set::from([Ref::new(uuid(0xf01))]));
        assert_eq!(theirs.external_ids, ids([("k", "v")]));
        assert_eq!(view.snapshot().table::<nb::LogicalSwitch>().len(), 1);
        assert_eq!(view.snapshot().table::<nb::LogicalRouter>().len(), 0);
        assert_eq!(view.snapshot().table::<nb::HaChassisGroup>().len(), 0);
        assert_eq!(view.snapshot().table::<nb::Bfd>().len(), 0);
        assert_eq!(view.snapshot().table::<nb::StaticMacBinding>().len(), 0);
    }
}

#[tokio::test]
async fn one_refused_object_does_not_stop_the_rest() {
    let mut run = Run::new("26.03");
    // "theirs" is taken: the server refuses the second port of that name at the end of the transaction.
    run.target.database().transact(FOREIGN).unwrap();
    let ports = [(4, "p4"), (5, "theirs"), (6, "p6"), (7, "p7")];
    let (plan, applied) = run.apply(&cloud(&ports)).await;
    for (step, result) in plan.steps.iter().zip(&applied.results) {
        let refused = step.object == object("port", 5);
        assert_eq!(matches!(result, StepResult::Failed(_)), refused, "{}: {result:?}", step.op);
        assert_eq!(matches!(result, StepResult::Done), !refused, "{}: {result:?}", step.op);
    }
    let left = run.plan(&cloud(&ports)).await;
    assert!(!left.is_empty());
    assert!(left.steps.iter().all(|step| step.object == object("port", 5)), "{left}");
    run.settle(&cloud(&[(4, "p4"), (5, "p5"), (6, "p6"), (7, "p7")])).await;
}

#[tokio::test]
async fn a_server_that_takes_no_changes_is_told_apart_from_a_bad_object() {
    let mut run = Run::new("26.03");
    run.settle(&cloud(&[(4, "p4")])).await;
    let plan = run.plan(&cloud(&[(4, "p4"), (5, "p5"), (6, "p6")])).await;
    run.target.database().become_backup();
    // It drops its connections first: until it is found again, nothing is refused.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let error = loop {
        match run.target.apply(&plan).await {
            Err(error) if error.class() == Class::Refused => break error,
            other => assert!(std::time::Instant::now() < limit, "{other:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert!(cause.is_some_and(|cause| cause.contains("read only")), "{error:?}");
}

/// The server would close the connection on a NUL, regardless of the rest of the transaction.
#[tokio::test]
async fn text_with_a_nul_fails_its_object_alone() {
    for version in VERSIONS {
        let mut run = Run::new(version);
        let (plan, applied) = run.apply(&cloud(&[(4, "p4"), (5, "p\0"), (6, "p6")])).await;
        assert!(applied.results.iter().all(|result| matches!(result, StepResult::Done)), "{applied:?}");
        let [problem] = &plan.problems[..] else { panic!("{:?}", plan.problems) };
        assert_eq!((&problem.object, problem.code.as_str()), (&object("port", 5), "unsupported"));
        let view = run.target.observe(Scope::Full).await.unwrap();
        assert_eq!(view.snapshot().table::<nb::LogicalSwitchPort>().len(), 2);
        // An existing row keeps its value.
        run.settle(&cloud(&[(4, "p4"), (5, "p5"), (6, "p6")])).await;
        let left = run.plan(&cloud(&[(4, "q\0"), (5, "p5"), (6, "p6")])).await;
        assert!(left.is_empty() && left.problems.len() == 1, "{left}");
    }
}

#[tokio::test]
async fn a_row_that_went_meanwhile_is_a_conflict_of_its_object() {
    let mut run = Run::new("26.03");
    run.settle(&cloud(&[(4, "p4")])).await;
    let plan = run.plan(&cloud(&[(4, "p4-new")])).await;
    let gone = r#"{"op":"mutate","table":"Logical_Switch","where":[],
        "mutations":[["ports","delete",["uuid","00000000-0000-0000-0000-000000000004"]]]}"#;
    run.target.database().transact(gone).unwrap();
    let applied = run.target.apply(&plan).await.unwrap();
    assert!(applied.results.iter().any(|result| matches!(result, StepResult::Failed(_))), "{applied:?}");
    run.settle(&cloud(&[(4, "p4-new")])).await;
}

#[tokio::test]
async fn only_the_holder_of_the_lock_writes() {
    let server = Server::start("26.03");
    let client = server.client();
    let mut target = RowTarget::new(server, Ownership::new("cloud"), Rules::northbound()).with_lock("writer");
    let want = cloud(&[(4, "p4")]);
    let have = target.observe(Scope::Full).await.unwrap();
    let plan = target.plan(&want, &BTreeSet::new(), &have);
    let error = target.apply(&plan).await.unwrap_err();
    assert_eq!(error.class(), reconcile::Class::Transient, "{error:?}");
    let mut lock = client.lock("writer").await;
    assert!(lock.held().await);
    let applied = target.apply(&plan).await.unwrap();
    assert!(applied.results.iter().all(|result| matches!(result, StepResult::Done)), "{applied:?}");
}
