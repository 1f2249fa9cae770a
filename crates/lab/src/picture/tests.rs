use super::*;

fn picture(parts: &[Part], addresses: &[(&str, &str, &str)]) -> Picture {
    let mut known = Addresses::new();
    for (node, device, address) in addresses {
        known.entry(End::new(node, device)).or_default().push(address.parse().unwrap());
    }
    Picture::new(parts, known)
}

fn chassis(name: &str, address: &str) -> Vec<Part> {
    vec![
        Part::Node(name.into()),
        Part::Port(End::new(name, "eth0"), UNDERLAY.into()),
        Part::Port(End::new(name, "phys0"), "br-physnet".into()),
        Part::Chassis(name.into(), address.into(), vec!["physnet:br-ex".into()]),
    ]
}

fn tenants() -> Picture {
    let mut parts = vec![Part::Central("az1".into(), "10.10.0.100".into())];
    // The parts may arrive in any order.
    parts.extend(chassis("hv2", "10.10.0.2"));
    parts.extend(chassis("hv1", "10.10.0.1"));
    for (vm, on) in [("vm1", "hv1"), ("vm2", "hv2"), ("vm3", "hv1")] {
        parts.extend([Part::Node(vm.into()), Part::Vm(vm.into(), on.into())]);
    }
    parts.extend([Part::Node("ext".into()), Part::Port(End::new("ext", "eth0"), "br-physnet".into())]);
    parts.extend([Part::Node("spine".into()), Part::Node("idle".into())]);
    parts.push(Part::Cable(End::new("spine", "up1"), End::new("hv1", "uplink")));
    picture(
        &parts,
        &[
            ("vm1", "eth0", "10.0.0.11/24"),
            ("vm1", "eth0", "fe80::11/64"),
            ("vm2", "eth0", "10.0.0.12/24"),
            ("vm2", "eth0", "2001:db8::12/64"),
            ("ext", "eth0", "172.24.4.1/24"),
            ("spine", "up1", "100.64.1.0/31"),
        ],
    )
}

#[test]
fn a_topology_as_text() {
    assert_eq!(
        tenants().to_string(),
        "\
underlay
├─ az1  central, 10.10.0.100
├─ hv1  chassis, 10.10.0.1, physnet:br-ex
│  ├─ vm1  VM, 10.0.0.11/24
│  └─ vm3  VM
└─ hv2  chassis, 10.10.0.2, physnet:br-ex
   └─ vm2  VM, 10.0.0.12/24, 2001:db8::12/64
physical network physnet
├─ hv1  phys0
├─ hv2  phys0
└─ ext  host, 172.24.4.1/24
cables
└─ spine up1 100.64.1.0/31 ── hv1 uplink
on their own
└─ idle
"
    );
}

#[test]
fn nothing_is_drawn_as_nothing() {
    let picture = picture(&[], &[]);
    assert_eq!(picture.to_string(), "");
    assert!(picture.svg().starts_with("<svg ") && !picture.svg().contains("<text"));
}

#[test]
fn every_name_and_every_wire_is_in_the_svg() {
    let svg = tenants().svg();
    for name in ["az1", "hv1", "hv2", "vm1", "vm2", "vm3", "ext", "spine", "idle", "underlay", "physnet"] {
        assert_eq!(svg.matches(&format!(">{name}</text>")).count(), 1, "{name} in {svg}");
    }
    // The lines: one of the central, two of chassis to each network, three of VMs, one of the host, and the spine's cable.
    assert_eq!(svg.matches("<line ").count(), 1 + 2 * 2 + 3 + 1 + 1, "{svg}");
}

#[test]
fn names_cannot_break_out_of_the_svg() {
    let svg = picture(&[Part::Node("a<b>&c".into())], &[]).svg();
    assert!(svg.contains(">a&lt;b&gt;&amp;c</text>"), "{svg}");
}

#[test]
fn boxes_of_the_svg_stand_apart_and_within_it() {
    let svg = tenants().svg();
    let number = |line: &str, name: &str| -> usize {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let (width, height) = (number(&svg, "width"), number(&svg, "height"));
    let boxes: Vec<[usize; 4]> = svg
        .lines()
        .filter(|line| line.starts_with("<rect x="))
        .map(|line| {
            let (x, y) = (number(line, "x"), number(line, "y"));
            [x, y, x + number(line, "width"), y + number(line, "height")]
        })
        .collect();
    // Nine nodes and two networks.
    assert_eq!(boxes.len(), 9 + 2);
    for (at, a) in boxes.iter().enumerate() {
        assert!(a[2] < width && a[3] < height, "{a:?} is not within {width} x {height}");
        for b in &boxes[at + 1..] {
            let apart = a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1];
            assert!(apart, "{a:?} and {b:?} overlap");
        }
    }
}
