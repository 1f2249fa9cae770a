//! Fetches and unpacks the packages with mmdebstrap, which needs no root for that.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::recipe;
use crate::progress::Progress;

/// The Debian mirror: `$LAB_MIRROR`, else the one that the host's apt is configured with.
pub(crate) fn mirror() -> Result<String> {
    if let Some(named) = std::env::var("LAB_MIRROR").ok().filter(|named| !named.is_empty()) {
        return Ok(named);
    }
    let hint =
        "set LAB_MIRROR to the URL of a Debian mirror (what `deb` lines in /etc/apt/sources.list have)";
    let out = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
        .output()
        .with_context(|| format!("cannot ask apt-get for the host's mirror; {hint}"))?;
    debian_mirror(&String::from_utf8_lossy(&out.stdout))
        .with_context(|| format!("the host's apt knows no mirror of Debian itself; {hint}"))
}

/// The first repository that is Debian's main archive, not one of its by-ways such as security.
fn debian_mirror(listed: &str) -> Option<String> {
    let archive = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    listed.lines().map(|line| line.trim()).find(archive).map(|uri| uri.to_owned())
}

/// Unpacks the recipe's packages into `root`.
pub(super) fn unpack(root: &Path, tmp: &Path, mirror: &str, progress: &mut Progress) -> Result<()> {
    let pins = tmp.join("preferences");
    fs::write(&pins, recipe::preferences()).context("cannot write apt's preferences")?;
    let include = [recipe::PACKAGES, &[recipe::KERNEL]].concat().join(",");
    let mut command = quietly("mmdebstrap");
    command
        .args(["--variant=extract", "--mode=chrootless", "--architectures=amd64", "--skip=cleanup/apt"])
        .arg(format!("--include={include}"))
        .arg("--setup-hook=mkdir -p \"$1/etc/apt/preferences.d\" && cp \"$LAB_PINS\" \"$1/etc/apt/preferences.d/lab\"")
        .arg(format!("--extract-hook={UNPACK_ALONE}"))
        .args([
            "--aptopt=APT::Install-Recommends \"false\"",
            // Suites before their release let the validity of their lists expire.
            "--aptopt=Acquire::Check-Valid-Until \"false\"",
            "--aptopt=Acquire::Languages \"none\"",
            "--aptopt=Acquire::Retries \"2\"",
            "--aptopt=Acquire::http::Timeout \"20\"",
            recipe::SUITE,
        ])
        .arg(root)
        .arg(format!("deb {mirror} {} main", recipe::SUITE))
        .arg(format!("deb {mirror} {} main", recipe::KERNEL_SUITE))
        .env("LAB_PINS", &pins)
        .env("LAB_ALONE", recipe::ALONE.join(" "))
        .env("TMPDIR", tmp)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(NO_MMDEBSTRAP),
        spawned => spawned.context("cannot run mmdebstrap")?,
    };
    let said = follow(&mut child, &root.join("var/cache/apt/archives"), progress);
    let status = child.wait().context("cannot wait for mmdebstrap")?;
    if status.success() {
        return Ok(());
    }
    Err(explain(&said, mirror).context(format!("mmdebstrap failed ({status})")))
}

/// Fetches packages by the new root's own apt configuration, which mmdebstrap names to its hooks, and unpacks them.
const UNPACK_ALONE: &str = "cd \"$1/var/cache/apt/archives\" && APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get -q -o APT::Sandbox::User=root download $LAB_ALONE && \
    for name in $LAB_ALONE; do dpkg-deb --extract \"$name\"_*.deb \"$1\" || exit 1; done";

const NO_MMDEBSTRAP: &str = "mmdebstrap is not installed, and it makes the lab's root file system: `sudo apt-get install \
    mmdebstrap` (as root, `cargo xtask lab build` does that by itself)";

/// A command that ends when this process ends for any reason, if the system has the program for that.
fn quietly(program: &str) -> Command {
    // The program is searched for here, so that its absence gets a clear error.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find =
        |name: &str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    match (find("setpriv"), find(program)) {
        (Some(setpriv), Some(program)) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "TERM"]).arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// Follows mmdebstrap's progress output; returns the lines that may explain a failure.
fn follow(child: &mut Child, archives: &Path, progress: &mut Progress) -> Vec<String> {
    let Some(stderr) = child.stderr.take() else { return Vec::new() };
    let (send, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(|line| line.ok()) {
            if send.send(String::from_utf8_lossy(&line).trim().to_owned()).is_err() {
                break;
            }
        }
    });
    let mut said = Vec::new();
    let mut downloading = false;
    progress.step("fetching package lists");
    loop {
        match lines.recv_timeout(Duration::from_millis(250)) {
            Ok(line) if line.starts_with("I: ") => {
                if line.contains("downloading packages") {
                    progress.step("fetching packages");
                    downloading = true;
                } else if line.contains("extracting archives") {
                    progress.step("unpacking");
                    downloading = false;
                }
            }
            Ok(line) => said.push(line),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if downloading => {
                progress.note(&format!("{} so far", fs::read_dir(archives).map_or(0, |dir| dir.count())));
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let _ = reader.join();
    said
}

/// The meaning of a failure and advice, from its output.
fn explain(said: &[String], mirror: &str) -> anyhow::Error {
    let all = said.join("\n");
    let has = |words: &[&str]| words.iter().any(|word| all.contains(word));
    let tail = said.iter().rev().take(12).rev().cloned().collect::<Vec<_>>().join("\n");
    let meaning = if has(&[
        "No space left on device",
        "not have enough free space",
        "don't have enough free space",
    ]) {
        "the disk is full: make room, or name another folder in LAB_CACHE".to_owned()
    } else if has(&[
        "Could not resolve",
        "Could not connect",
        "Connection failed",
        "Unable to connect",
        "Failed to fetch",
    ]) {
        format!(
            "the Debian mirror {mirror} cannot be reached: check the network, or set LAB_MIRROR to another one"
        )
    } else if has(&["Unable to locate package", "has no installation candidate"]) {
        format!(
            "the Debian mirror {mirror} lacks a package: it may be incomplete, LAB_MIRROR names another one"
        )
    } else {
        "it said".to_owned()
    };
    anyhow!("{meaning}\n{tail}")
}

/// The version of each package, from the names of its archives (`name_version_architecture.deb`).
pub(super) fn versions(archives: &Path) -> Result<BTreeMap<String, String>> {
    let entries = fs::read_dir(archives).with_context(|| format!("cannot read {}", archives.display()))?;
    let names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let found: BTreeMap<String, String> = names
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.strip_suffix(".deb"))
        .filter_map(|name| {
            let (package, rest) = name.split_once('_')?;
            let (version, _) = rest.rsplit_once('_')?;
            Some((package.to_owned(), version.replace("%3a", ":")))
        })
        .collect();
    let wanted = recipe::PACKAGES.iter().chain(recipe::ALONE).chain(&[recipe::KERNEL]);
    match wanted.into_iter().find(|wanted| !found.contains_key(**wanted)) {
        Some(missing) => bail!("the package {missing} was not unpacked"),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_debians_main_archive() {
        let listed =
            "http://h/debian-security/\nhttps://h/ubuntu\n\nhttp://h/some/debian/\nhttp://other/debian\n";
        assert_eq!(debian_mirror(listed).as_deref(), Some("http://h/some/debian/"));
        assert_eq!(debian_mirror("http://h/debian-security\n"), None);
        assert_eq!(debian_mirror(""), None);
    }

    #[test]
    fn a_failure_says_what_to_do() {
        let say = |line: &str| explain(&[line.to_owned()], "http://h/debian").to_string();
        assert!(
            say("E: Could not resolve 'h'")
                .starts_with("the Debian mirror http://h/debian cannot be reached")
        );
        assert!(say("tar: x: Cannot write: No space left on device").starts_with("the disk is full"));
        assert!(say("E: Unable to locate package ovn-ic").contains("lacks a package"));
        assert_eq!(say("E: strange"), "it said\nE: strange");
    }

    #[test]
    fn versions_come_from_the_archives_and_a_missing_package_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for package in recipe::PACKAGES.iter().chain(recipe::ALONE).chain(&[recipe::KERNEL]) {
            fs::write(dir.path().join(format!("{package}_1%3a2.0-1+b1_amd64.deb")), "").unwrap();
        }
        fs::write(dir.path().join("lock"), "").unwrap();
        assert_eq!(versions(dir.path()).unwrap()["frr"], "1:2.0-1+b1");
        fs::remove_file(dir.path().join("frr_1%3a2.0-1+b1_amd64.deb")).unwrap();
        assert!(versions(dir.path()).unwrap_err().to_string().contains("frr"));
    }
}
