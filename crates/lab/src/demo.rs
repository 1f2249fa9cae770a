//! A guided tour: chapters that show what works, each in a guest of its own, told to somebody who watches.
//!
//! A chapter is a function that is registered with the suite and runs inside, like a test. On a terminal it waits for Enter
//! before each step; elsewhere it goes on by itself.

use std::io::{BufRead, Write};

use anyhow::Result;

/// Tells what is about to be seen.
#[derive(Debug)]
pub struct Guide {
    waits: bool,
}

/// One part of the tour; it runs inside.
pub type Chapter = fn(&Guide) -> Result<()>;

impl Guide {
    pub(crate) fn new(waits: bool) -> Guide {
        Guide { waits }
    }

    /// The next step begins, once whoever watches wants it to.
    pub fn step(&self, title: &str) {
        if self.waits {
            print!("\n[Enter] goes on ");
            let _ = std::io::stdout().flush();
            // A closed terminal says nothing, and the tour goes on.
            let _ = std::io::stdin().lock().read_line(&mut String::new());
        }
        println!("\n== {title}");
    }

    /// Tells something, as it is.
    pub fn says(&self, text: &str) {
        println!("{text}");
    }

    /// Points at something to look at, or to try.
    pub fn look(&self, text: &str) {
        println!("   -> {text}");
    }
}
