//! Tests of the lab's own functions. If these did not work, the tests that use them would prove nothing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::process::Recipe;
use lab::{Need, Test, Topology};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "lab::cables_can_be_slow_lossy_and_cut",
            "a cable between two nodes can be made slow, lossy and dead, and what passes it can be captured",
            &[Need::Netem],
            cables,
        ),
        Test::new(
            "lab::a_daemon_that_does_not_start_is_told",
            "a daemon that ends at its start, or is no program at all, is an error that says so",
            &[],
            daemons,
        ),
    ]
}

fn cables() -> Result<()> {
    Topology::new().run(|lab| {
        let (left, right) = (lab.node("left")?, lab.node("right")?);
        lab.connect((&left, "eth0"), (&right, "eth0"))?;
        left.address("eth0", "192.0.2.1/24".parse()?)?;
        right.address("eth0", "192.0.2.2/24".parse()?)?;
        let capture = right.capture("eth0", "icmp")?;
        left.reaches("192.0.2.2")?;
        let seen = capture.packets(&right)?;
        ensure!(
            seen.iter().any(|line| line.contains("192.0.2.1 > 192.0.2.2: ICMP echo request")),
            "captured {seen:?}"
        );

        right.latency("eth0", Duration::from_millis(300))?;
        let late = |what: &str| {
            let millis = round_trip(&left.run("ping -n -c 1 -W 10 192.0.2.2")?)?;
            // The delay may be longer than requested, never shorter; the kernel's timers count in ticks.
            ensure!(millis > 280.0, "a latency of 300 ms{what} makes {millis} ms");
            Ok(())
        };
        late("")?;
        // No packet is lost, and the latency stays.
        right.loss("eth0", 0.0)?;
        late(" beside a loss of nothing")?;
        right.loss("eth0", 100.0)?;
        left.gets_no_answer("192.0.2.2")?;
        ensure!(right.loss("eth0", 101.0).is_err(), "more than all can be lost");
        right.unimpair("eth0")?;
        left.reaches("192.0.2.2")?;

        right.down("eth0")?;
        left.gets_no_answer("192.0.2.2")?;
        right.up("eth0")?;
        left.reaches("192.0.2.2")
    })
}

fn round_trip(said: &str) -> Result<f64> {
    let (_, rest) = said.split_once("time=").with_context(|| format!("no time in `{said}`"))?;
    rest.split(' ').next().unwrap_or_default().parse().with_context(|| format!("no time in `{said}`"))
}

fn daemons() -> Result<()> {
    Topology::new().run(|lab| {
        let node = lab.node("node")?;
        let socket = node.dir().join("never.sock");
        let error = |recipe: Recipe| match node.start("thing", recipe).and_then(|daemon| daemon.ready()) {
            Ok(()) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        let ended = error(Recipe::new("ovsdb-server").arg("/nowhere/to/be/found.db").ready(&socket));
        println!("{ended}");
        ensure!(ended.contains("thing of node ended at its start"), "{ended}");
        ensure!(ended.contains("found.db"), "the cause is not told: {ended}");
        let absent = error(Recipe::new("no-such-program").ready(&socket));
        println!("{absent}");
        ensure!(absent.contains("cannot start no-such-program"), "{absent}");
        let unknown = node.daemon("bgpd").map(|_| ()).map_err(|error| error.to_string());
        ensure!(
            unknown.is_err_and(|text| text.contains("node has no daemon `bgpd`")),
            "an unknown daemon was found"
        );
        Ok(())
    })
}
