//! Python environments for the programs that tests use: Keystone, the `openstack` command, OpenStack's SDK, schemathesis.
//!
//! `python/requirements.txt` pins every package. The lab builds a virtual environment from it once, in the cache, under a key
//! that is derived from the list; a test gets it from [`openstack`]. Guests have another Python and see no files of the host.
//! So a second folder has the same packages for them ([`inside`]), and is mounted if a test requests it. Both contain a
//! prepared Keystone, whose database and keys are copied for each instance.
//!
//! A third folder holds ovn-bgp-agent for guests ([`ovn_bgp_agent`]), for benchmarks against Meridian's own agent.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::home::{Home, key_of};
use crate::job::OPENSTACK;
use crate::keystone::setup;
use crate::progress::Progress;
use crate::rootfs::Rootfs;

/// Tempest with Neutron's and Octavia's plug-ins, on top of [`REQUIREMENTS`].
const TEMPEST: &str = include_str!("../python/tempest.txt");
/// Every package with its version.
const REQUIREMENTS: &str = include_str!("../python/requirements.txt");
/// The packages of ovn-bgp-agent.
const OVN_BGP_AGENT: &str = include_str!("../python/ovn-bgp-agent.txt");
/// The one package of these that PyPI has as sources only.
const FROM_SOURCES: &str = "ovs==";
/// Debian's interpreter. Another one earlier in `PATH` may lack modules that the environment needs.
const PYTHON: &str = "/usr/bin/python3";
/// The file that marks an environment as complete.
const READY: &str = "ready";
/// The copy of the guests' own Python library, compiled.
const LIBRARY: &str = "library";
/// Python of the guests, which decides which packages run there.
const INSIDE_VERSION: &str = "3.13";

/// The virtual environment with OpenStack's tools, created on first use: `bin/openstack`, `bin/python3`, `bin/schemathesis`.
pub fn openstack() -> Result<PathBuf> {
    let home = Home::locate()?;
    let interpreter = fs::canonicalize(PYTHON)
        .with_context(|| format!("there is no {PYTHON}: `sudo apt-get install python3 python3-venv`"))?;
    // Packages are built for one Python. After an upgrade of the system's Python, the environment is built again.
    let dir = home.path().join(format!("openstack-{}", key(&interpreter.to_string_lossy())));
    ensure_whole(&home, &dir, || {
        let mut progress = Progress::begin("making a Python environment with OpenStack's tools (once)", 3);
        progress.step("a virtual environment");
        said(Command::new(PYTHON).args(["-m", "venv"]).arg(&dir))
            .context("cannot make a virtual environment: `sudo apt-get install python3-venv`")?;
        progress.step("packages");
        pip(&dir, REQUIREMENTS, Command::new(dir.join("bin/pip")).arg("install"), &progress)?;
        progress.step("Keystone's database and keys");
        setup::template(&dir)?;
        progress.done(&format!("OpenStack's tools are in {}", dir.display()));
        Ok(())
    })?;
    Ok(dir)
}

/// The virtual environment with tempest and its plug-ins of Neutron and Octavia, created on first use: `bin/tempest`. It uses the packages
/// of [`openstack`] and contains only further ones.
pub fn tempest() -> Result<PathBuf> {
    let (home, base) = (Home::locate()?, openstack()?);
    let dir = home.path().join(format!("tempest-{}", key_of(&[TEMPEST, &base.to_string_lossy()])));
    ensure_whole(&home, &dir, || {
        let mut progress = Progress::begin("making a Python environment with tempest (once)", 2);
        progress.step("a virtual environment");
        said(Command::new(PYTHON).args(["-m", "venv"]).arg(&dir))?;
        let (own, packages) = (packages_of(&dir)?, packages_of(&base)?);
        fs::write(own.join("openstack.pth"), packages.display().to_string())
            .context("cannot point to OpenStack's tools")?;
        progress.step("packages");
        pip(&dir, TEMPEST, Command::new(dir.join("bin/pip")).arg("install"), &progress)?;
        progress.done(&format!("tempest is in {}", dir.display()));
        Ok(())
    })?;
    Ok(dir)
}

/// The folder with the packages of a virtual environment.
fn packages_of(environment: &Path) -> Result<PathBuf> {
    let library = environment.join("lib");
    let mut versions =
        fs::read_dir(&library).with_context(|| format!("cannot read {}", library.display()))?;
    let version = versions.next().with_context(|| format!("{} is empty", library.display()))??;
    Ok(version.path().join("site-packages"))
}

/// The packages of [`openstack`] for the guests' Python, installed on first use.
pub fn inside() -> Result<PathBuf> {
    let (home, environment) = (Home::locate()?, openstack()?);
    let rootfs = Rootfs::ensure(&home)?;
    let dir = home.path().join(format!("openstack-guest-{}", key(&version_inside(&rootfs)?)));
    ensure_whole(&home, &dir, || {
        let mut progress = Progress::begin("fetching OpenStack's tools for guests (once)", 2);
        progress.step("packages");
        pip_inside(&environment, &dir, REQUIREMENTS, &progress)?;
        setup::copy(&environment, &dir)?;
        progress.step("compiling");
        compile(&rootfs, &dir)?;
        progress.done(&format!("OpenStack's tools for guests are in {}", dir.display()));
        Ok(())
    })?;
    Ok(dir)
}

/// ovn-bgp-agent and its dependencies for the guests' Python, installed on first use.
pub fn ovn_bgp_agent() -> Result<PathBuf> {
    let (home, environment) = (Home::locate()?, openstack()?);
    let rootfs = Rootfs::ensure(&home)?;
    let dir = home.path().join(format!("bgp-guest-{}", key_of(&[OVN_BGP_AGENT, &version_inside(&rootfs)?])));
    ensure_whole(&home, &dir, || {
        let mut progress = Progress::begin("fetching ovn-bgp-agent for guests (once)", 2);
        progress.step("packages");
        let built = |line: &&str| !line.starts_with(FROM_SOURCES);
        let wheels: Vec<&str> = OVN_BGP_AGENT.lines().filter(built).collect();
        pip_inside(&environment, &dir, &wheels.join("\n"), &progress)?;
        let sources = OVN_BGP_AGENT.lines().find(|line| !built(line)).context("ovs is among the packages")?;
        let mut install = Command::new(environment.join("bin/pip"));
        install.arg("install").arg("--target").arg(&dir);
        pip(&dir, sources, &mut install, &progress)?;
        progress.step("compiling");
        let library = library(&rootfs, &dir)?;
        let load =
            "import ovn_bgp_agent.agent, ovn_bgp_agent.drivers.openstack.ovn_bgp_driver, oslo_privsep.daemon";
        said(python(&rootfs, &dir, &library).args(["-W", "ignore", "-c", load]))
            .context("ovn-bgp-agent does not load with the guests' Python")?;
        progress.done(&format!("ovn-bgp-agent for guests is in {}", dir.display()));
        Ok(())
    })?;
    Ok(dir)
}

/// The guests' Python may be updated within a minor version; code that is compiled for it is then rebuilt.
fn version_inside(rootfs: &Rootfs) -> Result<String> {
    let packages = rootfs.manifest()?.packages;
    let found = packages.get(&format!("python{INSIDE_VERSION}"));
    Ok(found.map_or(INSIDE_VERSION, |found| found.as_str()).to_owned())
}

/// Installs packages for the guests' Python with pip.
fn pip_inside(environment: &Path, dir: &Path, packages: &str, progress: &Progress) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut command = Command::new(environment.join("bin/pip"));
    command.args(["install", "--only-binary=:all:", "--implementation=cp", "--python-version"]);
    command.arg(INSIDE_VERSION);
    for abi in ["cp313", "abi3", "none"] {
        command.arg(format!("--abi={abi}"));
    }
    for platform in ["manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64"] {
        command.arg(format!("--platform={platform}"));
    }
    pip(dir, packages, command.arg("--target").arg(dir), progress)
}

/// Compiles the modules that Keystone and the `openstack` command load with the guests' Python, which would take most of a
/// minute in each guest. The standard library in an unpacked root file system is not compiled either, so a compiled copy is
/// added.
fn compile(rootfs: &Rootfs, dir: &Path) -> Result<()> {
    let library = library(rootfs, dir)?;
    let config = setup::configure(&setup::of(dir))?;
    said(python(rootfs, dir, &library).args(["-W", "ignore", "-c", setup::LOAD]).arg(config))
        .context("Keystone does not load with the guests' Python")?;
    for words in ["router list", "port list", "project list"] {
        // No server listens there, but the command loads all modules before it connects.
        let mut command = python(rootfs, dir, &library);
        command.args(["-W", "ignore", "-m", "openstackclient.shell", "--os-auth-type=none"]);
        command.args(["--os-endpoint=http://127.0.0.1:9"]).args(words.split(' '));
        let _ = said(&mut command);
    }
    Ok(())
}

/// A copy of the standard library of the guests' Python, next to the packages.
fn library(rootfs: &Rootfs, dir: &Path) -> Result<PathBuf> {
    let library = dir.join(LIBRARY);
    let from = rootfs.root().join(format!("usr/lib/python{INSIDE_VERSION}"));
    said(Command::new("cp").args(["--recursive", "--preserve=timestamps"]).arg(&from).arg(&library))
        .context("cannot copy Python's own library")?;
    Ok(library)
}

/// The guests' Python, on the host.
fn python(rootfs: &Rootfs, dir: &Path, library: &Path) -> Command {
    let root = rootfs.root();
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    // The guest's programs need the guest's C library, whose loader runs them on any host.
    let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(&libraries).arg(root.join(format!("usr/bin/python{INSIDE_VERSION}")));
    command.env_clear().env("PYTHONHOME", root.join("usr")).env("HOME", dir);
    command.env("PYTHONPATH", format!("{}:{}", dir.display(), library.display()));
    command
}

fn key(python: &str) -> String {
    key_of(&[REQUIREMENTS, python, setup::RECIPE])
}

/// True if a folder of the cache is complete.
pub(crate) fn is_whole(dir: &Path) -> bool {
    let ready = dir.join(READY).is_file();
    // Marks the folder as used, because `tidy` deletes those that were not used for long.
    let _ = ready.then(|| fs::File::create(dir.join("used")));
    ready
}

/// Builds a folder of the cache that is missing or incomplete, one at a time.
pub(crate) fn ensure_whole(home: &Home, dir: &Path, make: impl FnOnce() -> Result<()>) -> Result<()> {
    if is_whole(dir) {
        return Ok(());
    }
    let lock = home.lock_file("build")?;
    if lock.try_lock().is_err() {
        eprintln!("another build in the lab's cache is under way; waiting for it");
        lock.lock().context("cannot wait for the other build")?;
    }
    if is_whole(dir) {
        return Ok(());
    }
    let _ = fs::remove_dir_all(dir);
    let made = make().and_then(|()| {
        fs::write(dir.join(READY), "").context("cannot mark a folder of the lab's cache as complete")
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(dir);
    }
    made
}

/// Installs the required packages with pip.
fn pip(dir: &Path, packages: &str, command: &mut Command, progress: &Progress) -> Result<()> {
    let list = dir.join("requirements.txt");
    fs::write(&list, packages).with_context(|| format!("cannot write {}", list.display()))?;
    let all = packages.lines().filter(|line| line.contains("==")).count();
    // Python compiles a module when it loads it. Compiling all of them takes a minute.
    command.args([
        "--no-compile",
        "--no-deps",
        "--progress-bar=off",
        "--disable-pip-version-check",
        "--no-color",
        "-r",
    ]);
    let mut child = command
        .arg(&list)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run pip")?;
    let errors = child.stderr.take().map(|errors| {
        std::thread::spawn(move || {
            BufReader::new(errors).lines().map_while(|line| line.ok()).collect::<Vec<String>>()
        })
    });
    let mut seen = 0;
    let out = child.stdout.take().map(|out| BufReader::new(out).lines());
    for line in out.into_iter().flatten().map_while(|line| line.ok()) {
        if line.starts_with("Collecting ") {
            seen += 1;
            progress.note(&format!("{seen} of {all}"));
        }
    }
    let status = child.wait().context("cannot wait for pip")?;
    let errors = errors.and_then(|reader| reader.join().ok()).unwrap_or_default();
    if !status.success() {
        let last = errors[errors.len().saturating_sub(6)..].join("\n");
        bail!(
            "pip failed ({status}): is PyPI reachable? PIP_INDEX_URL names another index, LAB_CACHE another disk\n{last}"
        );
    }
    Ok(())
}

/// Python's search path for packages in a guest.
pub fn path_inside() -> String {
    format!("{OPENSTACK}:{OPENSTACK}/{LIBRARY}")
}

/// Runs a command to its end; an error contains its last output.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    let errors = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = errors.lines().collect();
    ensure!(
        out.status.success(),
        "{program} failed ({}): {}",
        out.status,
        lines[lines.len().saturating_sub(6)..].join("\n")
    );
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_its_version() {
        fn named(list: &str) -> impl Iterator<Item = &str> + Clone {
            list.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
        }
        assert_eq!(named(OVN_BGP_AGENT).filter(|line| line.starts_with(FROM_SOURCES)).count(), 1);
        let lines = named(REQUIREMENTS);
        for line in lines.clone().chain(named(OVN_BGP_AGENT)).chain(named(TEMPEST)) {
            let (name, version) = line.split_once("==").unwrap_or_default();
            assert!(!name.is_empty() && version.starts_with(|c: char| c.is_ascii_digit()), "{line}");
        }
        for wanted in ["keystone", "waitress", "python-openstackclient", "openstacksdk", "schemathesis"] {
            assert!(lines.clone().any(|line| line.starts_with(&format!("{wanted}=="))), "{wanted}");
        }
    }

    #[test]
    fn what_was_left_half_done_is_made_anew_and_what_is_whole_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).unwrap();
        let at = dir.path().join("openstack-x");
        let make = |text: &'static str| {
            let at = at.clone();
            move || {
                fs::create_dir_all(&at)?;
                Ok(fs::write(at.join(text), "")?)
            }
        };
        ensure_whole(&home, &at, || make("half")().and_then(|()| bail!("no PyPI"))).unwrap_err();
        assert!(!at.exists(), "a failed build was left");
        make("half")().unwrap();
        ensure_whole(&home, &at, make("new")).unwrap();
        assert!(at.join("new").exists() && !at.join("half").exists());
        ensure_whole(&home, &at, || bail!("made again")).unwrap();
    }
}
