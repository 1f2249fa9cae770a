//! The picture as text: a tree for each network, and the cables without a network.

use std::fmt;

use super::{Host, Picture};

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut underlay: Vec<Branch> = Vec::new();
        for (name, address) in &self.centrals {
            underlay.push(Branch::leaf(format!("{name}  central, {address}")));
        }
        for chassis in &self.chassis {
            let mut line = format!("{}  chassis, {}", chassis.name, chassis.address);
            for mapping in &chassis.mappings {
                line += &format!(", {mapping}");
            }
            let vms = chassis.vms.iter().map(|vm| told(vm, "VM")).collect();
            underlay.push(Branch { line, below: vms });
        }
        tree(f, "underlay", &underlay)?;
        for (bridge, (wired, hosts)) in &self.physnets {
            let wired = wired.iter().map(|end| format!("{}  {}", end.node, end.device));
            let hosts = hosts.iter().map(|host| told(host, "host"));
            let branches: Vec<Branch> = wired.chain(hosts).map(Branch::leaf).collect();
            tree(f, &format!("physical network {}", bridge.trim_start_matches("br-")), &branches)?;
        }
        let end = |end: &super::End| {
            let addresses = self.addresses(end);
            [end.node.as_str(), &end.device, &addresses].join(" ").trim_end().to_owned()
        };
        let cables = self.cables.iter().map(|(a, b)| Branch::leaf(format!("{} ── {}", end(a), end(b))));
        tree(f, "cables", &cables.collect::<Vec<_>>())?;
        let cabled = |name: &String| self.cables.iter().any(|(a, b)| a.node == *name || b.node == *name);
        let lonely = self.others.iter().filter(|name| !cabled(name));
        tree(f, "on their own", &lonely.cloned().map(Branch::leaf).collect::<Vec<_>>())
    }
}

fn told(host: &Host, kind: &str) -> String {
    if host.addresses.is_empty() {
        format!("{}  {kind}", host.name)
    } else {
        format!("{}  {kind}, {}", host.name, host.addresses)
    }
}

/// A line and the lines that hang on it.
struct Branch {
    line: String,
    below: Vec<String>,
}

impl Branch {
    fn leaf(line: String) -> Branch {
        Branch { line, below: Vec::new() }
    }
}

/// Writes a heading and its branches; nothing if there are no branches.
fn tree(f: &mut fmt::Formatter<'_>, heading: &str, branches: &[Branch]) -> fmt::Result {
    if branches.is_empty() {
        return Ok(());
    }
    writeln!(f, "{heading}")?;
    for (at, branch) in branches.iter().enumerate() {
        let (fork, rail) = if at + 1 == branches.len() { ("└─", "  ") } else { ("├─", "│ ") };
        writeln!(f, "{fork} {}", branch.line)?;
        for (at, line) in branch.below.iter().enumerate() {
            let fork = if at + 1 == branch.below.len() { "└─" } else { "├─" };
            writeln!(f, "{rail} {fork} {line}")?;
        }
    }
    Ok(())
}
