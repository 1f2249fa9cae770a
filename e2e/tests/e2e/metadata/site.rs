//! Two chassis with the metadata agent and its proxy, two networks with the same addresses, and a Nova that checks signatures.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::Node;
use lab::node::chassis::Chassis;
use lab::process::{Daemon, Recipe};
use lab::{Lab, Topology, chassis, eventually};
use ovn::PortType;
use ovn::sb;
use ovn::text::Text;

pub(super) const A: &str = "aaaaaaaa-2222-3333-4444-555555555555";
pub(super) const B: &str = "bbbbbbbb-2222-3333-4444-555555555555";
pub(super) const SERVICE: &str = "169.254.169.254:80";
pub(super) const WITHIN: Duration = Duration::from_secs(60);
/// The user that runs the proxy.
const NOBODY: u32 = 65534;

/// A VM: its name, network, chassis, last byte, instance, and the signature of that with the secret `secret`.
pub(super) struct Vm(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) u8,
    pub(super) &'static str,
    &'static str,
);

pub(super) const VMS: [Vm; 4] = [
    Vm(
        "vma1",
        A,
        "hv1",
        11,
        "aaaaaaaa-0000-4000-8000-000000000001",
        "0c766b57f45e5612d6015ccf2fb2fe1045f14b420986e93c3f2f361e3db81f8a",
    ),
    Vm(
        "vma2",
        A,
        "hv2",
        12,
        "aaaaaaaa-0000-4000-8000-000000000002",
        "8ac7eb4bbef4406cb6afc568d47b081af718a35f23129fd8ca0279008cfe5b48",
    ),
    // The same address and the same chassis as the first, on another network.
    Vm(
        "vmb1",
        B,
        "hv1",
        11,
        "bbbbbbbb-0000-4000-8000-000000000001",
        "3ee46c7abf6318aea8899d9785af7853e03dc5cb68f6e7667ca8e914bb900e51",
    ),
    // A neighbour of the first one, with an address that no VM of the other network has.
    Vm(
        "vma3",
        A,
        "hv1",
        13,
        "aaaaaaaa-0000-4000-8000-000000000003",
        "9907deb85fe4430c0993c1621d15bb16a9ecabfd4da0d82fc25d86535f3beafc",
    ),
];

/// Instances of another test, with the signatures of their ids.
pub(super) const INSTANCES: [(&str, &str); 5] = [
    (
        "cccccccc-0000-4000-8000-000000000001",
        "e89db5c84c1dd4b7814a55286957a7cd3c4b8557c64497972d254dc166a277cb",
    ),
    (
        "cccccccc-0000-4000-8000-000000000002",
        "d8e5b18b0f860d9a3eca938cfc635303c6fd01904b99b974284eab2be9c63fff",
    ),
    (
        "cccccccc-0000-4000-8000-000000000003",
        "78c1d328390064b625905a5dcb1e17bccf4c337298ebee04b72ccfbd27ab97dc",
    ),
    (
        "cccccccc-0000-4000-8000-000000000004",
        "d99c64a4de03bcfc6656e0cf7b61fc67239e34563afd6a51a18de521e9130ce5",
    ),
    (
        "cccccccc-0000-4000-8000-000000000005",
        "5e8d84e4c5442000e0ae63394dd3469c5a9d5f174ce934c100d615a56097e179",
    ),
];

/// The requests that Nova has got, on all chassis.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The number of requests that Nova has got.
pub(super) fn asked() -> usize {
    ASKED.load(Ordering::SeqCst)
}

/// What listens in the namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Builtin,
    Haproxy,
}

/// Starts the topology with its VMs and agents, and runs a test in it.
pub(super) fn run(backend: Backend, test: impl FnOnce(&Lab) -> Result<()>) -> Result<()> {
    Topology::new().central("az1").chassis(chassis("hv1")).chassis(chassis("hv2")).run(|lab| {
        for hv in ["hv1", "hv2"] {
            nova(lab.chassis(hv)?)?;
            start(lab.chassis(hv)?, backend)?;
        }
        networks(lab)?;
        vms(lab, &["hv1", "hv2"])?;
        test(lab)
    })
}

/// Turns on the VMs of some chassis.
pub(super) fn vms(lab: &Lab, chassis: &[&str]) -> Result<()> {
    for Vm(name, network, hv, last, _, _) in VMS.iter().filter(|vm| chassis.contains(&vm.2)) {
        let vm = lab.vm(name).on(hv).mac(&mac(network, *last)).ip(&format!("10.0.0.{last}/24")).plug()?;
        vm.route("169.254.169.254/32".parse()?, "10.0.0.2".parse()?)?;
    }
    Ok(())
}

pub(super) fn mac(network: &str, last: u8) -> String {
    format!("02:00:00:00:{}:{last:02x}", &network[..2])
}

/// Both networks with their metadata ports, in OVN.
pub(super) fn networks(lab: &Lab) -> Result<()> {
    lab.central("az1")?.write(|net| {
        for network in [A, B] {
            let mut switch = net.switch(&format!("neutron-{network}")).port_with(
                &format!("md-{}", &network[..1]),
                |port| {
                    port.kind = PortType::Localport;
                    port.addresses.insert(Text::new(&format!("{} 10.0.0.2", mac(network, 2))));
                    for (key, value) in [
                        ("neutron:device_id", format!("ovnmeta-{network}")),
                        ("neutron:device_owner", "network:distributed".into()),
                        ("neutron:cidrs", "10.0.0.2/24".into()),
                        ("neutron:mtu", "1442".into()),
                    ] {
                        port.external_ids.insert(key.into(), value.into());
                    }
                },
            );
            for Vm(name, _, _, last, instance, _) in VMS.iter().filter(|vm| vm.1 == network) {
                switch = switch.port_with(name, |port| {
                    let addresses = format!("{} 10.0.0.{last} fd00::{last}", mac(network, *last));
                    port.addresses.insert(Text::new(&addresses));
                    let cidrs = format!("10.0.0.{last}/24 fd00::{last}/64");
                    for (key, value) in [
                        ("neutron:device_id", *instance),
                        ("neutron:device_owner", "compute:nova"),
                        ("neutron:project_id", "p1"),
                        ("neutron:cidrs", &cidrs),
                    ] {
                        port.external_ids.insert(key.into(), value.into());
                    }
                });
            }
        }
    })
}

/// Runs a command with the chassis' own `/run/netns`.
pub(super) fn on(hv: &Chassis, command: &str) -> Result<String> {
    hv.run(&format!("nsenter --mount={}/mounts/ns {command}", hv.dir().display()))
}

/// Starts the proxy, which is nobody's, and the agent of a chassis, which has a `/run/netns` of its own.
pub(super) fn start(hv: &Chassis, backend: Backend) -> Result<()> {
    let dir = hv.dir().display().to_string();
    fs::create_dir_all(format!("{dir}/mounts"))?;
    fs::create_dir_all(format!("{dir}/md"))?;
    fs::create_dir_all("/run/netns")?;
    fs::write(format!("{dir}/mounts/ns"), "")?;
    std::os::unix::fs::chown(format!("{dir}/md"), Some(NOBODY), Some(NOBODY))?;
    hv.run(&format!("mount --bind {dir}/mounts {dir}/mounts"))?;
    hv.run(&format!("mount --make-private {dir}/mounts"))?;
    hv.run(&format!(
        "unshare --mount={dir}/mounts/ns --propagation private mount -t tmpfs tmpfs /run/netns"
    ))?;
    configure(hv, backend)?;
    let path = format!("{dir}/metadata.ini");
    let proxy = Recipe::new("meridian").args(["metadata-proxy", "--config-file", &path]).user(NOBODY, NOBODY);
    hv.start("metadata-proxy", proxy)?;
    let mounts = format!("--mount={dir}/mounts/ns");
    let agent = Recipe::new("meridian").args(["metadata-agent", "--config-file", &path]);
    hv.start("metadata-agent", agent.under(["nsenter", &mounts]))?;
    Ok(())
}

/// Writes the configuration of agent and proxy.
pub(super) fn configure(hv: &Chassis, backend: Backend) -> Result<()> {
    let dir = hv.dir().display().to_string();
    let backend = match backend {
        Backend::Builtin => "builtin",
        Backend::Haproxy => "haproxy",
    };
    let config = format!(
        "[DEFAULT]
debug = true
state_path = {dir}/state
metadata_proxy_shared_secret = secret
[ovs]
ovsdb_connection = unix:{dir}/db.sock
[meridian_metadata]
control_socket = {dir}/md/control.sock
admin_socket = {dir}/metadata.sock
teardown_hold = 4
verify_source_mac = enforce
proxy_backend = {backend}
"
    );
    Ok(fs::write(format!("{dir}/metadata.ini"), config)?)
}

/// A Nova in the chassis' own network. It refuses what Nova refuses, and answers with the instance and the headers.
pub(super) fn nova(hv: &Chassis) -> Result<()> {
    let listener = hv.enter(|| TcpListener::bind("127.0.0.1:8775"))?.context("Nova cannot listen")?;
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || while answer(&stream).is_ok() {});
        }
    });
    Ok(())
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut lines = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_lowercase());
    }
    ASKED.fetch_add(1, Ordering::SeqCst);
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut sent = vec![0; length.unwrap_or(0)];
    lines.read_exact(&mut sent)?;
    let sent = String::from_utf8_lossy(&sent);
    let values = |name: &str| -> Vec<&str> {
        head.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
    };
    let asked_by_cloud_init = values("user-agent").iter().any(|agent| agent.starts_with("cloud-init"));
    let mut known = VMS.iter().map(|vm| (vm.4, vm.5)).chain(INSTANCES);
    let (status, body) = match known.find(|(instance, _)| values("x-instance-id") == [*instance]) {
        Some((instance, signature))
            if values("x-instance-id-signature") == [signature] && values("x-tenant-id") == ["p1"] =>
        {
            match head.first().and_then(|line| line.split(' ').nth(1)).filter(|_| asked_by_cloud_init) {
                Some(path) => published(instance, path),
                None => ("200 OK", format!("instance {instance} | {} | body {sent:?}\n", head.join(" | "))),
            }
        }
        _ => ("403 Forbidden", format!("{head:?}\n")),
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The files that Nova publishes for an instance, as far as cloud-init needs them.
fn published(instance: &str, path: &str) -> (&'static str, String) {
    match path.trim_end_matches('/') {
        "/openstack" => ("200 OK", "2018-08-27\nlatest".into()),
        path if path.ends_with("/meta_data.json") => {
            let data = serde_json::json!({
                "uuid": instance, "name": "vm", "hostname": "vm.novalocal", "launch_index": 0, "availability_zone": "nova",
            });
            ("200 OK", data.to_string())
        }
        path if path.ends_with("/user_data") => ("200 OK", format!("#cloud-config\n# of {instance}\n")),
        path if path.ends_with("/vendor_data.json") => ("200 OK", "{}".into()),
        _ => ("404 Not Found", "not found".into()),
    }
}

/// The daemon of a chassis.
pub(super) fn daemon(lab: &Lab, hv: &str, name: &str) -> Result<Arc<Daemon>> {
    lab.chassis(hv)?.daemon(name)
}

/// Waits until the networks in the chassis' row are these.
pub(super) fn ready(lab: &Lab, hv: &str, networks: &[&str]) -> Result<()> {
    let wanted = networks.join(",");
    lab.central("az1")?.sb().until(WITHIN, &format!("{hv} serves {wanted:?}"), |sb| {
        let mut rows = sb.table::<sb::Chassis>().iter();
        let row = rows.find(|(_, row)| row.name == hv).map(|(_, row)| row)?;
        let key = row.external_ids.get("neutron-metadata-proxy-networks").map_or("", |text| text.as_str());
        (key == wanted).then_some(())
    })
}

/// A VM asks, and gets the data of its own instance.
pub(super) fn gets_its_own(vm: &Node, Vm(name, _, _, last, instance, _): &Vm) -> Result<()> {
    let what = format!("{name} has metadata");
    let said = eventually(WITHIN, &what, || vm.http_get(SERVICE, "/openstack/latest/meta_data.json?x=%2e"))?;
    println!("{}", said.trim());
    ensure!(said.starts_with(&format!("instance {instance} ")), "{name} got another one's data: {said}");
    ensure!(said.contains(&format!("x-forwarded-for: 10.0.0.{last} ")), "{said}");
    ensure!(said.contains("get /openstack/latest/meta_data.json?x=%2e http/1.1"), "{said}");
    Ok(())
}

/// Sends bytes from a VM and returns the answer.
pub(super) fn send(vm: &Node, to: SocketAddr, bytes: &str) -> Result<String> {
    let sent = vm.enter(|| -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(bytes.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    })?;
    sent.with_context(|| format!("{} gets no answer from {to}", vm.label()))
}
