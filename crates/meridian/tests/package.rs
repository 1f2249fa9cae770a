//! The Debian package: builds it from the program under test, as a release does, and examines its content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn said(command: &mut Command) -> String {
    let out =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; cargo xtask test installs it"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&out.stderr));
    said
}

/// Builds the package without compression, which would take longer than everything else.
fn build(dir: &Path) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/deb");
    let made = said(Command::new(script).arg(env!("CARGO_BIN_EXE_meridian")).arg(dir).arg("-Znone"));
    PathBuf::from(made.trim())
}

/// The files of the package by path, with permissions and owner as `tar` shows them.
fn contents(package: &Path) -> BTreeMap<String, (String, String)> {
    let listed = said(Command::new("dpkg-deb").arg("--contents").arg(package));
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let path = words[5].trim_start_matches('.').trim_end_matches('/').to_owned();
        (path, (words[0].to_owned(), words[1].to_owned()))
    };
    listed.lines().map(line).collect()
}

#[test]
fn the_package_has_all_that_a_node_needs_and_is_sane() {
    let dir = tempfile::tempdir().unwrap();
    let package = build(dir.path());
    let field =
        |name: &str| said(Command::new("dpkg-deb").arg("--field").arg(&package).arg(name)).trim().to_owned();
    assert_eq!(field("Package"), "meridian");
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(field("Architecture"), said(Command::new("dpkg").arg("--print-architecture")).trim());
    let depends = field("Depends");
    assert!(depends.starts_with("libc6 (>= 2."), "{depends}");
    assert!(field("Installed-Size").parse::<u64>().unwrap() > 1000);

    let files = contents(&package);
    for path in [
        "/usr/bin/meridian",
        "/usr/lib/systemd/system/meridian-bgp-agent.service",
        "/usr/lib/systemd/system/meridian-node.service",
        "/usr/lib/systemd/system/meridian-metadata-agent.service",
        "/usr/lib/systemd/system/meridian-metadata-proxy.service",
        "/usr/lib/systemd/system/meridian-server.service",
        "/usr/lib/sysusers.d/meridian.conf",
        "/usr/share/man/man1/meridian.1.gz",
        "/usr/share/man/man1/meridian-bgp-agent.1.gz",
        "/usr/share/bash-completion/completions/meridian",
        "/usr/share/zsh/vendor-completions/_meridian",
        "/usr/share/fish/vendor_completions.d/meridian.fish",
        "/usr/share/doc/meridian/copyright",
        "/usr/share/doc/meridian/changelog.gz",
        "/usr/share/doc/meridian/examples/bgp-agent.conf",
        "/usr/share/doc/meridian/examples/frr.conf",
        "/usr/share/doc/meridian/examples/metadata-haproxy.conf",
        "/usr/share/doc/meridian/examples/openvswitch-group.conf",
        "/etc/meridian/meridian.toml",
    ] {
        assert!(files.contains_key(path), "{path} is missing in {:#?}", files.keys());
    }
    for (path, (mode, owner)) in &files {
        assert_eq!(owner, "root/root", "{path}");
        let wanted = match (mode.starts_with('d'), path.as_str()) {
            (true, _) => "drwxr-xr-x",
            (false, "/usr/bin/meridian") => "-rwxr-xr-x",
            // The file may contain passwords. `postinst` sets its group.
            (false, "/etc/meridian/meridian.toml") => "-rw-r-----",
            (false, _) => "-rw-r--r--",
        };
        assert_eq!(mode, wanted, "{path}");
        let known =
            ["/usr", "/etc", ""].iter().any(|top| path == top || path.starts_with(&format!("{top}/")));
        assert!(known && !path.starts_with("/usr/local"), "{path} is no place for a package's files");
    }

    let (data, control) = (dir.path().join("data"), dir.path().join("control"));
    said(Command::new("dpkg-deb").arg("--raw-extract").arg(&package).arg(&data));
    said(Command::new("dpkg-deb").arg("--control").arg(&package).arg(&control));
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    // Every file under /etc is a conffile, so that an upgrade keeps the operator's changes.
    let settings: Vec<&String> = files
        .iter()
        .filter(|(path, (mode, _))| path.starts_with("/etc/") && mode.starts_with('-'))
        .map(|(path, _)| path)
        .collect();
    let conffiles = read(&control.join("conffiles"));
    assert_eq!(conffiles.lines().collect::<Vec<_>>(), settings);
    said(Command::new("md5sum").args(["--quiet", "--check"]).arg(control.join("md5sums")).current_dir(&data));
    for script in ["postinst", "prerm", "postrm"] {
        said(Command::new("sh").arg("-n").arg(control.join(script)));
    }
    // An upgrade restarts the running units, and a removal stops them, so the scripts must name each unit.
    for unit in files.keys().filter_map(|path| path.strip_prefix("/usr/lib/systemd/system/")) {
        for script in ["postinst", "prerm"] {
            let text = read(&control.join(script));
            assert!(text.split_whitespace().any(|word| word == unit), "{script} forgets {unit}:\n{text}");
        }
    }

    // Each unit starts a program of the package as a user of the package, and its manual page exists.
    let users = read(&data.join("usr/lib/sysusers.d/meridian.conf"));
    let examples = data.join("usr/share/doc/meridian/examples");
    let switch = read(&examples.join("openvswitch-group.conf"));
    let unit_of = |unit: &str| read(&data.join(format!("usr/lib/systemd/system/{unit}.service")));
    for unit in ["meridian-bgp-agent", "meridian-node"] {
        let text = unit_of(unit);
        let value =
            |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap();
        // The agent is ready when it has converged, and its start has no time limit, because it waits for its inputs.
        assert_eq!((value("Type"), value("TimeoutStartSec")), ("notify", "infinity"), "{unit}");
        let groups: Vec<&str> = value("SupplementaryGroups").split(' ').collect();
        for group in &groups {
            assert!(
                users.contains(&format!("g {group} -")),
                "{unit} has the group {group}, which nobody makes"
            );
        }
        // The agent has the group that Open vSwitch's sockets get.
        let group = switch.lines().find_map(|line| line.strip_prefix("Group=")).unwrap();
        assert!(groups.contains(&group) && text.contains(&format!("chgrp {group} ")), "{unit}: {group}");
        let words: Vec<&str> = value("ExecStart").split(' ').collect();
        assert!(files.contains_key(words[0]), "{unit} starts {}", words[0]);
        assert!(users.contains(&format!("u {} -", value("User"))), "{unit} runs as {}", value("User"));
        let manual = value("Documentation").trim_start_matches("man:").trim_end_matches("(1)");
        assert!(files.contains_key(&format!("/usr/share/man/man1/{manual}.1.gz")), "{unit}: {manual}");
        let help = said(Command::new(data.join("usr/bin/meridian")).arg(words[1]).arg("--help"));
        assert!(help.contains("--dry-run"), "{help}");
    }
    // The server has a user of its own. No unit dumps core, and systemd restarts each unit that hangs.
    let line = |unit: &str, key: &str| {
        let text = unit_of(unit);
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned)).unwrap()
    };
    assert_ne!(line("meridian-server", "User"), line("meridian-node", "User"));
    assert_ne!(line("meridian-server", "Group"), line("meridian-node", "Group"));
    assert!(users.contains(&format!("u {} -", line("meridian-server", "User"))), "{users}");
    assert_eq!(line("meridian-server", "StateDirectoryMode"), "0700");
    // The process that parses the bytes of VMs has no privilege and a user of its own. Only the metadata agent may create namespaces.
    assert_eq!(line("meridian-metadata-proxy", "CapabilityBoundingSet"), "");
    assert!(users.contains(&format!("u {} -", line("meridian-metadata-proxy", "User"))), "{users}");
    assert!(line("meridian-metadata-agent", "CapabilityBoundingSet").contains("CAP_SYS_ADMIN"));
    for unit in ["meridian-node", "meridian-bgp-agent"] {
        assert_eq!(line(unit, "CapabilityBoundingSet"), "CAP_NET_ADMIN", "{unit}");
    }
    // With a private view of the file system, the host would not see the namespaces.
    let metadata = unit_of("meridian-metadata-agent");
    for key in ["ProtectSystem=", "ProtectHome=", "PrivateTmp=", "PrivateDevices=", "ReadWritePaths="] {
        assert!(!metadata.lines().any(|line| line.starts_with(key)), "{key}");
    }
    for unit in ["meridian-metadata-agent", "meridian-metadata-proxy"] {
        assert!(files.contains_key(&format!("/usr/share/man/man1/{unit}.1.gz")), "{unit}");
        assert_eq!(line(unit, "LimitCORE"), "0", "{unit}");
        assert_eq!(line(unit, "RestartPreventExitStatus"), "2", "{unit}: the code of a wrong configuration");
        let manual = line(unit, "Documentation");
        assert_eq!(manual, format!("man:{unit}(1)"));
    }
    for unit in ["meridian-server", "meridian-node", "meridian-bgp-agent"] {
        assert_eq!(line(unit, "LimitCORE"), "0", "{unit}");
        assert!(line(unit, "WatchdogSec").parse::<u32>().unwrap() > 0, "{unit}");
        let groups = line(unit, "SupplementaryGroups");
        assert!(
            groups.split(' ').any(|group| group == "meridian-config"),
            "{unit} reads the configuration: {groups}"
        );
    }
    assert!(users.contains("g meridian-config -"), "{users}");
    // Both units run with the same privileges, which the lab tests with one of them.
    let service = |unit: &str| -> Vec<String> {
        let text = unit_of(unit);
        let (_, service) = text.split_once("[Service]").unwrap();
        service.lines().filter(|line| !line.starts_with("ExecStart=")).map(str::to_owned).collect()
    };
    assert_eq!(service("meridian-bgp-agent"), service("meridian-node"));
    // The program accepts the sample configuration unchanged.
    let sample = data.join("etc/meridian/meridian.toml");
    said(
        Command::new(data.join("usr/bin/meridian"))
            .arg("--config")
            .arg(&sample)
            .args(["node", "--print-config"]),
    );
    // With the unchanged sample the server opens no API, because the operator has to choose the authentication.
    let mut server = Command::new(data.join("usr/bin/meridian"));
    server.arg("--config").arg(&sample).args(["server", "--data-dir"]).arg(dir.path().join("state"));
    let out = server.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    for word in ["server.auth", "keystone", "basic", "token", "none"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!dir.path().join("state").exists(), "before anything is made");
}
