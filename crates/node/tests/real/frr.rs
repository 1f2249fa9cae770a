//! FRR's stanzas on a real bgpd.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use node::frr::{self, Backend, Config, Desired, Frr, Observed, Redistribute};
use node::kernel;
use reconcile::Scope;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Daemon, eventually};

/// What an operator may have configured.
const OPERATORS: &str = "ip prefix-list only-host-prefixes permit 0.0.0.0/0 ge 32
router bgp 64999
 bgp router-id 172.30.1.1
 no bgp default ipv4-unicast
 neighbor uplink peer-group
 neighbor uplink remote-as external
 neighbor 100.64.1.0 peer-group uplink
 address-family ipv4 unicast
  redistribute connected
  neighbor uplink activate
  neighbor uplink prefix-list only-host-prefixes out
 exit-address-family
exit
";

/// How long a look may wait on a machine that has much else to do.
const PATIENT: Duration = Duration::from_secs(60);

/// A kernel without VRFs.
static NO_VRFS: LazyLock<Arc<kernel::Observed>> = LazyLock::new(Arc::default);

/// A kernel in which the VRF is there, and has an address on a device of its own.
fn with_vrf(addresses: &[&str]) -> Arc<kernel::Observed> {
    let link = |kind, master| kernel::SeenLink { index: 1, kind, up: true, master };
    let mut kernel = kernel::Observed::default();
    kernel.links.insert("bgp-vrf".into(), link(kernel::observed::Kind::Vrf(10), None));
    kernel.links.insert("bgp-nic".into(), link(kernel::observed::Kind::Dummy, Some("bgp-vrf".into())));
    for net in addresses {
        kernel.addresses.insert(kernel::Address { dev: "bgp-nic".into(), net: net.parse().unwrap() });
    }
    Arc::new(kernel)
}

fn want() -> Desired {
    Desired {
        asn: "64999".into(),
        vrf: "bgp-vrf".into(),
        router_id: None,
        redistribute: [Redistribute::Connected].into(),
    }
}

fn bgpd(dir: &Path, config: &str) -> Daemon {
    let at = |name: &str| dir.join(name).to_string_lossy().into_owned();
    fs::write(at("bgpd.conf"), config).unwrap();
    let socket = dir.to_string_lossy();
    // No port and no zebra: a configuration needs neither. -S leaves users and groups alone.
    let args = [
        "-S",
        "-p",
        "0",
        "-P",
        "0",
        "--vty_socket",
        &socket,
        "-i",
        &at("pid"),
        "-z",
        &at("zserv"),
        "-f",
        &at("bgpd.conf"),
    ];
    Daemon::start("/usr/lib/frr/bgpd", &args, dir)
}

fn open(dir: &TempDir, backend: Backend) -> Frr {
    Frr::open(Config { dir: dir.path().into(), backend, glance: PATIENT, ..Config::default() })
}

fn lines(want: &Desired, have: &Observed) -> Option<frr::Op> {
    let part = frr::plan::plan(want, have);
    let problems = part.problems.iter().filter(|problem| problem.code != NO_ZEBRA);
    assert!(problems.count() == 0 || part.steps.is_empty(), "{:?}", part.problems);
    part.steps.into_iter().next().map(|step| step.op)
}

/// These tests run bgpd alone, and so that is what the plan says.
const NO_ZEBRA: &str = "zebra-silent";

/// How many lines are to be entered.
fn lines_of(have: &Observed) -> usize {
    frr::plan::plan(&want(), have).steps.into_iter().map(|step| step.op.lines.len()).sum()
}

async fn answers(frr: &mut Frr) -> Arc<Observed> {
    eventually("bgpd answers", async || {
        let have = frr.observe(Scope::Full, &NO_VRFS).await;
        matches!(&*have, Observed::Bgpd(state) if !state.tree.is_empty()).then_some(have)
    })
    .await
}

/// Enters what is missing; how many lines that was.
async fn reconcile(frr: &mut Frr, want: &Desired) -> usize {
    let have = answers(frr).await;
    let Some(op) = lines(want, &have) else { return 0 };
    frr.apply(&op).await.unwrap();
    let have = frr.observe(Scope::Cached, &NO_VRFS).await;
    assert_eq!(lines(want, &have), None, "all was entered");
    op.lines.len()
}

fn text(have: &Observed) -> Vec<String> {
    fn walk(nodes: &[frr::config::Node], path: &str, out: &mut Vec<String>) {
        for node in nodes {
            out.push(format!("{path}{}", node.line));
            walk(&node.children, &format!("{path}{} / ", node.line), out);
        }
    }
    let Observed::Bgpd(state) = have else { panic!("{have:?}") };
    let mut out = Vec::new();
    walk(&state.tree, "", &mut out);
    out
}

#[tokio::test]
async fn the_leak_is_entered_once_beside_the_operators_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), OPERATORS);
    let mut frr = open(&dir, Backend::Vty);
    let before = answers(&mut frr).await;
    assert!(reconcile(&mut frr, &want()).await > 0);
    assert_eq!(reconcile(&mut frr, &want()).await, 0);
    let after = text(&*frr.observe(Scope::Full, &NO_VRFS).await);
    for line in text(&before) {
        assert!(after.contains(&line), "lost {line:?}");
    }
    for line in [
        "router bgp 64999 / address-family ipv4 unicast / import vrf bgp-vrf",
        "router bgp 64999 / address-family ipv6 unicast / import vrf bgp-vrf",
        "router bgp 64999 vrf bgp-vrf / bgp router-id 172.30.1.1",
        "router bgp 64999 vrf bgp-vrf / address-family ipv4 unicast / redistribute connected",
        "router bgp 64999 vrf bgp-vrf / address-family ipv6 unicast / redistribute connected",
    ] {
        assert!(after.iter().any(|there| there == line), "no {line:?} in {after:#?}");
    }
}

#[tokio::test]
async fn subnets_are_redistributed_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), OPERATORS);
    let mut frr = open(&dir, Backend::Vty);
    let both =
        Desired { redistribute: Redistribute::ALL.into(), router_id: Some([1, 2, 3, 4].into()), ..want() };
    assert!(reconcile(&mut frr, &both).await > 0);
    assert!(text(&*answers(&mut frr).await).iter().any(|line| line.ends_with("/ redistribute kernel")));
    assert!(
        text(&*answers(&mut frr).await)
            .iter()
            .any(|line| line.ends_with("vrf bgp-vrf / bgp router-id 1.2.3.4"))
    );
    assert!(reconcile(&mut frr, &want()).await > 0);
    assert!(!text(&*answers(&mut frr).await).iter().any(|line| line.ends_with("/ redistribute kernel")));
}

#[tokio::test]
async fn a_bgpd_without_configuration_gets_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), "");
    assert!(reconcile(&mut open(&dir, Backend::Vty), &want()).await > 0);
}

/// The summary of a bgpd that has no neighbours tells no router id, its list of instances does.
#[tokio::test]
async fn the_router_id_is_found_without_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), "router bgp 64999\n bgp router-id 172.30.1.7\nexit\n");
    let mut frr = open(&dir, Backend::Vty);
    assert!(reconcile(&mut frr, &want()).await > 0);
    let there = text(&*answers(&mut frr).await);
    let line = "router bgp 64999 vrf bgp-vrf / bgp router-id 172.30.1.7";
    assert!(there.iter().any(|have| have == line), "no {line:?} in {there:#?}");
}

#[tokio::test]
async fn vtysh_does_it_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), OPERATORS);
    answers(&mut open(&dir, Backend::Vty)).await;
    let mut frr = open(&dir, Backend::Vtysh);
    assert!(reconcile(&mut frr, &want()).await > 0);
    assert_eq!(reconcile(&mut open(&dir, Backend::Vty), &want()).await, 0, "the socket shows the same");
}

#[tokio::test]
async fn a_restart_is_noticed_and_the_leak_entered_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = bgpd(dir.path(), OPERATORS);
    let mut frr = open(&dir, Backend::Vty);
    reconcile(&mut frr, &want()).await;
    let mut changes = frr.changes();
    let changed = async |changes: &mut tokio::sync::watch::Receiver<u64>| {
        tokio::time::timeout(crate::support::PATIENCE, changes.changed()).await.expect("noticed").unwrap();
    };
    // The follower may have been slow to find the first bgpd.
    eventually("bgpd is followed", async || (*changes.borrow_and_update() > 0).then_some(())).await;
    daemon.kill();
    changed(&mut changes).await;
    assert!(matches!(&*frr.observe(Scope::Cached, &NO_VRFS).await, Observed::Silent(_)));
    let _daemon = bgpd(dir.path(), OPERATORS);
    changed(&mut changes).await;
    assert!(reconcile(&mut frr, &want()).await > 0);
}

#[tokio::test]
async fn another_autonomous_system_is_refused_before_anything_is_entered() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), OPERATORS);
    let have = answers(&mut open(&dir, Backend::Vty)).await;
    let part = frr::plan::plan(&Desired { asn: "65001".into(), ..want() }, &have);
    assert_eq!((part.steps.len(), part.problems[0].code.as_str()), (0, "another-as"));
}

#[tokio::test]
async fn a_line_that_bgpd_refuses_is_told_with_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), OPERATORS);
    let mut frr = open(&dir, Backend::Vty);
    answers(&mut frr).await;
    let error = frr.apply(&frr::Op { lines: vec!["router bgp 65001".into()] }).await.unwrap_err();
    assert!(error.to_string().contains("BGP is already running; AS is 64999"), "{error}");
}

/// A bgpd without zebra never hears of a VRF, so its instance is not tied to one that is there.
#[tokio::test]
async fn an_instance_that_does_not_hear_of_its_vrf_is_made_anew_and_keeps_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let _bgpd = bgpd(dir.path(), OPERATORS);
    let mut frr = open(&dir, Backend::Vty);
    reconcile(&mut frr, &want()).await;
    let more = ["router bgp 64999 vrf bgp-vrf", "neighbor 10.9.9.9 remote-as 1", "neighbor 10.9.9.9 passive"];
    frr.apply(&frr::Op { lines: more.map(String::from).into() }).await.unwrap();
    let mut changes = frr.changes();
    let vrfs = with_vrf(&[]);
    let adrift = |have: &Observed| {
        let problems = frr::plan::plan(&want(), have).problems;
        problems.iter().filter(|problem| problem.code == "leak-stuck").count()
    };
    let before = frr.observe(Scope::Cached, &vrfs).await;
    assert_eq!((adrift(&before), lines_of(&before)), (0, 0), "zebra has its time to tell bgpd");
    // A reason to look again comes by itself.
    let op = eventually("it is made anew", async || {
        tokio::time::timeout(crate::support::PATIENCE, changes.changed()).await.expect("told").unwrap();
        let have = frr.observe(Scope::Cached, &vrfs).await;
        let step = frr::plan::plan(&want(), &have).steps.into_iter().next()?;
        Some(step.op)
    })
    .await;
    assert!(op.lines.iter().any(|line| line == "no router bgp 64999 vrf bgp-vrf"), "{op}");
    frr.apply(&op).await.unwrap();
    let after = frr.observe(Scope::Cached, &vrfs).await;
    assert_eq!(text(&after), text(&before));
    assert_eq!((adrift(&after), lines_of(&after)), (1, 0), "it is told, and not done again at once");
}

/// A stand-in for bgpd, for what no real one does when told to: it says what `answer` makes of each command.
fn stand_in(dir: &Path, answer: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static) {
    let listener = tokio::net::UnixListener::bind(dir.join("bgpd.vty")).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut command = Vec::new();
                while let Ok(byte) = stream.read_u8().await {
                    if byte != 0 {
                        command.push(byte);
                        continue;
                    }
                    let _ = stream.write_all(&answer(&String::from_utf8_lossy(&command))).await;
                    command.clear();
                }
            });
        }
    });
}

/// A bgpd that has just come, to which `vtysh -b` still tells its configuration: a stand-in whose configuration has one line more
/// each time it is read, which no timing on a loaded machine can promise of a real one.
#[tokio::test]
async fn a_bgpd_that_comes_is_left_alone_until_its_configuration_stands_still() {
    const LINES: usize = 5;
    let dir = tempfile::tempdir().unwrap();
    let frr = open(&dir, Backend::Vty);
    let mut changes = frr.changes();
    // Long enough for the follower to have missed it once.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let read = Arc::new(AtomicUsize::new(0));
    let counted = read.clone();
    stand_in(dir.path(), move |command| match command {
        "show running-config" => {
            let lines = LINES.min(counted.fetch_add(1, Ordering::SeqCst) + 1);
            [OPERATORS.lines().take(lines).collect::<Vec<_>>().join("\n").as_bytes(), b"\0\0\0\0"].concat()
        }
        _ => b"\0\0\0\0".to_vec(),
    });
    tokio::time::timeout(crate::support::PATIENCE, changes.changed()).await.expect("noticed").unwrap();
    // The last line shows at the fifth read; it must read the same twice more.
    assert_eq!(read.load(Ordering::SeqCst), LINES + 2);
}

/// A bgpd that has given its commands away to another daemon, as newer FRR does with one part after the other: it is a stand-in,
/// since no released bgpd has given away these. What it does not know goes through vtysh, which finds the daemon that does.
#[tokio::test]
async fn what_bgpd_does_not_know_goes_through_vtysh() {
    let dir = tempfile::tempdir().unwrap();
    stand_in(dir.path(), |command| match command {
        "enable" | "configure terminal" | "end" | "show running-config" | "show bgp vrfs json" => {
            b"\0\0\0\0".to_vec()
        }
        _ => b"% Unknown command\n\0\0\0\x02".to_vec(),
    });
    let vtysh = dir.path().join("vtysh");
    let script = "#!/bin/sh\nhere=$(dirname \"$0\")\necho \"$1 $2 $3\" >\"$here/asked\"\ncp \"$4\" \"$here/entered\"\n";
    fs::write(&vtysh, script).unwrap();
    fs::set_permissions(&vtysh, fs::Permissions::from_mode(0o755)).unwrap();
    let mut frr = Frr::open(Config { dir: dir.path().into(), vtysh, glance: PATIENT, ..Config::default() });
    let have = frr.observe(Scope::Full, &NO_VRFS).await;
    let op = lines(&want(), &have).expect("an empty configuration lacks everything");
    frr.apply(&op).await.unwrap();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("asked"), format!("--vty_socket {} -f\n", dir.path().display()));
    assert_eq!(read("entered").lines().collect::<Vec<_>>(), op.lines);
}

/// A bgpd that hangs after it has answered once: who looks is told what it said last, and it is not asked again meanwhile.
#[tokio::test]
async fn a_bgpd_that_hangs_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (asked, hangs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, hung) = (asked.clone(), hangs.clone());
    stand_in(dir.path(), move |command| match command {
        "show running-config" => {
            counted.fetch_add(1, Ordering::SeqCst);
            match hung.load(Ordering::SeqCst) {
                0 => [OPERATORS.as_bytes(), b"\0\0\0\0"].concat(),
                _ => Vec::new(),
            }
        }
        _ => b"\0\0\0\0".to_vec(),
    });
    let mut frr =
        Frr::open(Config { dir: dir.path().into(), glance: Duration::from_millis(50), ..Config::default() });
    let said = eventually("it answers", async || {
        let have = frr.observe(Scope::Full, &NO_VRFS).await;
        matches!(&*have, Observed::Bgpd(_)).then_some(have)
    })
    .await;
    hangs.store(1, Ordering::SeqCst);
    let before = asked.load(Ordering::SeqCst);
    for _ in 0..5 {
        assert_eq!(frr.observe(Scope::Full, &NO_VRFS).await, said);
    }
    assert_eq!(asked.load(Ordering::SeqCst), before + 1, "one question at a time");
    let mut late = frr.late_answers();
    tokio::time::timeout(crate::support::PATIENCE, late.changed()).await.expect("it is told").unwrap();
    assert!(
        matches!(&*frr.observe(Scope::Cached, &NO_VRFS).await, Observed::Silent(why) if why.contains("wait 10 s"))
    );
}

/// A bgpd that hangs while it is told something: the loop is not kept waiting, nothing else is entered meanwhile, and it is told when
/// that has ended.
#[tokio::test]
async fn a_change_that_bgpd_does_not_take_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    stand_in(dir.path(), move |command| match command {
        "configure terminal" => {
            counted.fetch_add(1, Ordering::SeqCst);
            Vec::new()
        }
        _ => b"\0\0\0\0".to_vec(),
    });
    let mut frr =
        Frr::open(Config { dir: dir.path().into(), glance: Duration::from_millis(50), ..Config::default() });
    let (answering, mut late) = (frr.answering(), frr.late_answers());
    let op = frr::Op { lines: vec!["router bgp 64999".into()] };
    for _ in 0..5 {
        let error = frr.apply(&op).await.unwrap_err();
        assert!(matches!(error, frr::VtyError::UnderWay), "{error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one change at a time");
    assert!(answering.borrow().open_since.is_some(), "and its age is known");
    tokio::time::timeout(crate::support::PATIENCE, late.changed()).await.expect("it is told").unwrap();
    assert!(answering.borrow().open_since.is_none());
}
