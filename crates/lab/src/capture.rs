//! Packet captures of a device, saved in the job folder.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::job::INSIDE;
use crate::node::Node;

/// The time limit for the start of a capture.
const START: Duration = Duration::from_secs(30);

/// The bytes before the first packet of a file, and those before each packet.
const FILE_HEAD: usize = 24;
const PACKET_HEAD: usize = 16;

/// A running capture. Dropping it ends it.
#[derive(Debug)]
pub struct Capture {
    child: Child,
    path: String,
}

impl Node {
    /// Captures the packets of a device that match a filter of tcpdump (empty for all).
    pub fn capture(&self, device: &str, filter: &str) -> Result<Capture> {
        let dir = format!("{INSIDE}/captures");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {dir}"))?;
        let path = format!("{dir}/{}-{device}.pcap", self.label());
        let mut command = Command::new("tcpdump");
        // tcpdump writes each packet at once, so the file is complete even if the guest dies. It runs as root, the owner of the folder.
        command.args(["-Z", "root", "-n", "--immediate-mode", "-U", "-i", device, "-w", &path]);
        command.args(filter.split_ascii_whitespace());
        let child = self.spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
        let mut capture = Capture { child, path };
        let begin = Instant::now();
        // The file's head is written when the capture has begun.
        while fs::metadata(&capture.path).map_or(0, |file| file.len()) == 0 {
            if let Some(status) = capture.child.try_wait().context("cannot wait for tcpdump")? {
                bail!("tcpdump on {device} of {} ended at its start ({status})", self.label());
            }
            if begin.elapsed() > START {
                bail!("tcpdump on {device} of {} does not begin", self.label());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(capture)
    }
}

impl Capture {
    /// Ends the capture; returns its packets, one per line, in tcpdump's format.
    pub fn packets(mut self, node: &Node) -> Result<Vec<String>> {
        self.end()?;
        let text = node.run(&format!("tcpdump -n -e -r {}", self.path))?;
        Ok(text.lines().map(|line| line.to_owned()).collect())
    }
}

impl Capture {
    /// Ends the capture; returns its frames as bytes.
    pub fn frames(mut self) -> Result<Vec<Vec<u8>>> {
        self.end()?;
        let bytes = fs::read(&self.path).with_context(|| format!("cannot read {}", self.path))?;
        let mut rest = bytes.get(FILE_HEAD..).context("the capture has no head")?;
        let mut frames = Vec::new();
        while let Some((head, more)) = rest.split_first_chunk::<PACKET_HEAD>() {
            // tcpdump writes in the byte order of the machine.
            let length = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
            let (frame, more) =
                more.split_at_checked(length as usize).context("the capture ends in a packet")?;
            frames.push(frame.to_vec());
            rest = more;
        }
        Ok(frames)
    }

    fn end(&mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).context("a pid is an i32")?);
        kill(pid, Signal::SIGINT).context("cannot stop tcpdump")?;
        self.child.wait().context("cannot wait for tcpdump")?;
        Ok(())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
