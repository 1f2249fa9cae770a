//! Modules that make decisions do no IO. The lints of `clippy.toml` enforce this where a module denies them. This check makes
//! sure that every such module does. It also makes sure that the parts of a node, which several roles share, name none of the roles.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{files, root};

/// The line at the head of a pure module, or of the `mod.rs` above it.
const DENY: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";

/// Files that are pure by the part they play, in every crate.
const ROLES: [&str; 4] = ["desired.rs", "plan.rs", "snapshot.rs", "state.rs"];

/// Folders that are pure as a whole.
const FOLDERS: [&str; 7] = [
    "/desired/",
    "crates/ovn/src/text/",
    "crates/ovsdb/src/model/",
    "crates/ovsdb/src/replica/",
    "crates/ovsdb/src/session/",
    "crates/ovsdb/src/txn/",
    "crates/ovsdb/src/wire/",
];

pub(crate) fn check() -> Result<()> {
    let mut open = Vec::new();
    for file in files("crates/*/src/*.rs")?.into_iter().filter(|file| is_pure(file)) {
        if !denies(Path::new(&file))? {
            open.push(file);
        }
    }
    if !open.is_empty() {
        bail!("modules that decide must begin with `{DENY}`:\n  {}", open.join("\n  "));
    }
    let mut upward = Vec::new();
    for file in files("crates/node/src/*.rs")?.into_iter().filter(|file| is_shared_part(file)) {
        let text =
            std::fs::read_to_string(root().join(&file)).with_context(|| format!("cannot read {file}"))?;
        upward.extend(names_a_role(&text).map(|line| format!("{file}: {line}")));
    }
    if !upward.is_empty() {
        bail!(
            "a part of a node must not name a role; pass the value as an argument:\n  {}",
            upward.join("\n  ")
        );
    }
    Ok(())
}

/// The parts of a node that several roles share.
const SHARED_PARTS: [&str; 8] = ["connections", "flows", "frr", "kernel", "netns", "part", "plane", "ports"];

/// A file of a shared part. Tests may name roles; `recorded.rs` is one.
fn is_shared_part(file: &str) -> bool {
    let Some(path) = file.strip_prefix("crates/node/src/") else { return false };
    let part = path.split(['/', '.']).next().unwrap_or_default();
    SHARED_PARTS.contains(&part) && !path.contains("tests") && !path.ends_with("/recorded.rs")
}

/// The lines of code that name a role's module.
fn names_a_role(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text).lines().map(str::trim);
    let is_code = |line: &&str| !line.starts_with("//");
    code.filter(is_code).filter(|line| line.contains("crate::bgp") || line.contains("crate::metadata"))
}

fn is_pure(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    let by_place = ROLES.contains(&name) || FOLDERS.iter().any(|folder| file.contains(folder));
    by_place && name != "tests.rs" && !file.contains("/tests/")
}

/// Lint levels are inherited, so the line may be in the module itself or in any module above it.
fn denies(file: &Path) -> Result<bool> {
    let mut places = vec![file.to_path_buf()];
    places.extend(
        file.ancestors().skip(1).flat_map(|folder| [folder.join("mod.rs"), folder.with_extension("rs")]),
    );
    for place in places.iter().map(|place| root().join(place)).filter(|place| place.is_file()) {
        let text =
            std::fs::read_to_string(&place).with_context(|| format!("cannot read {}", place.display()))?;
        if text.contains(DENY) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deciders_planners_and_whole_folders_are_pure() {
        assert!(is_pure("crates/ovn/src/target/plan.rs"));
        assert!(is_pure("crates/api/src/desired/nat.rs"));
        assert!(is_pure("crates/ovsdb/src/session/lock.rs"));
        assert!(is_pure("crates/ovsdb/src/model/reference.rs"));
        assert!(!is_pure("crates/ovn/src/target/apply.rs"));
        assert!(!is_pure("crates/ovsdb/src/session/tests/rig.rs"));
        assert!(!is_pure("crates/ovsdb/src/client/task.rs"));
    }

    #[test]
    fn every_module_that_decides_says_so() {
        check().unwrap();
    }

    #[test]
    fn parts_of_a_node_name_no_role() {
        assert!(
            is_shared_part("crates/node/src/plane/target.rs") && is_shared_part("crates/node/src/netns.rs")
        );
        assert!(
            !is_shared_part("crates/node/src/bgp/agent.rs")
                && !is_shared_part("crates/node/src/frr/recorded.rs")
        );
        let text = "/// [`crate::bgp`]\nuse crate::bgp::PORT_MARK;\n#[cfg(test)]\nmod tests {\nuse crate::bgp::X;\n}\n";
        assert_eq!(names_a_role(text).collect::<Vec<_>>(), ["use crate::bgp::PORT_MARK;"]);
    }

    #[test]
    fn a_module_above_speaks_for_those_below() {
        assert!(denies(Path::new("crates/ovsdb/src/session/lock.rs")).unwrap());
        assert!(!denies(Path::new("crates/ovsdb/src/client/task.rs")).unwrap());
    }
}
