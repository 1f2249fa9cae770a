//! Tests that need no server: configuration, help, completions, man pages, check-schema.

mod common;

use common::{meridian, run, run_args};

/// Every command as typed, found by following the lists of commands in `--help`.
fn commands() -> Vec<String> {
    fn below(command: &str, found: &mut Vec<String>) {
        let help = run(&format!("{command} --help")).ok();
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in listed.take_while(|line| !line.trim().is_empty()) {
            // The description of a command may continue on the next line, further indented.
            let Some(name) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) else { continue };
            let name = name.split(' ').next().unwrap_or_default();
            if name != "help" {
                let whole = format!("{command} {name}").trim_start().to_owned();
                found.push(whole.clone());
                below(&whole, found);
            }
        }
    }
    let mut found = Vec::new();
    below("", &mut found);
    for known in ["server", "import neutron", "ovsdb check-schema", "man"] {
        assert!(found.iter().any(|command| command == known), "{known} in {found:?}");
    }
    found
}

#[test]
fn every_command_has_help() {
    let help = run("--help").ok();
    for code in ["0  success", "3  no server could be reached"] {
        assert!(help.contains(code), "{help}");
    }
    for command in commands() {
        let help = run(&format!("{command} --help")).ok();
        assert!(help.contains(&format!("Usage: meridian {command}")), "{help}");
        let about = help.lines().next().unwrap_or_default();
        assert!(!about.is_empty() && !about.starts_with("Usage"), "{command} says what it does: {help}");
    }
}

#[test]
fn without_a_command_help_is_shown_and_it_fails() {
    let ran = run("");
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("Usage: meridian") && ran.err.contains("no command was given"), "{ran:?}");
    assert_eq!(run("frobnicate").code, 2);
    assert_eq!(run("--version").ok(), format!("meridian {}\n", env!("CARGO_PKG_VERSION")));
}

/// A string that a shell's completion script contains for this command only. The name alone also occurs in descriptions.
fn in_script(shell: &str, command: &str) -> String {
    let (parents, last) = command.rsplit_once(' ').unwrap_or(("", command));
    let parents = parents.split(' ').filter(|word| !word.is_empty());
    let within: String = parents.map(|word| format!("__subcmd__{word}")).collect();
    match shell {
        "bash" => format!(" meridian{within},{last})\n"),
        "zsh" => format!("({last})\n"),
        "fish" => format!(" -a \"{last}\" "),
        _ => format!("'meridian;{}'", command.replace(' ', ";")),
    }
}

#[test]
fn completions_know_every_command() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&format!("completions {shell}")).ok();
        for command in &commands {
            let line = in_script(shell, command);
            assert!(script.contains(&line), "{line} in {shell}");
        }
    }
    assert_eq!(run("completions csh").code, 2);
}

#[test]
fn the_bash_completion_is_a_script() {
    let script = run("completions bash").ok();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("meridian.bash");
    std::fs::write(&file, script).unwrap();
    let status = std::process::Command::new("bash").arg("-n").arg(&file).status().unwrap();
    assert!(status.success());
}

#[test]
fn man_pages_are_written_for_every_command() {
    let page = run("man").ok();
    assert!(page.contains(".TH meridian 1") && page.contains("Exit codes"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    run_args(&["man", pages.to_str().unwrap()]).ok();
    for command in commands() {
        let file = pages.join(format!("meridian-{}.1", command.replace(' ', "-")));
        let text = std::fs::read_to_string(&file).expect(&command);
        assert!(text.contains("SYNOPSIS"), "{text}");
    }
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let err = run_args(&["man", file.to_str().unwrap()]).fails(5, dir.path());
    assert!(err.starts_with("error: cannot write man pages to DIR/file\n  cause: "), "{err}");
}

#[test]
fn wrong_configuration_is_told_with_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.toml");
    std::fs::write(&file, "[ovsdb]\nremot = \"x\"\n\n[log]\nlevel = \"loud\"\n[metricks]\n").unwrap();
    let err = run_args(&["--config", file.to_str().unwrap(), "--print-config"]).fails(2, dir.path());
    assert_eq!(
        err,
        "error: invalid configuration
  DIR/m.toml:2: unknown key `ovsdb.remot`; did you mean `ovsdb.remote`?
  DIR/m.toml:5: `log.level`: `loud` is none of off, error, warn, info, debug, trace
  DIR/m.toml:6: unknown section `metricks`; did you mean `metrics`?; there are ovsdb, log, metrics, admin, bgp, metadata, server, network, kube
  try: `meridian --print-config` with it corrected
"
    );
    let gone = dir.path().join("gone.toml");
    let err = run_args(&["--config", gone.to_str().unwrap(), "man"]).fails(2, dir.path());
    assert!(err.contains("DIR/gone.toml: cannot be read: No such file or directory"), "{err}");
}

#[test]
fn a_printed_configuration_is_checked_for_the_agent_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.toml");
    std::fs::write(&file, "[bgp]\nbgp_vrf_table_id = \"ten\"\n").unwrap();
    let err = run_args(&["--config", file.to_str().unwrap(), "--print-config"]).fails(2, dir.path());
    assert!(err.contains("DIR/m.toml:2: [bgp] bgp_vrf_table_id: "), "{err}");
}

#[test]
fn the_configuration_in_effect_says_where_it_is_from() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.toml");
    std::fs::write(&file, "[ovsdb]\nremote = \"tcp:192.0.2.1:6641,unix:/x\"\ntimeout = \"2s\"\n").unwrap();
    let output = meridian()
        .args(["--print-config", "-v", "--log-format", "json"])
        .env("MERIDIAN_CONFIG", &file)
        .env("MERIDIAN_OVSDB_TIMEOUT", "3s")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap().replace(dir.path().to_str().unwrap(), "DIR");
    for line in [
        "remote = [\"tcp:192.0.2.1:6641\", \"unix:/x\"]  # from DIR/m.toml:2",
        "timeout = \"3s\"  # from MERIDIAN_OVSDB_TIMEOUT",
        "level = \"debug\"  # from -v",
        "format = \"json\"  # from --log-format",
        "leader_only = true  # from default",
        "# socket is not set",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nin\n{text}");
    }
}

#[test]
fn a_misspelt_variable_is_warned_about() {
    let output = meridian().arg("man").env("MERIDIAN_OVSDB_REMOTES", "x").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.contains("unknown variable MERIDIAN_OVSDB_REMOTES; did you mean `MERIDIAN_OVSDB_REMOTE`?"),
        "{err}"
    );
    let output = meridian().arg("man").env("MERIDIAN_LOG", "=[").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("error: invalid log filter from MERIDIAN_LOG: "), "{err}");
}

#[test]
fn remotes_that_lead_nowhere_are_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let err = run("ovsdb dump --remote /run/ovn/nb.sock D T").fails(2, dir.path());
    assert!(err.ends_with("  try: unix:/run/ovn/nb.sock\n"), "{err}");
    let err = run("ovsdb dump --remote tcp:no..where:6641 D T").fails(3, dir.path());
    assert!(
        err.starts_with("error: cannot find the address of no..where\n")
            && err.contains("  try: the name of the host"),
        "{err}"
    );
}

#[test]
fn installed_schemas_fit() {
    let out = run("ovsdb check-schema /usr/share/ovn/ovn-nb.ovsschema /usr/share/ovn/ovn-sb.ovsschema \
                   /usr/share/openvswitch/vswitch.ovsschema")
    .ok();
    let verdicts = out.lines().filter(|line| line.ends_with(" fits")).count();
    assert_eq!(verdicts, 3, "{out}");
    let out = run("ovsdb check-schema --output json /usr/share/ovn/ovn-nb.ovsschema").ok();
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["database"], "OVN_Northbound");
    assert_eq!(report["fits"], true);
}

#[test]
fn schemas_of_every_supported_version_fit() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../ovn/testdata/schema");
    let files: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|name| name.ends_with(".json"))
        .collect();
    for version in ["ovn-nb-23.03", "ovn-sb-25.03", "ovn-nb-26.03", "vswitch-3.1"] {
        assert!(files.iter().any(|file| file.contains(version)), "{version} in {files:?}");
    }
    let mut args = vec!["ovsdb", "check-schema"];
    args.extend(files.iter().map(String::as_str));
    let out = run_args(&args).ok();
    assert_eq!(out.lines().filter(|line| line.ends_with(" fits")).count(), files.len(), "{out}");
    let absent = |version: &str| {
        let file = files.iter().find(|file| file.contains(version)).unwrap();
        let report: serde_json::Value =
            serde_json::from_str(&run_args(&["ovsdb", "check-schema", "-o", "json", file]).ok()).unwrap();
        report["absent"].as_array().unwrap().len()
    };
    assert!(absent("ovn-nb-23.03") > absent("ovn-nb-26.03"), "an old OVN lacks what a new one has");
}

#[test]
fn a_schema_that_does_not_fit_is_refused_with_everything_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string("/usr/share/ovn/ovn-nb.ovsschema").unwrap();
    let mut schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tables = schema["tables"].as_object_mut().unwrap();
    tables.remove("NAT");
    let columns = tables["Logical_Switch"]["columns"].as_object_mut().unwrap();
    columns.remove("name");
    columns["ports"] = serde_json::json!({"type": "integer"});
    let file = dir.path().join("nb.ovsschema");
    std::fs::write(&file, schema.to_string()).unwrap();
    let ran = run_args(&["ovsdb", "check-schema", file.to_str().unwrap()]);
    for line in [
        "  misfit: table NAT does not exist",
        "  misfit: table Logical_Switch has no column name",
        "  misfit: table Logical_Switch, column ports: expected set of uuids (strong reference to Logical_Switch_Port), the schema says integer",
    ] {
        assert!(ran.out.lines().any(|found| found == line), "{line}\nin\n{}", ran.out);
    }
    let err = ran.fails(1, dir.path());
    assert!(err.starts_with("error: 1 of 1 schemas do not fit\n  try: "), "{err}");
}

#[test]
fn a_file_that_is_no_schema_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    let name = file.to_str().unwrap();
    let err = run_args(&["ovsdb", "check-schema", name]).fails(5, dir.path());
    assert_eq!(err, "error: cannot read DIR/x\n  cause: No such file or directory (os error 2)\n");
    std::fs::write(&file, "{\"name\":\"x\"}").unwrap();
    let err = run_args(&["ovsdb", "check-schema", name]).fails(5, dir.path());
    assert!(
        err.starts_with("error: DIR/x holds no schema\n  cause: schema x: `tables` is missing\n  try: "),
        "{err}"
    );
}

#[test]
fn packages_get_man_pages_and_completions() {
    let dir = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/generate");
    let status = std::process::Command::new(script)
        .args([env!("CARGO_BIN_EXE_meridian"), dir.path().to_str().unwrap()])
        .env("MERIDIAN_CONFIG", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success());
    for file in [
        "man/man1/meridian.1",
        "man/man1/meridian-ovsdb-check-schema.1",
        "bash-completion/completions/meridian",
        "zsh/vendor-completions/_meridian",
        "fish/vendor_completions.d/meridian.fish",
    ] {
        let meta = std::fs::metadata(dir.path().join("usr/share").join(file)).expect(file);
        assert!(meta.len() > 500, "{file}");
    }
}
