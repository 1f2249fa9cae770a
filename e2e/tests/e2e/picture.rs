//! The picture of a running topology.

use anyhow::{Result, ensure};
use lab::{Test, Topology, chassis};

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new(
        "lab::a_topology_is_drawn_as_it_runs",
        "the picture of a topology has its machines, networks and cables, with the addresses they have by now",
        &[],
        drawn,
    )]
}

fn drawn() -> Result<()> {
    let topology = Topology::new().central("az1").chassis(chassis("hv1").wired("physnet", "br-ex"));
    topology.run(|lab| {
        lab.external("ext", "physnet", &["172.24.4.1/24"])?;
        lab.vm("vm1").on("hv1").mac("02:00:00:00:00:11").ip("10.0.0.11/24").plug()?;
        let spine = lab.node("spine")?;
        lab.connect((&spine, "up1"), (lab.chassis("hv1")?, "uplink"))?;
        spine.address("up1", "100.64.1.0/31".parse()?)?;
        let picture = lab.picture().to_string();
        println!("{picture}");
        let expected = "\
underlay
├─ az1  central, 10.10.0.100
└─ hv1  chassis, 10.10.0.1, physnet:br-ex
   └─ vm1  VM, 10.0.0.11/24
physical network physnet
├─ hv1  phys0
└─ ext  host, 172.24.4.1/24
cables
└─ spine up1 100.64.1.0/31 ── hv1 uplink
";
        ensure!(picture == expected, "the picture is not what is up");
        Ok(())
    })
}
