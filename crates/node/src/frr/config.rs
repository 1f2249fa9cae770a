//! FRR's running configuration as a tree: stanzas, by their indentation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// A line and the lines below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The line, without the blanks around it.
    pub line: String,
    /// The lines of its stanza.
    pub children: Vec<Node>,
}

impl Node {
    /// The first child with exactly this line.
    pub fn child(&self, line: &str) -> Option<&Node> {
        self.children.iter().find(|node| node.line == line)
    }

    /// Whether a child says this, alone or with more after it (`redistribute connected route-map X`).
    pub fn says(&self, line: &str) -> bool {
        self.children.iter().any(|node| {
            node.line.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    }
}

/// Reads a configuration. Comments and the words that end a stanza are left out; what is indented deeper belongs to the line
/// above. Any text is a configuration.
pub fn parse(text: &str) -> Vec<Node> {
    let mut roots: Vec<Node> = Vec::new();
    // Stanzas that are still open, with their indentation.
    let mut open: Vec<(usize, Node)> = Vec::new();
    for line in text.lines() {
        let words = line.trim();
        if words.is_empty() || words.starts_with(['!', '#']) || ends_stanza(words) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        close(&mut open, &mut roots, indent);
        open.push((indent, Node { line: words.to_owned(), children: Vec::new() }));
    }
    close(&mut open, &mut roots, 0);
    roots
}

/// The BGP instance of a VRF, or the default one, with its autonomous system.
pub fn instance<'a>(tree: &'a [Node], vrf: Option<&str>) -> Option<(&'a str, &'a Node)> {
    tree.iter().find_map(|node| {
        let mut words = node.line.split_ascii_whitespace();
        let head = (words.next(), words.next());
        let asn = words.next().filter(|_| head == (Some("router"), Some("bgp")))?;
        let place = match (words.next(), words.next()) {
            (Some("vrf"), name) => name,
            (Some("view"), _) => return None,
            _ => None,
        };
        (place == vrf).then_some((asn, node))
    })
}

/// Ends the stanzas that a line of this indentation is not part of.
fn close(open: &mut Vec<(usize, Node)>, roots: &mut Vec<Node>, indent: usize) {
    while let Some((_, node)) = open.pop_if(|(at, _)| *at >= indent) {
        match open.last_mut() {
            Some((_, parent)) => parent.children.push(node),
            None => roots.push(node),
        }
    }
}

fn ends_stanza(words: &str) -> bool {
    words == "end" || words == "exit" || words.starts_with("exit-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUNNING: &str = "frr version 8.4.4
frr defaults traditional
!
router bgp 64999
 neighbor uplink peer-group
 !
 address-family ipv4 unicast
  import vrf bgp-vrf
 exit-address-family
!
exit
!
router bgp 64999 vrf bgp-vrf
 bgp router-id 1.2.3.4
 !
 address-family ipv4 unicast
  redistribute connected route-map X
 exit-address-family
exit
!
";

    #[test]
    fn stanzas_follow_indentation() {
        let tree = parse(RUNNING);
        let lines: Vec<&str> = tree.iter().map(|node| node.line.as_str()).collect();
        let routers = ["router bgp 64999", "router bgp 64999 vrf bgp-vrf"];
        assert_eq!(lines, [&["frr version 8.4.4", "frr defaults traditional"][..], &routers].concat());
        assert_eq!(tree[2].children.len(), 2);
        let family = tree[2].child("address-family ipv4 unicast").unwrap();
        assert!(family.says("import vrf bgp-vrf") && !family.says("import vrf bgp"));
        let vrf = tree[3].child("address-family ipv4 unicast").unwrap();
        assert!(vrf.says("redistribute connected") && vrf.child("redistribute connected").is_none());
    }

    fn text(nodes: &[Node], indent: usize, out: &mut String) {
        for node in nodes {
            out.push_str(&format!("{:indent$}{}\n", "", node.line));
            text(&node.children, indent + 1, out);
        }
    }

    fn trees() -> impl Strategy<Value = Vec<Node>> {
        let leaf = "[a-d]{1,3}".prop_map(|line| Node { line, children: Vec::new() });
        let node = leaf.prop_recursive(3, 20, 4, |inner| {
            ("[a-d]{1,3}", proptest::collection::vec(inner, 0..4))
                .prop_map(|(line, children)| Node { line, children })
        });
        proptest::collection::vec(node, 0..4)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tree in trees()) {
            let mut written = String::new();
            text(&tree, 0, &mut written);
            prop_assert_eq!(parse(&written), tree);
        }

        #[test]
        fn every_line_is_somewhere(lines in proptest::collection::vec(" {0,4}[a-z]{1,4}", 0..20)) {
            fn count(nodes: &[Node]) -> usize {
                nodes.iter().map(|node| 1 + count(&node.children)).sum()
            }
            let ends = lines.iter().filter(|line| ends_stanza(line.trim())).count();
            prop_assert_eq!(count(&parse(&lines.join("\n"))), lines.len() - ends);
        }
    }
}
