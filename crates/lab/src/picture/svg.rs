//! The picture as SVG, without a library. From top to bottom: spines and centrals, the underlay, chassis with their VMs, physical networks
//! and their hosts, with a column for each chassis.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Picture;

const WIDTH: usize = 190;
const HEIGHT: usize = 44;
const GAP: usize = 30;
const COLUMN: usize = WIDTH + GAP;
/// A VM's box begins this much further right than its chassis', which leaves room for the chassis' wires.
const INDENT: usize = 30;

/// The drawing so far. Lines are separate, to be painted below all boxes.
#[derive(Default)]
struct Canvas {
    lines: String,
    boxes: String,
    /// The left upper corner of each node's box.
    at: BTreeMap<String, (usize, usize)>,
}

impl Canvas {
    fn node(&mut self, x: usize, y: usize, width: usize, colour: &str, name: &str, detail: &str) {
        self.at.insert(name.to_owned(), (x, y));
        let middle = x + width / 2;
        let _ = writeln!(
            self.boxes,
            r##"<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="5" fill="{colour}" stroke="#444"/>"##
        );
        self.text(middle, y + 18, "14", name);
        self.text(middle, y + 35, "10", detail);
    }

    fn text(&mut self, x: usize, y: usize, size: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(
            self.boxes,
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="middle">{text}</text>"#
        );
    }

    fn line(&mut self, from: (usize, usize), to: (usize, usize)) {
        let _ = writeln!(
            self.lines,
            r##"<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="#444"/>"##,
            from.0, from.1, to.0, to.1
        );
    }

    /// A network: a bar across the picture, with its name.
    fn bar(&mut self, y: usize, width: usize, name: &str) {
        let _ = writeln!(
            self.boxes,
            r##"<rect x="{GAP}" y="{y}" width="{}" height="18" fill="#ddd" stroke="#444"/>"##,
            width - 2 * GAP
        );
        self.text(width / 2, y + 13, "11", name);
    }
}

impl Picture {
    /// The SVG document.
    pub fn svg(&self) -> String {
        let hosts = self.physnets.values().map(|(_, hosts)| hosts.len()).max().unwrap_or(0);
        let columns =
            [self.chassis.len(), self.centrals.len() + self.others.len(), hosts, 1].into_iter().max();
        let width = GAP + columns.unwrap_or(1) * COLUMN;
        let column = |at: usize| GAP + at * COLUMN;
        let mut canvas = Canvas::default();
        let mut y = GAP;
        for (at, name) in self.others.iter().enumerate() {
            canvas.node(column(at), y, WIDTH, "#fff3cd", name, "");
        }
        let bar = y + HEIGHT + GAP;
        for (at, (name, address)) in self.centrals.iter().enumerate() {
            let x = column(self.others.len() + at);
            canvas.node(x, y, WIDTH, "#d1e7dd", name, &format!("central {address}"));
            canvas.line((x + WIDTH / 2, y), (x + WIDTH / 2, bar));
        }
        if !self.chassis.is_empty() || !self.centrals.is_empty() {
            canvas.bar(bar, width, "underlay");
        }
        y = bar + 18 + GAP;
        for (at, chassis) in self.chassis.iter().enumerate() {
            let x = column(at);
            let detail = format!("{} {}", chassis.address, chassis.mappings.join(" "));
            canvas.node(x, y, WIDTH, "#cfe2ff", &chassis.name, detail.trim_end());
            canvas.line((x + WIDTH / 2, bar), (x + WIDTH / 2, y));
            let mut below = y;
            for vm in &chassis.vms {
                below += HEIGHT + 14;
                canvas.node(x + INDENT, below, WIDTH - INDENT, "#fff", &vm.name, &vm.addresses);
                canvas.line((x + WIDTH / 2, y), (x + WIDTH / 2, below));
            }
        }
        let vms = self.chassis.iter().map(|chassis| chassis.vms.len()).max().unwrap_or(0);
        let feet = y + HEIGHT;
        y += (vms + 1) * (HEIGHT + 14) + GAP;
        for (nth, (bridge, (wired, hosts))) in self.physnets.iter().enumerate() {
            canvas.bar(y, width, bridge.trim_start_matches("br-"));
            for end in wired {
                if let Some((x, _)) = canvas.at.get(&end.node).copied() {
                    // Beside the VMs, and beside the wires to other networks.
                    let x = x + 6 + (nth * 6).min(INDENT - 8);
                    canvas.line((x, feet), (x, y));
                }
            }
            let below = y + 18 + GAP;
            for (at, host) in hosts.iter().enumerate() {
                canvas.node(column(at), below, WIDTH, "#fff3cd", &host.name, &host.addresses);
                canvas.line((column(at) + WIDTH / 2, y), (column(at) + WIDTH / 2, below));
            }
            y = below + if hosts.is_empty() { 0 } else { HEIGHT + GAP };
        }
        for (a, b) in &self.cables {
            if let (Some(from), Some(to)) = (canvas.at.get(&a.node).copied(), canvas.at.get(&b.node).copied())
            {
                let middle = |(x, y): (usize, usize)| (x + WIDTH / 2 + 20, y + HEIGHT / 2);
                canvas.line(middle(from), middle(to));
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" font-family=\"sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}{}</svg>\n",
            canvas.lines, canvas.boxes
        )
    }
}
