//! Checks the codes of problems that the server and a node's agents report.
//!
//! The codes of the BGP agent are an enum, `node::ProblemCode`, and a test of it compares them with the guide; this check makes sure that its
//! sources contain no code as a string. The metadata agent's codes are strings: each has a row on its page, and every row has a code. So do the
//! server's.
//!
//! A code is a quoted string with hyphens in a source file that reports problems. The few other such strings are listed here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::root;

/// The sources of all agents of a node.
const NODE: &str = "crates/node/src";
/// The sources of the metadata agent, and its page.
const METADATA: &str = "crates/node/src/metadata";
const METADATA_PAGE: &str = "docs/src/metadata.md";
/// The enum itself.
const ENUM: &str = "crates/node/src/problem_code.rs";
/// The sources of the server's problems, and their page.
const SERVER: [&str; 4] = [
    "crates/api/src",
    "crates/ovn/src/writer",
    "crates/ovn/src/target",
    // The codes of every loop.
    "crates/reconcile/src/loop_code.rs",
];
const SERVER_PAGE: &str = "docs/src/server-trouble.md";
/// The names by which a source file reports problems: directly, or through a draft of a decision.
const REPORTS: [&str; 3] = ["Problem::", "Draft", "LoopCode::"];
/// Quoted strings with hyphens that are no codes.
const OTHERS: [&str; 19] = [
    // FRR's and OVN's words on the node.
    "address-family",
    "chassis-redirect-port",
    "exit-address-family",
    "exit-vni",
    "ovn-bridge-mappings",
    // Options of rows of the Northbound.
    "activation-strategy",
    "exclude-lb-vips-from-garp",
    "nat-addresses",
    "ovn-owned",
    "requested-chassis",
    "router-port",
    "virtual-ip",
    "virtual-parents",
    "vtep-logical-switch",
    "vtep-physical-switch",
    "direct-physical",
    // Nova's events.
    "network-vif-deleted",
    "network-vif-plugged",
    "network-vif-unplugged",
];

/// The errors in codes and pages.
pub(crate) fn problems() -> Result<Vec<String>> {
    let mut codes = BTreeSet::new();
    gather(&root().join(METADATA), &[], &mut codes)?;
    let page = root().join(METADATA_PAGE);
    let text = std::fs::read_to_string(page).with_context(|| format!("cannot read {METADATA_PAGE}"))?;
    let mut wrong = compare(METADATA_PAGE, &codes, &text);
    let mut codes = BTreeSet::new();
    for source in SERVER {
        gather(&root().join(source), &[], &mut codes)?;
    }
    let page = root().join(SERVER_PAGE);
    let text = std::fs::read_to_string(page).with_context(|| format!("cannot read {SERVER_PAGE}"))?;
    wrong.extend(compare(SERVER_PAGE, &codes, &text));
    let mut strings = BTreeSet::new();
    gather(&root().join(NODE), &[root().join(METADATA), root().join(ENUM)], &mut strings)?;
    wrong.extend(strings.iter().map(|code| format!("{NODE}: \"{code}\" is a string; make it a ProblemCode")));
    Ok(wrong)
}

fn compare(page: &str, codes: &BTreeSet<String>, text: &str) -> Vec<String> {
    let told = explained(text);
    let missing = codes.difference(&told).map(|code| format!("{page}: `{code}` is not explained"));
    let stale = told.difference(codes).map(|code| format!("{page}: nothing reports `{code}`"));
    missing.chain(stale).collect()
}

/// The codes in a file, or in all files below a directory, except for some paths. Tests report nothing.
fn gather(path: &Path, without: &[PathBuf], codes: &mut BTreeSet<String>) -> Result<()> {
    let said = || format!("cannot read {}", path.display());
    if path.is_dir() {
        for entry in std::fs::read_dir(path).with_context(said)? {
            let path = entry.with_context(said)?.path();
            if path.file_stem().is_some_and(|name| name != "tests") && !without.contains(&path) {
                gather(&path, without, codes)?;
            }
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        codes.extend(reported(&std::fs::read_to_string(path).with_context(said)?));
    }
    Ok(())
}

/// The codes of problems in a source.
fn reported(source: &str) -> BTreeSet<String> {
    let source = match source.match_indices("#[cfg(test)]\n").find(|(at, mark)| {
        source[at + mark.len()..].lines().next().is_some_and(|line| line.contains("mod tests"))
    }) {
        Some((at, _)) => &source[..at],
        None => source,
    };
    if !REPORTS.iter().any(|word| source.contains(word)) {
        return BTreeSet::new();
    }
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(quoted).filter(|word| is_code(word) && !OTHERS.contains(word)).map(str::to_owned).collect()
}

/// The quoted strings of a line, without kinds of objects.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    let pieces: Vec<&str> = line.split('"').collect();
    let kind = |before: &str| before.ends_with("ObjectId::new(");
    let quoted = pieces.chunks_exact(2).filter(move |pair| !kind(pair[0])).map(|pair| pair[1]);
    quoted.collect::<Vec<_>>().into_iter()
}

/// The codes that the first cells of the page's rows have.
fn explained(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.filter(|word| is_code(word)).map(str::to_owned).collect()
}

/// Small letters with dashes between them.
fn is_code(word: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase());
    word.contains('-') && word.split('-').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "// \"no-comment\"\nfn plan() {\n    report(Problem::error(object, class, \"no-bridge\", what));\n    \
        bad(ObjectId::new(\"load-balancer\", name), \"bad-vlan\", \"two words\", \"chassis-redirect-port\", \"2-3\");\n}\n\n#[cfg(test)]\nmod tests {\n    \"br-ex\";\n}\n";

    #[test]
    fn codes_are_found_in_what_reports_problems() {
        let codes: Vec<String> = reported(SOURCE).into_iter().collect();
        assert_eq!(codes, ["bad-vlan", "no-bridge"]);
        assert!(reported(&SOURCE.replace("Problem::", "Other::")).is_empty());
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_is_named() {
        let page = "`no-prose` is not a row\n| it says | do |\n|---|---|\n| `bad-vlan`, `gone-away` | use `no-cell` |\n";
        assert_eq!(
            compare("docs/src/bgp-trouble.md", &reported(SOURCE), page),
            [
                "docs/src/bgp-trouble.md: `no-bridge` is not explained",
                "docs/src/bgp-trouble.md: nothing reports `gone-away`"
            ]
        );
    }

    #[test]
    fn every_problem_of_the_server_and_of_a_node_is_explained() {
        assert_eq!(problems().unwrap(), [] as [String; 0]);
    }
}
