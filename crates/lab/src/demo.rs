//! A guided tour for people: chapters that show the lab's features, each in a guest of its own.
//!
//! A chapter is a function that is registered with the suite and runs inside a guest, like a test. On a terminal it waits for
//! Enter before each step; elsewhere it runs without stopping.

use std::io::{BufRead, Write};

use anyhow::Result;

use crate::guest::tools::Tools;

/// Prints the story of a chapter.
#[derive(Debug)]
pub struct Guide {
    waits: bool,
}

/// One part of the tour. It runs inside a guest.
#[derive(Clone, Copy)]
pub struct Chapter {
    pub(crate) name: &'static str,
    pub(crate) sentence: &'static str,
    pub(crate) show: fn(&Guide) -> Result<()>,
    pub(crate) tools: Tools,
}

impl Chapter {
    /// A chapter: its name, a sentence, and the function that runs inside.
    pub const fn new(name: &'static str, sentence: &'static str, show: fn(&Guide) -> Result<()>) -> Chapter {
        let tools = Tools {
            meridian: false,
            package: false,
            openstack: false,
            ovn_bgp_agent: false,
            kubernetes: false,
        };
        Chapter { name, sentence, show, tools }
    }

    /// Adds the workspace's own `meridian` and OpenStack's tools, see [`Node::openstack`](crate::node::Node::openstack).
    #[must_use]
    pub const fn meridian(mut self) -> Chapter {
        self.tools.meridian = true;
        self.tools.openstack = true;
        self
    }
}

impl Guide {
    pub(crate) fn new(waits: bool) -> Guide {
        Guide { waits }
    }

    /// Begins the next step; on a terminal, after Enter.
    pub fn step(&self, title: &str) {
        if self.waits {
            print!("\n[Enter] goes on ");
            let _ = std::io::stdout().flush();
            // If the terminal is closed, the tour continues without waiting.
            let _ = std::io::stdin().lock().read_line(&mut String::new());
        }
        println!("\n== {title}");
    }

    /// Prints a text unchanged.
    pub fn says(&self, text: &str) {
        println!("{text}");
    }

    /// Prints a command as one would type it.
    pub fn types(&self, command: &str) {
        println!("$ {command}");
    }

    /// Prints a hint at something to observe or to try.
    pub fn look(&self, text: &str) {
        println!("   -> {text}");
    }
}
