//! The guest's root file system: built once, by an ordinary user, and kept in the cache under a key.
//!
//! `recipe` lists the content, `debootstrap` fetches and unpacks it, `fixup` does the work of the packages' scripts, `interp`
//! makes the kernel run on any host. A build happens in a temporary folder that is renamed into place: a root file system is
//! complete or absent.

mod debootstrap;
mod fixup;
mod interp;
mod recipe;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::progress::Progress;
pub(crate) use debootstrap::mirror;
pub(crate) use fixup::{EMPTY, FIRST, SCHEMAS};
pub use recipe::key;

/// The number of steps of a build: lists, download, unpack, finish.
const STEPS: u64 = 4;

/// The peak disk space of unpacking, with a reserve.
const ROOM: u64 = 1200 << 20;

/// Time without use after which the next build removes a root file system.
const UNUSED: Duration = Duration::from_secs(14 * 24 * 3600);

/// A root file system in the cache, with its kernel.
#[derive(Clone, Debug)]
pub struct Rootfs(PathBuf);

/// The content of a root file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The recipe's key.
    pub key: String,
    /// The version of every package in it.
    pub packages: BTreeMap<String, String>,
}

impl Rootfs {
    /// The root file system of this code's recipe, if it exists.
    pub fn cached(home: &Home) -> Option<Rootfs> {
        let dir = home.path().join(key());
        if !dir.join("manifest.json").is_file() {
            return None;
        }
        // Marks the root file system as used for `tidy`. A read-only cache works as well.
        let _ = fs::File::create(dir.join("used"));
        Some(Rootfs(dir))
    }

    /// The root file system of this code's recipe, built now if it is missing.
    pub fn ensure(home: &Home) -> Result<Rootfs> {
        if let Some(found) = Rootfs::cached(home) {
            return Ok(found);
        }
        let lock = home.lock_file("build")?;
        if lock.try_lock().is_err() {
            eprintln!("another build of the lab's root file system is under way; waiting for it");
            lock.lock().context("cannot wait for the other build")?;
        }
        if let Some(found) = Rootfs::cached(home) {
            return Ok(found);
        }
        tidy(home);
        let part = home.path().join(format!(".building-{}", key()));
        let made = build(&part, home);
        if made.is_err() {
            let _ = fs::remove_dir_all(&part);
        }
        made?;
        let dir = home.path().join(key());
        fs::rename(&part, &dir).with_context(|| format!("cannot put {} in place", dir.display()))?;
        Rootfs::cached(home).context("the root file system is gone again")
    }

    /// The folder that is `/` in the guest; read-only after the build.
    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// The kernel, as a program that must be started in the folder that contains `g/`.
    pub fn kernel(&self) -> PathBuf {
        self.0.join("kernel/linux")
    }

    /// The kernel's own C library.
    pub(crate) fn library(&self) -> PathBuf {
        self.0.join("kernel/g")
    }

    /// The kernel's configuration.
    pub(crate) fn kernel_config(&self) -> Result<String> {
        let path = self.0.join("kernel/config");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The content.
    pub fn manifest(&self) -> Result<Manifest> {
        let path = self.0.join("manifest.json");
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no manifest", path.display()))
    }

    /// The path of the root file system.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Removes every root file system and every unfinished build; returns their number.
pub fn clean(home: &Home) -> Result<usize> {
    let running = crate::guest::running(home)?;
    ensure!(running == 0, "{running} guests are running right now: try again when they have ended");
    let lock = home.lock_file("build")?;
    ensure!(
        lock.try_lock().is_ok(),
        "a root file system is being built right now: try again when it is done"
    );
    let mut removed = 0;
    for dir in folders(home) {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        removed += 1;
    }
    Ok(removed)
}

/// Removes leftovers of killed builds, and root file systems that were not used for long.
fn tidy(home: &Home) {
    for dir in folders(home) {
        let used = dir.join("used").metadata().and_then(|found| found.modified());
        let old = used.is_ok_and(|used| SystemTime::now().duration_since(used).is_ok_and(|age| age > UNUSED));
        if old || dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".building-")) {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// The folders in the cache: root file systems, whole or not. Everything else there is a lock file.
fn folders(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn build(part: &Path, home: &Home) -> Result<()> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "User Mode Linux runs on x86-64 only; LAB_BACKEND=native needs no guest but the same root file system"
    );
    room("the lab's root file system", ROOM, free_bytes(home.path())?, home.path())?;
    let mut progress = Progress::begin("building the lab's root file system (once)", STEPS);
    let (root, kernel) = (part.join("root"), part.join("kernel"));
    fs::create_dir_all(part.join("tmp")).with_context(|| format!("cannot make {}", part.display()))?;
    let mirror = debootstrap::mirror()?;
    debootstrap::unpack(&root, &part.join("tmp"), &mirror, &mut progress)?;
    progress.step("finishing");
    let packages = debootstrap::versions(&root.join("var/cache/apt/archives"))?;
    fixup::root(&root)?;
    fixup::databases(&root)?;
    fixup::kernel(&root, &kernel)?;
    let config = show_config(&kernel.join("linux"), &kernel).context("the kernel just built does not run")?;
    fs::write(kernel.join("config"), config).context("cannot write the kernel's configuration")?;
    let _ = fs::remove_dir_all(part.join("tmp"));
    let manifest = Manifest { key: key(), packages };
    fs::write(part.join("manifest.json"), serde_json::to_vec_pretty(&manifest)?)
        .context("cannot write the manifest")?;
    progress.done(&summary(&manifest));
    Ok(())
}

/// Runs a kernel to print its configuration; `dir` is the folder of its own C library, if it has one.
pub(crate) fn show_config(kernel: &Path, dir: &Path) -> Result<String> {
    let out = Command::new(kernel)
        .arg("--showconfig")
        .current_dir(dir)
        .env_clear()
        .env("LD_LIBRARY_PATH", "g")
        .output()
        .with_context(|| format!("cannot run the kernel {}", kernel.display()))?;
    ensure!(
        out.status.success() && !out.stdout.is_empty(),
        "`{} --showconfig` gives no configuration ({}): is this a User Mode Linux kernel?",
        kernel.display(),
        out.status
    );
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Fails if there is less free space than a build needs. Otherwise the build would fail half-way.
pub(crate) fn room(noun: &str, needed: u64, free: u64, dir: &Path) -> Result<()> {
    ensure!(
        free >= needed,
        "not enough disk space for {noun}: {} MB free in {}, {} MB needed. Make room, or name another folder in LAB_CACHE",
        free >> 20,
        dir.display(),
        needed >> 20
    );
    Ok(())
}

pub(crate) fn free_bytes(dir: &Path) -> Result<u64> {
    let stat =
        nix::sys::statvfs::statvfs(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

/// A summary of its content in one line.
fn summary(manifest: &Manifest) -> String {
    let version = |name: &str| manifest.packages.get(name).map_or("?", |version| version.as_str());
    format!(
        "lab root file system {}: OVN {}, Open vSwitch {}, FRR {}, kernel {}; {} packages",
        manifest.key,
        version("ovn-central"),
        version("openvswitch-switch"),
        version("frr"),
        version(recipe::KERNEL),
        manifest.packages.len()
    )
}

impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&summary(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_told_with_numbers_and_a_way_out() {
        assert!(room("a build", ROOM, ROOM, Path::new("/c")).is_ok());
        let error = room("a build", ROOM, 100 << 20, Path::new("/c")).unwrap_err().to_string();
        assert!(error.contains("100 MB free in /c") && error.contains("LAB_CACHE"), "{error}");
    }

    #[test]
    fn unfinished_and_long_unused_root_file_systems_go_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).unwrap();
        for name in [".building-aa", "fresh", "old", "unknown"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::File::create(dir.path().join("fresh/used")).unwrap();
        let long_ago = SystemTime::now() - 2 * UNUSED;
        fs::File::create(dir.path().join("old/used")).unwrap().set_modified(long_ago).unwrap();
        tidy(&home);
        let mut left: Vec<PathBuf> = folders(&home);
        left.sort();
        assert_eq!(left, ["fresh", "unknown"].map(|name| home.path().join(name)));
        assert_eq!(clean(&home).unwrap(), 2);
        assert!(folders(&home).is_empty());
    }

    #[test]
    fn clean_waits_for_nobody_and_disturbs_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).unwrap();
        let lock = home.lock_file("build").unwrap();
        lock.lock().unwrap();
        assert!(clean(&home).unwrap_err().to_string().contains("being built"));
        drop(lock);
        let guest = home.lock_file("cpu-0").unwrap();
        guest.lock().unwrap();
        assert!(clean(&home).unwrap_err().to_string().contains("guests are running"));
    }
}
