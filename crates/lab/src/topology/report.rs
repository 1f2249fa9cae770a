//! The report of a failed test: the state of every node in the job folder, and the relevant part of it in the output.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::Lab;
use super::trace::verdicts;
use crate::node::Node;

/// The number of lines of a log in the report.
const TAIL: usize = 6;

/// Writes the report when dropped, unless the test marked itself as passed.
pub(super) struct Guard<'a> {
    lab: &'a Lab,
    fine: bool,
}

impl<'a> Guard<'a> {
    pub(super) fn new(lab: &'a Lab) -> Guard<'a> {
        Guard { lab, fine: false }
    }

    pub(super) fn fine(mut self) {
        self.fine = true;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.fine {
            self.lab.report();
        }
    }
}

impl Lab {
    /// Writes the state of every node into the job folder, and prints the parts that are likely to explain a failure.
    pub fn report(&self) {
        let dir = self.job().join("report");
        let _ = fs::create_dir_all(&dir);
        let picture = self.picture();
        keep(&dir, "topology", &picture.to_string());
        let _ = fs::write(self.job().join("topology.svg"), picture.svg());
        for node in self.nodes() {
            for daemon in node.daemons().iter().filter(|daemon| !daemon.alive()) {
                println!("{}: {} does not run", node.label(), daemon.name());
            }
            keep(&dir, node.label(), &about(&node));
            keep_databases(&dir, &node);
        }
        for central in self.centrals() {
            let show = |tool: &str, base: &str| {
                let socket = central.dir().join(base);
                asked(
                    central,
                    &[
                        tool,
                        "--timeout=5",
                        "--no-leader-only",
                        &format!("--db=unix:{}", socket.display()),
                        "show",
                    ],
                )
            };
            let text = format!("{}{}", show("ovn-nbctl", "nb.sock"), show("ovn-sbctl", "sb.sock"));
            println!("{text}");
            keep(&dir, &format!("{}-show", central.label()), &text);
        }
        for chassis in self.all_chassis() {
            let db = format!("--db=unix:{}", chassis.dir().join("db.sock").display());
            let mut text = asked(chassis, &["ovs-vsctl", "--timeout=5", &db, "show"]);
            for name in ["br-int", "br-ex", "br-under"] {
                let socket = chassis.dir().join(format!("{name}.mgmt"));
                if socket.exists() {
                    let bridge = format!("unix:{}", socket.display());
                    text += &asked(chassis, &["ovs-ofctl", "--timeout=5", "show", &bridge]);
                    text += &asked(chassis, &["ovs-ofctl", "--timeout=5", "dump-flows", &bridge]);
                }
            }
            for words in
                [&["dpif/show"][..], &["dpctl/dump-flows"], &["dpctl/dump-conntrack"], &["tnl/arp/show"]]
            {
                let said = chassis.appctl(words).unwrap_or_else(|error| format!("{error:#}\n"));
                text += &format!("# {}\n{said}\n", words.join(" "));
            }
            keep(&dir, &format!("{}-switch", chassis.label()), &text);
        }
        for (name, trace) in self.traces() {
            verdicts(&trace).for_each(|line| println!("{line}"));
            keep(&dir, &name, &trace);
        }
        print_complaints(&self.job().join("logs"));
    }
}

/// The kernel's view of a node.
fn about(node: &Node) -> String {
    let lines = [
        "ip -d address",
        "ip route show table all",
        "ip -6 route show table all",
        "ip rule",
        "ip -6 rule",
        "ip neighbour",
        "ip neighbour show proxy",
        "ss -tunap",
    ];
    lines.iter().map(|line| asked(node, &line.split(' ').collect::<Vec<_>>())).collect()
}

/// A command line and its output, after success or failure.
fn asked(node: &Node, args: &[&str]) -> String {
    let said = node.run_args(args).unwrap_or_else(|error| format!("{error:#}\n"));
    format!("# {}\n{said}\n", args.join(" "))
}

fn keep(dir: &Path, name: &str, text: &str) {
    if let Err(error) = fs::write(dir.join(format!("{name}.txt")), text) {
        println!("cannot keep the report on {name}: {error}");
    }
}

fn keep_databases(dir: &Path, node: &Node) {
    for base in ["nb.db", "sb.db", "conf.db"] {
        let from = node.dir().join(base);
        if from.exists() {
            let _ = fs::copy(from, dir.join(format!("{}-{base}", node.label())));
        }
    }
}

/// The last warnings and errors of each log.
fn print_complaints(logs: &Path) {
    let Ok(entries) = fs::read_dir(logs) else { return };
    let mut text = String::new();
    let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok()).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let whole = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        let plain = path.extension().is_some_and(|ending| ending == "out");
        let telling: Vec<&str> = whole
            .lines()
            .filter(|line| {
                plain
                    || ["|ERR|", "|EMER|", "|WARN|", " ERR:", " WARN:"].iter().any(|mark| line.contains(mark))
            })
            .collect();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for line in &telling[telling.len().saturating_sub(TAIL)..] {
            let _ = writeln!(text, "{name}: {line}");
        }
    }
    print!("{text}");
}
