//! Compiles the API server and kubectl once, into the lab's cache.
//!
//! No package repository has an API server as a binary. Debian 12's source package of Kubernetes is complete and compiles with
//! Debian's Go. One of its libraries breaks with that Go: the server would crash at the first object with labels. Debian's own
//! copy of the library takes its place. The server is old, so it evaluates no CEL rules; the tests of `crates/kube` evaluate those themselves.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::home::{Home, key_of};
use crate::progress::Progress;
use crate::python::{ensure_whole, is_whole, said};
use crate::rootfs;

/// The source archive in a Debian mirror.
const SOURCE: &str = "pool/main/k/kubernetes/kubernetes_1.20.5+really1.20.2.orig.tar.gz";
/// Its checksum, of the package's description.
const SHA256: &str = "b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc";
/// Debian's Go that compiles it unchanged.
const GO: &str = "/usr/lib/go-1.19/bin";
/// Debian's copy of the library that the source has in a version for an older Go.
const LIBRARY: &str = "/usr/share/gocode/src/github.com/modern-go/reflect2";
/// Its place in the source.
const LIBRARY_PLACE: &str = "vendor/github.com/modern-go/reflect2";
/// The commands of the source that are compiled.
const COMMANDS: &str = "cmd/kube-apiserver cmd/kubectl";
/// The peak disk space, with a reserve.
const ROOM: u64 = 3 << 30;

/// The compiled programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// kube-apiserver.
    pub server: PathBuf,
    /// kubectl of the same version.
    pub kubectl: PathBuf,
}

/// Where the programs are, or will be.
fn dir(home: &Home) -> PathBuf {
    home.path().join(format!("kubernetes-{}", key_of(&[SOURCE, SHA256, GO, LIBRARY, COMMANDS])))
}

/// True if the programs are compiled, so that nothing that compiles them is needed.
pub fn is_built() -> Result<bool> {
    Ok(is_whole(&dir(&Home::locate()?)))
}

/// The programs in the cache, compiled now if they are missing.
pub fn ensure() -> Result<Programs> {
    let home = Home::locate()?;
    let dir = dir(&home);
    ensure_whole(&home, &dir, || build(&home, &dir))?;
    Ok(Programs { server: dir.join("kube-apiserver"), kubectl: dir.join("kubectl") })
}

fn build(home: &Home, dir: &Path) -> Result<()> {
    rootfs::room("Kubernetes", ROOM, rootfs::free_bytes(home.path())?, home.path())?;
    if let Some(missing) = [GO, LIBRARY].into_iter().find(|path| !Path::new(path).is_dir()) {
        bail!(
            "there is no {missing}, which the tests' Kubernetes is compiled with: `sudo apt-get install golang-1.19-go \
             golang-github-modern-go-reflect2-dev make rsync git` (as root, `cargo xtask test` does that by itself; the \
             packages are Debian 12's)"
        );
    }
    let mut progress = Progress::begin("compiling Kubernetes' API server (once; 5 to 20 minutes)", 3);
    let (source, archive) = (dir.join("source"), dir.join("source.tar.gz"));
    fs::create_dir_all(&source).with_context(|| format!("cannot create {}", source.display()))?;
    progress.step("fetching the source");
    // Apt's own downloader knows the host's proxy and compares the checksum.
    let url = format!("{}/{SOURCE}", rootfs::mirror()?.trim_end_matches('/'));
    said(
        Command::new("/usr/lib/apt/apt-helper")
            .args(["-o", "APT::Sandbox::User=root", "download-file", &url])
            .arg(&archive)
            .arg(format!("SHA256:{SHA256}")),
    )
    .context("cannot fetch the source of Kubernetes; LAB_MIRROR names another Debian mirror")?;
    progress.step("unpacking");
    said(
        Command::new("tar").args(["-xzf"]).arg(&archive).arg("-C").arg(&source).arg("--strip-components=1"),
    )?;
    let place = source.join(LIBRARY_PLACE);
    fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    said(Command::new("cp").args(["--recursive", "--dereference", LIBRARY]).arg(&place))?;
    progress.step("compiling");
    compile(&source, &dir.join("home"), &progress)?;
    for name in ["kube-apiserver", "kubectl"] {
        let from = source.join("_output/bin").join(name);
        fs::copy(&from, dir.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    for part in [&source, &dir.join("home")] {
        fs::remove_dir_all(part).with_context(|| format!("cannot remove {}", part.display()))?;
    }
    fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))?;
    progress.done(&format!("Kubernetes' API server is in {}", dir.display()));
    Ok(())
}

/// Runs the source's own makefile, which keeps everything in the source's folder.
fn compile(source: &Path, home: &Path, progress: &Progress) -> Result<()> {
    fs::create_dir_all(home).with_context(|| format!("cannot create {}", home.display()))?;
    let path = format!("{GO}:{}", std::env::var("PATH").unwrap_or_default());
    let mut child = Command::new("make")
        .arg(format!("WHAT={COMMANDS}"))
        .current_dir(source)
        // The host's settings of Go and make are for other work.
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run make: `sudo apt-get install make`")?;
    let mut last = Vec::new();
    for line in
        child.stderr.take().map(BufReader::new).into_iter().flat_map(|it| it.lines()).map_while(|it| it.ok())
    {
        progress.note(line.trim());
        last.push(line);
        // The compiler's errors are at the end.
        let surplus = last.len().saturating_sub(20);
        last.drain(..surplus);
    }
    let status = child.wait().context("cannot wait for make")?;
    if !status.success() {
        bail!("cannot compile Kubernetes ({status}):\n{}", last.join("\n"));
    }
    Ok(())
}
