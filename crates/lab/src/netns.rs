//! Network namespaces: a network stack of its own without a machine of its own.
//!
//! A thread can enter a namespace, and the sockets and processes that it opens there stay there. So this module does not fork
//! to enter one: a short-lived thread does the work, and any thread may use the netlink sockets that it opened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use tokio::runtime;

use crate::link::Harm;

/// The directory of `ip netns`, so that a user at a shell finds our namespaces by name.
const NAMES: &str = "/run/netns";
/// The namespace of the thread that opens it.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace.
#[derive(Debug)]
pub struct Netns {
    name: String,
    pub(crate) file: File,
    pub(crate) runtime: runtime::Handle,
    pub(crate) netlink: rtnetlink::Handle,
    /// The impairments, by device.
    pub(crate) harms: Mutex<BTreeMap<String, Harm>>,
}

impl Netns {
    /// The namespace in which this process started.
    pub(crate) fn own(runtime: &runtime::Handle, name: &str) -> Result<Netns> {
        let file = File::open(OWN).with_context(|| format!("cannot open {OWN}"))?;
        Netns::of(runtime, name, file)
    }

    /// Creates a namespace and sets its loopback device up.
    pub(crate) fn make(runtime: &runtime::Handle, name: &str) -> Result<Netns> {
        let file = std::thread::scope(|scope| {
            let made = scope.spawn(|| -> Result<File> {
                unshare(CloneFlags::CLONE_NEWNET)
                    .context("cannot make a network namespace: is this root?")?;
                let path = Path::new(NAMES).join(name);
                fs::create_dir_all(NAMES).with_context(|| format!("cannot make {NAMES}"))?;
                File::create_new(&path).with_context(|| format!("there is a node `{name}` already"))?;
                mount(Some(OWN), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                    .with_context(|| format!("cannot name the namespace {}", path.display()))?;
                File::open(OWN).with_context(|| format!("cannot open {OWN}"))
            });
            made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let netns = Netns::of(runtime, name, file)?;
        netns.up("lo")?;
        Ok(netns)
    }

    fn of(runtime: &runtime::Handle, name: &str, file: File) -> Result<Netns> {
        let (connection, netlink, _) = inside(&file, || {
            let _runtime = runtime.enter();
            rtnetlink::new_connection()
        })?
        .context("cannot open a netlink socket")?;
        runtime.spawn(connection);
        Ok(Netns { name: name.to_owned(), file, runtime: runtime.clone(), netlink, harms: Mutex::default() })
    }

    /// The name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a function in the namespace. Its sockets and processes belong to the namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        inside(&self.file, work)
    }

    /// Starts a command inside.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        self.enter(|| command.spawn())?.with_context(|| format!("{}: cannot start {program}", self.name))
    }

    /// Runs a command line (arguments separated by blanks, no shell) in the namespace, to its end; returns its output.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_ascii_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        self.output(command.args(words), line)
    }

    /// Like [`Netns::run`], for arguments that contain blanks.
    pub fn run_args(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(args.first().copied().unwrap_or_default());
        self.output(command.args(args.iter().skip(1)), &args.join(" "))
    }

    pub(crate) fn output(&self, command: &mut Command, line: &str) -> Result<String> {
        command.stdin(Stdio::null());
        let out = self
            .enter(|| command.output())?
            .with_context(|| format!("{}: cannot run `{line}`", self.name))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        ensure!(
            out.status.success(),
            "{}: `{line}` failed ({}): {}",
            self.name,
            out.status,
            [said(&out.stderr), said(&out.stdout)].join("\n").trim()
        );
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Sets a kernel parameter: `net.ipv4.ip_forward`; a dot within a device's name is written as a slash.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path: String = key
            .chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect();
        self.enter(|| fs::write(Path::new("/proc/sys").join(path), value))?
            .with_context(|| format!("{}: cannot set {key} to {value}", self.name))
    }
}

/// Runs a function on a thread that has moved into a namespace.
fn inside<T: Send>(file: &File, work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(file, CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
