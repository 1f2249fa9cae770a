//! What the agent makes of the Northbound is what ovn-northd writes to the Southbound, as far as decisions look at it; and the
//! agent on a real Northbound server over TLS.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use central::{Central, Database};
use node::bgp::config::Config;
use node::bgp::northbound::chassis::Own;
use node::bgp::northbound::{Mirror, model, tells_gateways};
use node::bgp::snapshot::southbound_model;
use node::connections::{DatabaseSettings, OvnDatabase};
use ovn::PortType;
use ovn::sb::{Chassis, DatapathBinding, DatapathType, LoadBalancer, LogicalDpGroup, PortBinding};
use ovn::text::NatAddresses;
use ovsdb::session::Progress;
use ovsdb::{Client, ClientConfig, Snapshot, Uuid};

use crate::agent;
use crate::support::{Daemon, eventually, run};

/// Every kind of row that decisions look at, in each shape that there is.
const CLOUD: &str = r#"
    ls-add pub -- lsp-add pub provnet-1 -- lsp-set-type provnet-1 localnet -- lsp-set-addresses provnet-1 unknown
    -- lsp-set-options provnet-1 network_name=physnet1
    -- ls-add vlan -- lsp-add vlan provnet-2 -- lsp-set-type provnet-2 localnet -- lsp-set-addresses provnet-2 unknown
    -- lsp-set-options provnet-2 network_name=physnet1 -- set Logical_Switch_Port provnet-2 tag=100
    -- ls-add ten -- ls-add ten2
    -- lsp-add pub vm1 -- lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10 2001:db8::10' unknown
    -- set Logical_Switch_Port vm1 'external_ids:"neutron:host_id"=host-a' 'external_ids:"meridian:advertise"="false"'
    -- lsp-add ten vm2 -- lsp-set-addresses vm2 'fa:16:3e:00:00:02 10.1.0.5'
    -- set Logical_Switch_Port vm2 'external_ids:"neutron:host_id"=host-b' options:requested-chassis=ch-b
    -- lsp-add ten vm3 -- lsp-set-addresses vm3 unknown
    -- set Logical_Switch_Port vm3 'external_ids:"neutron:cidrs"="10.1.0.7/24 fd00::7/64"' 'external_ids:"neutron:host_id"=host-a'
    -- lsp-add pub vip -- lsp-set-type vip virtual -- lsp-set-addresses vip 'fa:16:3e:00:00:77 172.24.4.77'
    -- lsp-set-options vip virtual-ip=172.24.4.77 virtual-parents=vm1
    -- lr-add r1 -- lrp-add r1 lrp-gw1 fa:16:3e:aa:00:01 172.24.4.221/24 2001:db8::221/64
    -- lsp-add pub gw1 -- lsp-set-type gw1 router -- lsp-set-addresses gw1 router
    -- lsp-set-options gw1 router-port=lrp-gw1 nat-addresses=router exclude-lb-vips-from-garp=true
    -- lrp-set-gateway-chassis lrp-gw1 ch-a 2 -- lrp-set-gateway-chassis lrp-gw1 ch-b 1
    -- lrp-add r1 lrp-sub1 fa:16:3e:aa:00:02 10.1.0.1/24 fd00::1/64
    -- lsp-add ten sub1 -- lsp-set-type sub1 router -- lsp-set-addresses sub1 router -- lsp-set-options sub1 router-port=lrp-sub1
    -- set Logical_Switch_Port sub1 'external_ids:"neutron:subnet_pool_addr_scope4"=S1'
    -- lrp-add r1 lrp-nowhere fa:16:3e:aa:00:03 10.3.0.1/24
    -- lr-nat-add r1 dnat_and_snat 172.24.4.199 10.1.0.5 vm2 fa:16:3e:ff:00:01
    -- lr-nat-add r1 dnat_and_snat 172.24.4.198 10.1.0.7
    -- lr-nat-add r1 dnat_and_snat 2001:db8::198 fd00::7
    -- lr-nat-add r1 snat 172.24.4.221 10.1.0.0/24
    -- lr-add r2 -- lrp-add r2 lrp-gw2 fa:16:3e:bb:00:01 172.24.4.222/24 -- lrp-set-gateway-chassis lrp-gw2 ch-a 1
    -- lsp-add pub gw2 -- lsp-set-type gw2 router -- lsp-set-addresses gw2 router
    -- lsp-set-options gw2 router-port=lrp-gw2 nat-addresses=router
    -- lrp-add r2 lrp-gw3 fa:16:3e:bb:00:02 172.25.0.222/24 -- lrp-set-gateway-chassis lrp-gw3 ch-b 1
    -- lsp-add vlan gw3 -- lsp-set-type gw3 router -- lsp-set-addresses gw3 router
    -- lsp-set-options gw3 router-port=lrp-gw3 nat-addresses=router
    -- lr-add r3 -- set Logical_Router r3 options:chassis=ch-a -- lrp-add r3 lrp-gw4 fa:16:3e:cc:00:01 172.24.4.230/24
    -- lsp-add pub gw4 -- lsp-set-type gw4 router -- lsp-set-addresses gw4 router
    -- lsp-set-options gw4 router-port=lrp-gw4 nat-addresses=router
    -- lr-nat-add r3 snat 172.24.4.231 10.4.0.0/24
    -- lr-add r4 -- lrp-add r4 lrp-gw5 fa:16:3e:dd:00:01 172.24.4.240/24 -- lrp-set-gateway-chassis lrp-gw5 ch-a 1
    -- lsp-add pub gw5 -- lsp-set-type gw5 router -- lsp-set-addresses gw5 router
    -- lsp-set-options gw5 router-port=lrp-gw5 'nat-addresses=fa:16:3e:dd:00:01 172.24.4.241'
    -- lrp-add r4 lrp-sub5 fa:16:3e:dd:00:02 172.25.0.1/24 -- set Logical_Router_Port lrp-sub5 options:reside-on-redirect-chassis=true
    -- lsp-add vlan sub5 -- lsp-set-type sub5 router -- lsp-set-addresses sub5 router -- lsp-set-options sub5 router-port=lrp-sub5
    -- lr-add r5 -- set Logical_Router r5 enabled=false -- lrp-add r5 lrp-off fa:16:3e:ee:00:01 172.24.4.250/24
    -- lb-add lb1 172.24.4.50:80 10.1.0.5:80 -- ls-lb-add pub lb1 -- ls-lb-add ten lb1 -- lr-lb-add r2 lb1
    -- lb-add lb2 192.0.2.50:80 10.1.0.5:80 -- ls-lb-add ten2 lb2
    -- lb-add nowhere 192.0.2.51:80 10.1.0.5:80
    -- --id=@lb create Load_Balancer name=lb3 'vips:"192.0.2.52"="10.1.0.9"'
    -- --id=@group create Load_Balancer_Group name=all load_balancer=@lb
    -- add Logical_Switch ten load_balancer_group @group"#;

/// These look for rows that are there.
const TRANSLATIONS: &str = "--gateway-port=lrp-gw2 lr-nat-add r2 dnat_and_snat 172.24.4.60 10.2.0.5
    -- --gateway-port=lrp-gw3 lr-nat-add r2 dnat_and_snat 172.25.0.60 10.2.0.6";

/// A port binding in the words that decisions read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Port {
    kind: String,
    datapath: Option<Uuid>,
    mac: BTreeSet<String>,
    tag: Option<i64>,
    options: BTreeMap<String, String>,
    external_ids: BTreeMap<String, String>,
    /// Each address with its Ethernet address and who answers for it.
    announced: BTreeSet<String>,
    chassis: Option<String>,
}

/// The rows of either kind; `logical` gives the Northbound row of a datapath.
fn ports(rows: &Snapshot, logical: impl Fn(Uuid) -> Option<Uuid>, gateways: bool) -> BTreeMap<String, Port> {
    let one = |port: &PortBinding| {
        let options = ["peer", "distributed-port", "chassis-redirect-port", "network_name"];
        let options =
            options.iter().filter_map(|key| Some((key.to_string(), port.options.get(*key)?.to_string())));
        let ids = port.external_ids.iter().filter(|(key, _)| key.contains(':'));
        let entry = |entry: &NatAddresses| -> Vec<String> {
            let NatAddresses::Announce { mac, resident, .. } = entry else { return Vec::new() };
            entry.ips().map(|ip| format!("{mac} {ip} {resident:?}")).collect()
        };
        // Where gateways are is told by OVN 23.09; where routers of one chassis are, by ovn-controllers that run.
        let placed = match port.kind {
            PortType::ChassisRedirect => gateways,
            PortType::L3Gateway => false,
            _ => true,
        };
        let chassis = port.chassis.filter(|_| placed && port.up != Some(false));
        Port {
            kind: port.kind.to_string(),
            datapath: logical(port.datapath.uuid()),
            mac: port.mac.iter().map(ToString::to_string).collect(),
            tag: port.tag,
            options: options.collect(),
            external_ids: ids.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            announced: port.nat_addresses.iter().filter_map(|text| text.value()).flat_map(entry).collect(),
            chassis: chassis.and_then(|row| Some(rows.get::<Chassis>(row.uuid())?.name.to_string())),
        }
    };
    rows.table::<PortBinding>().iter().map(|(_, port)| (port.logical_port.to_string(), one(port))).collect()
}

/// The switches of each load balancer: before OVN 24.03 its routers are not told.
fn balancers(
    rows: &Snapshot,
    logical: impl Fn(Uuid) -> Option<(DatapathType, Uuid)>,
) -> BTreeMap<String, BTreeSet<Uuid>> {
    let switches = |balancer: &LoadBalancer| {
        let groups = [balancer.datapath_group, balancer.ls_datapath_group].into_iter().flatten();
        let groups = groups.filter_map(|group| rows.get::<LogicalDpGroup>(group));
        let grouped = groups.flat_map(|group| group.datapaths.iter().map(|datapath| datapath.uuid()));
        let all = balancer.datapaths.iter().map(|datapath| datapath.uuid()).chain(grouped);
        all.filter_map(&logical)
            .filter(|(kind, _)| *kind == DatapathType::LogicalSwitch)
            .map(|(_, row)| row)
            .collect()
    };
    rows.table::<LoadBalancer>().iter().map(|(_, row)| (row.name.to_string(), switches(row))).collect()
}

#[tokio::test]
async fn the_northbound_is_read_as_northd_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let central = Central::start(dir.path()).unwrap();
    let (nb, sb) = (central.remote(Database::Northbound), central.remote(Database::Southbound));
    let shell = |command: &str| run("sh", &["-c", &command.replace('\n', " ")], dir.path());
    shell(&format!(
        "ovn-sbctl --db={sb} chassis-add ch-a geneve 127.0.0.1 -- chassis-add ch-b geneve 127.0.0.2 \
         -- set Chassis ch-a hostname=host-a -- set Chassis ch-b hostname=host-b"
    ));
    shell(&format!("ovn-nbctl --db={nb} --wait=sb {CLOUD}"));
    shell(&format!("ovn-nbctl --db={nb} --wait=sb {TRANSLATIONS}"));
    shell(&format!(
        "ovn-sbctl --db={sb} lsp-bind vm1 ch-a -- lsp-bind vm2 ch-b -- lsp-bind cr-lrp-gw1 ch-a -- lsp-bind cr-lrp-gw3 ch-b"
    ));
    let open = |remote: &str, model| Client::open(ClientConfig::new(remote.parse().unwrap()), model);
    let (northbound, southbound) = (open(&nb, model()), open(&sb, southbound_model()));
    northbound.synced().await.unwrap();
    southbound.synced().await.unwrap();
    let own = Own { system_id: "ch-a".into(), hostname: "host-a".into() };
    let mut mirror = Mirror::of_everything(own.clone());
    let looks = async |mirror: &mut Mirror, vm1: Option<&str>| {
        let both = async || {
            let (north, south) = (northbound.snapshot(), southbound.snapshot());
            let made = mirror.look(&north, &own);
            let logical = |row: Uuid| south.get::<DatapathBinding>(row)?.logical();
            let gateways = tells_gateways(&north);
            let written = ports(&south, |row| Some(logical(row)?.1), gateways);
            let mut made_ports = ports(&made, Some, gateways);
            // Ours are by host where a port tells its host.
            for port in made_ports.values_mut() {
                port.chassis = port.chassis.take().map(|name| name.replace("host-", "ch-"));
            }
            let at = |ports: &BTreeMap<String, Port>| ports.get("vm1").and_then(|port| port.chassis.clone());
            let settled = at(&written).as_deref() == vm1 && at(&made_ports).as_deref() == vm1;
            let is_switch = |row: Uuid| {
                north.get::<ovn::nb::LogicalSwitch>(row).map(|_| (DatapathType::LogicalSwitch, row))
            };
            let all_balancers = balancers(&south, logical);
            let mut made_balancers = balancers(&made, is_switch);
            made_balancers.retain(|_, switches| !switches.is_empty());
            settled.then_some((written, made_ports, all_balancers, made_balancers))
        };
        eventually("northd tells where vm1 is", both).await
    };
    let (written, made, written_balancers, made_balancers) = looks(&mut mirror, Some("ch-a")).await;
    assert_eq!(names(&made), names(&written));
    for (name, port) in &written {
        assert_eq!(made.get(name), Some(port), "{name}");
    }
    assert!(
        written["gw1"].announced.len() >= 3 && written["gw4"].announced.len() >= 2,
        "there is something to compare"
    );
    assert_eq!(made_balancers, written_balancers);
    assert_eq!(made_balancers.len(), 3);

    // It is followed, too: ports, a link and a translation go.
    shell(&format!(
        "ovn-nbctl --db={nb} --wait=sb lsp-del vm3 -- lrp-del lrp-sub5 -- lsp-del sub5 -- lr-nat-del r1 dnat_and_snat 172.24.4.198"
    ));
    shell(&format!("ovn-sbctl --db={sb} lsp-unbind vm1"));
    let (written, made, ..) = looks(&mut mirror, None).await;
    assert_eq!(made, written);
}

fn names(ports: &BTreeMap<String, Port>) -> Vec<&str> {
    ports.keys().map(String::as_str).collect()
}

/// The schema of a newer OVN than the installed one, which does not tell where gateways are.
const NEWER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ovn/testdata/schema/ovn-nb-26.03.json");

/// A Northbound server with TLS, on a database that it finds or makes, and its remote.
async fn tls_server(dir: &Path) -> (Daemon, String) {
    let at = |name: &str| dir.join(name).display().to_string();
    if !dir.join("nb.db").exists() {
        run("ovsdb-tool", &["create", &at("nb.db"), NEWER], dir);
    }
    let log = dir.join("nb.log");
    let _ = std::fs::remove_file(&log);
    let more = ["--remote=punix:nb.sock".to_owned(), "--remote=pssl:0:127.0.0.1".to_owned()];
    let rest = [
        format!("--unixctl={}", at("nb.ctl")),
        format!("--log-file={}", log.display()),
        "-vconsole:off".to_owned(),
    ];
    let args: Vec<String> =
        more.into_iter().chain(rest).chain(agent::of_server(dir)).chain([at("nb.db")]).collect();
    let args: Vec<&str> = args.iter().map(|arg| arg.as_str()).collect();
    let server = Daemon::start("ovsdb-server", &args, dir);
    let remote = agent::remote(&log).await;
    (server, remote)
}

fn nbctl(dir: &Path, words: &str) {
    let db = dir.join("nb.sock");
    let command = format!("ovn-nbctl --timeout=60 --db=unix:{} {}", db.display(), words.replace('\n', " "));
    run("sh", &["-c", &command], dir);
}

/// A gateway here with a tenant network behind it, a VM here and one elsewhere.
const SITE: &str = r#"init -- ls-add pub -- lsp-add pub provnet-1 -- lsp-set-type provnet-1 localnet
    -- lsp-set-addresses provnet-1 unknown -- lsp-set-options provnet-1 network_name=physnet1
    -- ls-add ten -- lr-add r1 -- lrp-add r1 lrp-gw1 fa:16:3e:aa:00:01 172.24.4.221/24
    -- lrp-set-gateway-chassis lrp-gw1 ch-a 2
    -- lsp-add pub gw1 -- lsp-set-type gw1 router -- lsp-set-addresses gw1 router -- lsp-set-options gw1 router-port=lrp-gw1
    -- lrp-add r1 lrp-sub1 fa:16:3e:aa:00:02 10.1.0.1/24
    -- lsp-add ten sub1 -- lsp-set-type sub1 router -- lsp-set-addresses sub1 router -- lsp-set-options sub1 router-port=lrp-sub1
    -- lsp-add pub vm1 -- lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10' -- set Logical_Switch_Port vm1 up=true
    -- set Logical_Switch_Port vm1 'external_ids:"neutron:host_id"=host-a'
    -- lsp-add ten vm2 -- lsp-set-addresses vm2 'fa:16:3e:00:00:02 10.1.0.5' -- set Logical_Switch_Port vm2 up=true
    -- set Logical_Switch_Port vm2 'external_ids:"neutron:host_id"=host-b'"#;

#[tokio::test]
async fn scenario_37_the_agent_on_a_northbound_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    agent::certificates(dir.path());
    let (mut server, remote) = tls_server(dir.path()).await;
    nbctl(dir.path(), SITE);
    // As a newer ovn-northd does; the installed ovn-nbctl does not know the column.
    let hosted = r#"["OVN_Northbound", {"op": "update", "table": "Logical_Router_Port", "where": [["name", "==", "lrp-gw1"]],
        "row": {"status": ["map", [["hosting-chassis", "ch-a"]]]}}]"#;
    let said = run(
        "ovsdb-client",
        &["transact", &format!("unix:{}/nb.sock", dir.path().display()), hosted],
        dir.path(),
    );
    assert_eq!(said, "[{\"count\":1}]\n");
    // The switch tells where the database is, and what this host is called.
    let (_vswitch, local) = agent::vswitch(dir.path(), &[("ovn-nb-remote", &remote), ("hostname", "host-a")]);
    let config = |ca: &Path| Config {
        source: OvnDatabase::Northbound,
        expose_tenant_networks: true,
        ovsdb_connection: Some(local.parse().unwrap()),
        nb: DatabaseSettings { ca_cert: ca.to_owned(), ..agent::identity(dir.path()) },
        ..Config::default()
    };

    // A server whose certificate another authority signed is not spoken to.
    let (wary, announced) = agent::start(config(&dir.path().join("pki/controllerca/cacert.pem")));
    eventually("the agent doubts the server", async || {
        let database = wary.databases().into_iter().nth(1)?;
        let why = database.status().borrow().last_close.clone()?;
        why.to_string().contains("certificate").then_some(())
    })
    .await;
    assert_eq!(announced.history().len(), 0);
    wary.stop().await;
    // Nor is one, where names count, that is reached by another name than its certificate has.
    let mut strict = config(&dir.path().join("pki/switchca/cacert.pem"));
    strict.nb.verify_names = true;
    let (strict, announced) = agent::start(strict);
    eventually("the agent doubts the name", async || {
        let database = strict.databases().into_iter().nth(1)?;
        let why = database.status().borrow().last_close.clone()?;
        why.to_string().contains("is for another name").then_some(())
    })
    .await;
    assert_eq!(announced.history().len(), 0);
    strict.stop().await;

    let (agent, announced) = agent::start(config(&dir.path().join("pki/switchca/cacert.pem")));
    announced.becomes(&["172.24.4.221", "172.24.4.10", "10.1.0.5"]).await;
    let database = &agent.databases()[1];
    assert_eq!(database.database(), "OVN_Northbound");
    assert!(
        database
            .status()
            .borrow()
            .remote
            .as_ref()
            .is_some_and(|remote| remote.to_string().starts_with("ssl:"))
    );
    let plan = agent.handle().plan().await.unwrap();
    assert!(plan.steps.is_empty() && plan.want == plan.have, "{plan:?}");
    for (ip, words) in [
        ("172.24.4.10", "D1: port vm1 of a provider network is bound here"),
        ("10.1.0.5", "D5: port vm2"),
        ("192.0.2.1", "Nothing in OVN's Northbound database has it"),
    ] {
        let told = agent.explain(ip.parse().unwrap()).await.unwrap().to_string();
        assert!(told.contains(words), "{words:?} is missing in {told}");
    }

    // The server goes, and comes back elsewhere with other rows: until then all stays as it is.
    server.kill();
    eventually("the agent knows that the database is gone", async || {
        (database.status().borrow().progress != Progress::Synced).then_some(())
    })
    .await;
    let (_server, remote) = tls_server(dir.path()).await;
    nbctl(dir.path(), "set Logical_Switch_Port vm1 up=false");
    let tell = format!("external_ids:ovn-nb-remote=\"{remote}\"");
    run("ovs-vsctl", &[&format!("--db={local}"), "--no-wait", "set", "open_vswitch", ".", &tell], dir.path());
    announced.becomes(&["172.24.4.221", "10.1.0.5"]).await;
    assert_eq!(announced.history().len(), 2, "nothing was withdrawn meanwhile: {:?}", announced.history());
    agent.stop().await;
}
