//! The last lines of a guest's kernel console.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;

/// The number of lines in a report.
const TAIL: usize = 25;

/// The last lines of a console, and the line with which the kernel gave up, if it did.
#[derive(Debug, Default)]
pub(crate) struct Console {
    tail: VecDeque<String>,
    panic: Option<String>,
}

impl Console {
    /// Adds a line.
    pub(crate) fn see(&mut self, line: &[u8]) {
        let line: String = String::from_utf8_lossy(line)
            .trim_end()
            .chars()
            .filter(|c| *c == '\t' || !c.is_control())
            .collect();
        // The kernel prints this at every start, because the lab gives its guests no disks.
        if line.is_empty() || line.starts_with("Failed to initialize ubd device") {
            return;
        }
        if self.panic.is_none() && line.contains("Kernel panic") {
            self.panic = line.find("Kernel panic").map(|at| line[at..].to_owned());
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// The kernel's panic message, if it panicked.
    pub(crate) fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// The last lines, indented; nothing when there were none.
    pub(crate) fn tail(&self) -> String {
        self.tail.iter().map(|line| format!("    {line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_stay() {
        let mut console = Console::default();
        (0..100).for_each(|n| console.see(format!("line {n}\r\n").as_bytes()));
        assert!(console.tail().starts_with(&format!("    line {}\n", 100 - TAIL)));
        assert!(console.tail().ends_with("    line 99\n"));
        assert_eq!(console.panic(), None);
    }

    #[test]
    fn the_first_panic_stays_however_much_follows() {
        let mut console = Console::default();
        console.see(b"[    1.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100");
        (0..100).for_each(|_| console.see(b" [<6003093f>] vpanic+0x11e/0x339"));
        console.see(b"Kernel panic - not syncing: again");
        assert_eq!(
            console.panic(),
            Some("Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100")
        );
    }

    #[test]
    fn bytes_that_are_no_text_and_lines_that_say_nothing_do_no_harm() {
        let mut console = Console::default();
        console.see(b"\xff\xfe\x1b[0m\x00ok");
        console.see(b"");
        console.see(b"Failed to initialize ubd device 0 :Couldn't determine size of device's file");
        assert_eq!(console.tail(), "    \u{fffd}\u{fffd}[0mok\n");
    }
}
