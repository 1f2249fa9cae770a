//! Processes of ovn-bgp-agent beside this one: each of the two would remove what the other writes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// Interval between searches for a process of ovn-bgp-agent.
const LOOK: Duration = Duration::from_secs(10);
/// The program that this agent takes the place of.
pub const FORMER: &str = "ovn-bgp-agent";

/// Keeps known which processes in this network namespace are an ovn-bgp-agent.
pub(super) async fn look_for_former(found: watch::Sender<BTreeSet<u32>>) {
    loop {
        let now = tokio::task::spawn_blocking(|| former(Path::new("/proc"))).await.unwrap_or_default();
        found.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        sleep(LOOK).await;
    }
}

/// The processes of a `/proc` that are an ovn-bgp-agent and share our network namespace, as far as that may be read.
fn former(proc: &Path) -> BTreeSet<u32> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/net")).ok();
    let own = namespace(&proc.join("self"));
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes =
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    let is_former = |path: &Path| {
        let elsewhere = namespace(path).zip(own.clone()).is_some_and(|(theirs, ours)| theirs != ours);
        !elsewhere && fs::read(path.join("cmdline")).is_ok_and(|line| is_former_command(&line))
    };
    processes.filter(|(_, path)| is_former(path)).map(|(pid, _)| pid).collect()
}

/// Whether a command line is that of an ovn-bgp-agent: its name is the program's, or that of the script that Python runs.
fn is_former_command(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0).map(|word| Path::new(OsStr::from_bytes(word)).file_name());
    let python = |name: Option<&OsStr>| name.is_some_and(|name| name.as_bytes().starts_with(b"python"));
    let is = |name: Option<&OsStr>| name == Some(OsStr::new(FORMER));
    let program = words.next().flatten();
    // Packages give Python options of its own, as in `python3 -s SCRIPT`.
    let is_option = |name: &Option<&OsStr>| name.is_some_and(|name| name.as_bytes().starts_with(b"-"));
    is(program) || python(program) && words.find(|word| !is_option(word)).is_some_and(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_an_ovn_bgp_agent() {
        for (line, is) in [
            (&b"/usr/bin/python3\0/usr/bin/ovn-bgp-agent\0--config-dir\0/etc\0"[..], true),
            (b"/usr/bin/ovn-bgp-agent\0", true),
            (b"ovn-bgp-agent", true),
            (b"/usr/bin/python3\0-s\0/usr/bin/ovn-bgp-agent\0", true),
            (b"/usr/bin/python3\0-m\0http.server\0", false),
            (b"vi\0/etc/ovn-bgp-agent\0", false),
            (b"/usr/bin/meridian\0bgp-agent\0", false),
            (b"", false),
        ] {
            assert_eq!(is_former_command(line), is, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn those_elsewhere_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, namespace, command) in [
            ("self", "net:[1]", "meridian"),
            ("7", "net:[1]", "ovn-bgp-agent"),
            ("8", "net:[2]", "ovn-bgp-agent"),
            ("9", "net:[1]", "ovn-controller"),
            ("sys", "net:[1]", "ovn-bgp-agent"),
        ] {
            let process = dir.path().join(pid);
            fs::create_dir_all(process.join("ns")).unwrap();
            std::os::unix::fs::symlink(namespace, process.join("ns/net")).unwrap();
            fs::write(process.join("cmdline"), command).unwrap();
        }
        assert_eq!(former(dir.path()), [7].into());
    }
}
