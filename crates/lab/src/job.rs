//! A job: one run of one test on one back end, and the folder that holds all its files.
//!
//! The host writes `job.json` (the task), the guest `result.json` (the result; renamed into place, so that it is complete or
//! absent). A guest sees the folder as `/job` and can write nowhere else on the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::need::Need;

/// The path of the job folder inside a guest.
pub const INSIDE: &str = "/job";

/// The path of OpenStack's tools inside, if a test requested them.
pub const OPENSTACK: &str = "/opt/openstack";

/// The file in a job folder that is locked as long as the job runs.
const LOCK: &str = ".lock";

/// The number of earlier job folders of a test that stay when the next one begins.
const KEPT: usize = 3;

/// The kernel that a job runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A User Mode Linux guest: complete, and without any privilege.
    Uml,
    /// New namespaces on the host's own kernel: faster, needs root, limited to that kernel's features.
    Native,
}

impl Backend {
    /// The value of `LAB_BACKEND`; a guest if it is not set.
    pub fn chosen() -> Result<Backend> {
        match std::env::var("LAB_BACKEND").as_deref() {
            Err(_) | Ok("" | "uml") => Ok(Backend::Uml),
            Ok("native") => Ok(Backend::Native),
            Ok(other) => bail!("LAB_BACKEND is `{other}`; it may be `uml` (the default) or `native`"),
        }
    }

    /// The name, as in `LAB_BACKEND`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Uml => "uml",
            Backend::Native => "native",
        }
    }
}

/// The task for a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Run the test of this name.
    Test(String),
    /// Start a topology, or nothing, and a shell on the terminal.
    Shell {
        /// The topology's name.
        topology: Option<String>,
        /// The size of the terminal: rows, columns.
        size: Option<(u16, u16)>,
    },
    /// Show a chapter of the guided tour.
    Tour {
        /// The chapter's name.
        chapter: String,
        /// Whether the tour waits for Enter on a terminal before each step.
        waits: bool,
    },
    /// Only determine the features of the kernel.
    Probe,
}

impl Task {
    /// Whether the task uses the terminal of this process.
    pub fn on_terminal(&self) -> bool {
        matches!(self, Task::Shell { .. } | Task::Tour { waits: true, .. })
    }
}

/// The task and its settings, for the process inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The task.
    pub task: Task,
    /// The back end.
    pub backend: Backend,
    /// The kernel features that the test needs; the native back end checks them inside.
    pub needs: Vec<Need>,
    /// The features of the kernel, as far as the host knows.
    pub offered: BTreeSet<Need>,
    /// Variables of the host that hold inside as well: `LAB_*` and `RUST_*`.
    pub env: BTreeMap<String, String>,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The reason of the failure; `None` if the test passed.
    pub failure: Option<String>,
    /// The duration of the test itself, in milliseconds of the guest's clock.
    pub millis: u64,
    /// The features of the kernel, if the task was to find out.
    #[serde(default)]
    pub offered: BTreeSet<Need>,
}

impl Spec {
    /// The spec of the job that this process runs in.
    pub fn inside() -> Result<Spec> {
        Spec::read(Path::new(INSIDE))
    }

    fn read(folder: &Path) -> Result<Spec> {
        let path = folder.join("job.json");
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no job", path.display()))
    }
}

impl Outcome {
    /// Writes `result.json` into a job folder atomically.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let (part, whole) = (folder.join("result.json.part"), folder.join("result.json"));
        let mut file = File::create(&part).with_context(|| format!("cannot make {}", part.display()))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)
            .and_then(|()| file.sync_all())
            .with_context(|| format!("cannot write {}", part.display()))?;
        fs::rename(&part, &whole).with_context(|| format!("cannot put {} in place", whole.display()))
    }

    /// The result in a job folder; `None` if the guest died before it wrote one.
    pub fn read(folder: &Path) -> Result<Option<Outcome>> {
        let path = folder.join("result.json");
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .with_context(|| format!("{} does not say how the test ended", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// The folder of one job on the host.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked as long as the job runs, so that `lab clean` does not remove the folder.
    lock: File,
}

impl Folder {
    /// Creates `<jobs>/<name>-<n>` with the next free `n`, and keeps only the latest of the older ones.
    pub fn make(jobs: &Path, name: &str) -> Result<Folder> {
        let cannot =
            || format!("cannot make a job folder in {}: is it writable, is the disk full?", jobs.display());
        fs::create_dir_all(jobs).with_context(cannot)?;
        let name = name.replace("::", "-").replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-");
        let earlier = earlier(jobs, &name);
        for (_, old) in earlier.iter().rev().skip(KEPT).filter(|(_, path)| !held(path)) {
            let _ = fs::remove_dir_all(old);
        }
        for n in earlier.last().map_or(1, |(n, _)| n + 1).. {
            let path = jobs.join(format!("{name}-{n}"));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let path = path.canonicalize().with_context(cannot)?;
                    let lock = File::create(path.join(LOCK)).with_context(cannot)?;
                    lock.lock().with_context(cannot)?;
                    return Ok(Folder { path, lock });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(cannot),
            }
        }
        unreachable!("there are more numbers than folders")
    }

    /// The path on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the task into the folder.
    pub fn assign(&self, spec: &Spec) -> Result<()> {
        let path = self.path.join("job.json");
        fs::write(&path, serde_json::to_vec_pretty(spec)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the folder, with all that is in it.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }

    /// Leaves the folder to a person to read, without the files that only the run needed.
    pub fn keep(self) -> PathBuf {
        for name in ["init", "root", "g", "openstack"] {
            let _ = fs::remove_file(self.path.join(name));
        }
        for name in ["bin", "uml", "mnt"] {
            let _ = fs::remove_dir_all(self.path.join(name));
        }
        drop(self.lock);
        self.path
    }
}

/// The folders of earlier jobs of this name, oldest first.
fn earlier(jobs: &Path, name: &str) -> Vec<(u32, PathBuf)> {
    let number =
        |path: &Path| path.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('-')?.parse().ok();
    let paths = fs::read_dir(jobs).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<(u32, PathBuf)> = paths.filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found
}

/// Whether a job that runs or is about to start holds a folder.
fn held(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_err(),
        Err(_) => folder.metadata().and_then(|found| found.modified()).is_ok_and(|made| {
            SystemTime::now().duration_since(made).is_ok_and(|age| age < Duration::from_secs(60))
        }),
    }
}

/// Removes the job folders that no running job holds; returns their number.
pub fn clean(jobs: &Path) -> Result<usize> {
    let mut removed = 0;
    let entries = match fs::read_dir(jobs) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries.with_context(|| format!("cannot read {}", jobs.display()))?,
    };
    for entry in entries {
        let path = entry?.path();
        if !path.is_dir() || held(&path) {
            continue;
        }
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_back_and_its_absence_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Outcome::read(dir.path()).unwrap(), None);
        let outcome =
            Outcome { failure: Some("no \"ping\"".into()), millis: 12, offered: BTreeSet::from([Need::Vrf]) };
        outcome.write(dir.path()).unwrap();
        assert_eq!(Outcome::read(dir.path()).unwrap(), Some(outcome));
    }

    #[test]
    fn a_broken_result_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{", "{\"failure\": 3, \"millis\": 1}", "[]", "\u{0}"] {
            fs::write(dir.path().join("result.json"), text).unwrap();
            let error = Outcome::read(dir.path()).unwrap_err();
            assert!(error.to_string().contains("result.json"), "{error:#}");
        }
    }

    #[test]
    fn jobs_of_one_name_get_folders_of_their_own_and_clean_spares_running_ones() {
        let dir = tempfile::tempdir().unwrap();
        let a = Folder::make(dir.path(), "bgp::a b").unwrap();
        let b = Folder::make(dir.path(), "bgp::a b").unwrap();
        assert!(a.path().ends_with("bgp-a-b-1") && b.path().ends_with("bgp-a-b-2"));
        let left = a.keep();
        assert_eq!(clean(dir.path()).unwrap(), 1);
        assert!(!left.exists() && b.path().exists());
        b.remove().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn of_many_earlier_jobs_the_latest_stay_and_other_tests_keep_theirs() {
        let dir = tempfile::tempdir().unwrap();
        Folder::make(dir.path(), "ping-pong").unwrap().keep();
        (0..6).for_each(|_| drop(Folder::make(dir.path(), "ping").unwrap().keep()));
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["ping-3", "ping-4", "ping-5", "ping-6", "ping-pong-1"]);
    }

    #[test]
    fn a_folder_that_was_only_just_made_is_not_cleaned_away() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("begun-1")).unwrap();
        assert_eq!(clean(dir.path()).unwrap(), 0);
    }

    #[test]
    fn a_job_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::make(dir.path(), "x").unwrap();
        let spec = Spec {
            task: Task::Shell { topology: None, size: Some((24, 80)) },
            backend: Backend::Native,
            needs: vec![Need::Vlan],
            offered: BTreeSet::new(),
            env: BTreeMap::from([("LAB_SEED".to_owned(), "7".to_owned())]),
        };
        folder.assign(&spec).unwrap();
        assert_eq!(Spec::read(folder.path()).unwrap(), spec);
    }
}
