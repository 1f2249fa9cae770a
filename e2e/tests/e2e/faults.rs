//! Faults of a guest or its parts, seen from the host: each gives a clear error, and leaves nothing behind.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lab::guest::End;
use lab::harness::Bench;
use lab::job::{Backend, Spec};
use lab::{Test, Topology, chassis};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::outside::{
    Jobs, LONG, all, first_inside, gone, nobody_in, ours, processes_below, processes_by, processes_in,
    refused, start,
};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::fixture("fixture::panics", || panic!("on purpose")),
        Test::fixture("fixture::fails", || bail!("no reply from vm1")),
        Test::fixture("fixture::aborts", || std::process::abort()),
        Test::fixture("fixture::sleeps", sleeps),
        Test::fixture("fixture::crashes_the_kernel", crashes_the_kernel),
        Test::fixture("fixture::fills_the_disk", fills_the_disk),
        Test::fixture("fixture::pings_in_vain", pings_in_vain),
        Test::outside(
            "faults::a_failed_ping_is_traced",
            "a ping that is never answered is followed through the switches, in the report that the test leaves",
            traced,
        ),
        Test::outside(
            "faults::a_full_disk_is_told",
            "a disk that is full before the guest starts, or while it runs, is told with what to do",
            full_disk,
        ),
        Test::outside(
            "faults::a_failing_test_is_told",
            "an error in the guest is the test's failure",
            failing,
        ),
        Test::outside(
            "faults::a_panic_is_told",
            "a panic in the guest is the test's failure, with its place",
            panicking,
        ),
        Test::outside("faults::an_abort_is_told", "a test whose process dies is told by PID 1", aborting),
        Test::outside(
            "faults::a_dead_kernel_is_told",
            "a guest whose kernel panics leaves a report",
            dead_kernel,
        ),
        Test::outside(
            "faults::a_test_without_end_is_ended",
            "a guest past its time limit is ended and told",
            endless,
        ),
        Test::outside(
            "faults::a_killed_guest_is_told",
            "a guest that somebody kills leaves a report",
            killed,
        ),
        Test::outside(
            "faults::a_killed_test_takes_its_guest_along",
            "kill -9 of the test ends the guest",
            orphaned,
        ),
        Test::outside(
            "faults::no_mmdebstrap",
            "without mmdebstrap the message says what to install",
            no_mmdebstrap,
        ),
        Test::outside(
            "faults::no_mirror",
            "without a mirror the message says so, and the cache stays empty",
            no_mirror,
        ),
        Test::outside(
            "faults::wrong_kernel",
            "a wrong LAB_KERNEL is told before anything starts",
            wrong_kernel,
        ),
        Test::outside("faults::unwritable_jobs", "a job folder that cannot be made is told", unwritable_jobs),
        Test::outside("faults::a_backend_that_is_none", "a wrong LAB_BACKEND is told", wrong_backend),
        Test::outside(
            "faults::native_needs_root_and_leaves_nothing",
            "the native back end asks for root, tells what its kernel lacks, and dies with its test",
            native,
        ),
        Test::outside(
            "faults::two_labs_at_once",
            "two labs with the same network in them share the machine, and both succeed",
            two_labs,
        ),
    ]
}

fn sleeps() -> Result<()> {
    println!("asleep");
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

fn fills_the_disk() -> Result<()> {
    let block = vec![1; 1 << 20];
    let mut file = fs::File::create("/job/filling")?;
    println!("filling");
    loop {
        file.write_all(&block).context("cannot write any more")?;
    }
}

fn pings_in_vain() -> Result<()> {
    Topology::new().central("az1").chassis(chassis("hv1")).run(|lab| {
        let az1 = lab.central("az1")?;
        az1.write(|net| {
            net.switch("sw0").port("vm1", "02:00:00:00:00:11 10.0.0.11");
        })?;
        let vm1 = lab.vm("vm1").on("hv1").mac("02:00:00:00:00:11").ip("10.0.0.11/24").plug()?;
        az1.ready(&["vm1"])?;
        vm1.reaches_within(Duration::from_secs(1), "10.0.0.99")
    })
}

fn crashes_the_kernel() -> Result<()> {
    // With the native back end this would crash the host's kernel.
    ensure!(Spec::inside()?.backend == Backend::Uml, "this is no guest's kernel to crash");
    fs::write("/proc/sys/kernel/sysrq", "1")?;
    fs::write("/proc/sysrq-trigger", "c")?;
    Ok(())
}

fn failing(bench: &Bench<'_>) -> Result<()> {
    let failure = told(bench, "fixture::fails")?;
    ensure!(failure.contains("no reply from vm1"), "{failure}");
    Ok(())
}

fn panicking(bench: &Bench<'_>) -> Result<()> {
    let failure = told(bench, "fixture::panics")?;
    ensure!(failure.contains("on purpose") && failure.contains("faults.rs"), "{failure}");
    Ok(())
}

fn aborting(bench: &Bench<'_>) -> Result<()> {
    let failure = told(bench, "fixture::aborts")?;
    ensure!(failure.contains("killed by signal 6"), "{failure}");
    Ok(())
}

/// Runs a fixture that must fail with a message; returns its outcome.
fn told(bench: &Bench<'_>, fixture: &str) -> Result<String> {
    let (folder, end) = bench.fixture(fixture, LONG)?;
    let End::Told(outcome) = end else { bail!("the guest did not tell: {end:?}") };
    folder.remove()?;
    outcome.failure.context("it passed")
}

fn dead_kernel(bench: &Bench<'_>) -> Result<()> {
    let (folder, end) = bench.fixture("fixture::crashes_the_kernel", LONG)?;
    let End::Died(report) = end else { bail!("the guest lived: {end:?}") };
    ensure!(report.contains("the guest's kernel gave up: Kernel panic - not syncing: sysrq"), "{report}");
    ensure!(report.contains("the end of its console:"), "{report}");
    ensure!(
        fs::read_to_string(folder.path().join("console.log"))?.contains("Kernel panic"),
        "no console.log"
    );
    nobody_in(folder.path())?;
    folder.remove()
}

fn traced(bench: &Bench<'_>) -> Result<()> {
    let (folder, end) = bench.fixture("fixture::pings_in_vain", LONG)?;
    let End::Told(outcome) = end else { bail!("the guest did not tell: {end:?}") };
    let failure = outcome.failure.context("it passed")?;
    ensure!(failure.contains("vm1 reaches 10.0.0.99: not within 1s"), "{failure}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).context(name.to_owned());
    let trace = read("report/trace-vm1-10-0-0-99.txt")?;
    ensure!(trace.contains("where it enters br-int of hv1 by tap-vm1"), "{trace}");
    // No host has that address, so vm1 only ever sends the ARP request for it.
    ensure!(trace.contains("arp_tpa=10.0.0.99") && trace.contains("Datapath actions:"), "{trace}");
    ensure!(read("output.log")?.contains("Datapath actions:"), "the telling part is not printed");
    folder.remove()
}

fn full_disk(bench: &Bench<'_>) -> Result<()> {
    let cache = bench.host()?.home.path().to_string_lossy().into_owned();
    let jobs = Jobs::make("full-disk")?;
    let me = std::env::current_exe()?;
    let copied = fs::metadata(&me)?.len() >> 20;
    for (megabytes, test) in [(2, "guest::boots"), (copied + 24, "fixture::fills_the_disk")] {
        let small = jobs.0.join("jobs");
        fs::create_dir_all(&small)?;
        // A small disk of its own, in a mount namespace that ends with the lab.
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        if !nix::unistd::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let script = "mount -t tmpfs -o size=$1m none \"$2\" && shift 2 && exec \"$@\"";
        command.args(["sh", "-c", script, "sh", &megabytes.to_string()]).arg(&small).arg(&me);
        command.args(["--exact", test, "--nocapture"]);
        let env = [("LAB_CACHE", &*cache), ("LAB_FIXTURES", "1"), ("LAB_BACKEND", "uml")];
        let out = command.env("LAB_JOBS", &small).envs(env).stdin(Stdio::null()).output()?;
        let said = all(&out);
        ensure!(!out.status.success(), "{test} succeeded on a disk of {megabytes} MB: {said}");
        ensure!(said.contains("the disk is full that holds") && said.contains("LAB_JOBS"), "{said}");
        gone(|| processes_below(&small))?;
        ensure!(fs::read_dir(&small)?.next().is_none(), "something was left beside the small disk");
    }
    Ok(())
}

fn endless(bench: &Bench<'_>) -> Result<()> {
    let (folder, end) = bench.fixture("fixture::sleeps", Duration::from_secs(6))?;
    let End::Late(report) = end else { bail!("it was not late: {end:?}") };
    ensure!(report.contains("did not end within 6 s"), "{report}");
    nobody_in(folder.path())?;
    folder.remove()
}

fn killed(bench: &Bench<'_>) -> Result<()> {
    let jobs = Jobs::make("killed")?;
    let child = start("fixture::sleeps", &jobs, bench)?;
    let job = jobs.asleep()?;
    let pid: i32 = fs::read_to_string(job.join("uml/guest/pid"))?.trim().parse()?;
    kill(Pid::from_raw(pid), Signal::SIGKILL)?;
    let out = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&out.stdout);
    ensure!(!out.status.success() && said.contains("the guest was killed"), "{said}");
    ensure!(said.contains(&*job.to_string_lossy()), "the report does not name the job folder: {said}");
    nobody_in(&job)
}

fn orphaned(bench: &Bench<'_>) -> Result<()> {
    let jobs = Jobs::make("orphaned")?;
    let mut child = start("fixture::sleeps", &jobs, bench)?;
    let job = jobs.asleep()?;
    ensure!(!processes_in(&job)?.is_empty(), "the guest's processes are not seen");
    child.kill()?;
    child.wait()?;
    nobody_in(&job)
}

fn no_mmdebstrap(_: &Bench<'_>) -> Result<()> {
    let jobs = Jobs::make("no-mmdebstrap")?;
    let said = refused(&jobs, &[("PATH", "/nonexistent"), ("LAB_MIRROR", "http://127.0.0.1:9/debian")])?;
    ensure!(said.contains("apt-get install mmdebstrap"), "{said}");
    jobs.empty_cache()
}

fn no_mirror(_: &Bench<'_>) -> Result<()> {
    let jobs = Jobs::make("no-mirror")?;
    // No server listens at port 9 (discard).
    let said = refused(&jobs, &[("LAB_MIRROR", "http://127.0.0.1:9/debian")])?;
    ensure!(said.contains("the Debian mirror http://127.0.0.1:9/debian cannot be reached"), "{said}");
    ensure!(said.contains("LAB_MIRROR"), "{said}");
    jobs.empty_cache()
}

fn wrong_kernel(bench: &Bench<'_>) -> Result<()> {
    let cache = bench.host()?.home.path().to_string_lossy().into_owned();
    let jobs = Jobs::make("wrong-kernel")?;
    for (kernel, words) in
        [("/nonexistent/linux", "there is no kernel at"), ("/bin/false", "is this a User Mode Linux")]
    {
        let said = refused(&jobs, &[("LAB_KERNEL", kernel), ("LAB_CACHE", &cache)])?;
        ensure!(said.contains(words) && said.contains(kernel) && said.contains("LAB_KERNEL"), "{said}");
    }
    ensure!(!jobs.0.join("jobs").exists(), "a job was started");
    Ok(())
}

fn unwritable_jobs(bench: &Bench<'_>) -> Result<()> {
    let cache = bench.host()?.home.path().to_string_lossy().into_owned();
    let jobs = Jobs::make("unwritable")?;
    // A file in the place of a folder stops even root.
    fs::write(jobs.0.join("jobs"), "")?;
    let said = refused(&jobs, &[("LAB_CACHE", &cache)])?;
    ensure!(said.contains("cannot make a job folder in") && said.contains("is it writable"), "{said}");
    Ok(())
}

fn wrong_backend(_: &Bench<'_>) -> Result<()> {
    let jobs = Jobs::make("backend")?;
    let said = refused(&jobs, &[("LAB_BACKEND", "vmware")])?;
    ensure!(said.contains("LAB_BACKEND is `vmware`; it may be `uml`"), "{said}");
    Ok(())
}

fn two_labs(bench: &Bench<'_>) -> Result<()> {
    let cache = bench.host()?.home.path().to_string_lossy().into_owned();
    let jobs = Jobs::make("two-labs")?;
    let run = |test: &str| ours(&jobs, &[("LAB_CACHE", &cache)], test).spawn();
    // Both labs have the same network, with the same names and addresses.
    let network = "overlay::vms_on_different_chassis_reach_each_other";
    let labs = [run(network)?, run(network)?];
    for lab in labs {
        let out = lab.wait_with_output()?;
        ensure!(out.status.success(), "{}", all(&out));
    }
    ensure!(fs::read_dir(jobs.0.join("jobs"))?.next().is_none(), "a job that succeeded left its folder");
    Ok(())
}

fn native(bench: &Bench<'_>) -> Result<()> {
    let cache = bench.host()?.home.path().to_string_lossy().into_owned();
    let jobs = Jobs::make("native")?;
    let env = [("LAB_BACKEND", "native"), ("LAB_CACHE", &*cache), ("LAB_FIXTURES", "1")];
    if !nix::unistd::geteuid().is_root() {
        let said = refused(&jobs, &env)?;
        ensure!(said.contains("LAB_BACKEND=native needs root"), "{said}");
        return Ok(());
    }
    let mounts = || fs::read_to_string("/proc/self/mounts");
    let before = mounts()?;
    let mut child = ours(&jobs, &env, "fixture::sleeps").stderr(Stdio::null()).spawn()?;
    let job = jobs.asleep()?;
    let first = first_inside(&job)?;
    let namespace = fs::read_link(first.join("ns/pid"))?;
    let inside = || processes_by(|process| process.join("ns/pid"), &namespace);
    ensure!(inside()?.len() >= 2, "PID 1 and the test are not seen");
    child.kill()?;
    child.wait()?;
    gone(inside)?;
    ensure!(mounts()? == before, "a mount was left");
    // Kernels differ: with vrf the test passes, without it the error names the missing feature.
    let out = ours(&jobs, &env, "guest::has_the_devices_of_a_border_router").output()?;
    ensure!(
        out.status.success() || all(&out).contains("which the host's kernel does not offer"),
        "{}",
        all(&out)
    );
    Ok(())
}
