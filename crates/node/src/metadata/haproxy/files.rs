//! The files of haproxies: their configurations and process ids, where `neutron-ovn-metadata-agent` has them as well.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use ovsdb::Uuid;

use super::process;

/// The directories of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::metadata) struct HaproxyDirectories {
    /// The directory of configurations.
    pub(in crate::metadata) configs: PathBuf,
    /// The directory of process ids.
    pub(in crate::metadata) pids: PathBuf,
}

/// The files of a network's haproxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::metadata) struct HaproxyFiles {
    /// Its configuration.
    pub(super) config: PathBuf,
    /// The same while it is being written.
    pub(super) fresh: PathBuf,
    /// The messages of its start.
    pub(super) log: PathBuf,
    /// The socket over which its successor gets its listening sockets.
    pub(super) listeners: PathBuf,
    /// Its process id.
    pub(super) pid: PathBuf,
}

impl HaproxyDirectories {
    /// The files of a network.
    pub(in crate::metadata) fn files(&self, network: Uuid) -> HaproxyFiles {
        let config = self.configs.join(format!("{network}.conf"));
        HaproxyFiles {
            fresh: config.with_extension("new"),
            log: config.with_extension("log"),
            listeners: config.with_extension("sock"),
            config,
            pid: self.pids.join(format!("{network}.pid.haproxy")),
        }
    }

    /// Creates the directories.
    pub(super) fn create(&self) -> io::Result<()> {
        [&self.configs, &self.pids].into_iter().try_for_each(fs::create_dir_all)
    }

    /// The networks that have files.
    pub(super) fn networks(&self) -> BTreeSet<Uuid> {
        let entries = [&self.configs, &self.pids].into_iter().filter_map(|dir| fs::read_dir(dir).ok());
        let names = entries.flatten().flatten().map(|entry| entry.file_name());
        let network = |name: std::ffi::OsString| Uuid::try_parse(name.to_str()?.split_once('.')?.0).ok();
        names.filter_map(network).collect()
    }

    /// Removes the files of haproxies that do not run: of those that a reboot has ended, and of networks that went while no agent
    /// was there. The files of one that runs stay until it is replaced or ended.
    pub(in crate::metadata) fn sweep(&self) {
        for network in self.networks() {
            let files = self.files(network);
            if !files.process().is_some_and(process::is_alive) {
                files.remove();
            }
        }
    }
}

impl HaproxyFiles {
    /// The process id in the file.
    pub(super) fn process(&self) -> Option<i32> {
        fs::read_to_string(&self.pid).ok()?.split_whitespace().next()?.parse().ok().filter(|pid| *pid > 1)
    }

    /// Removes the files.
    pub(in crate::metadata) fn remove(&self) {
        for path in [&self.config, &self.fresh, &self.log, &self.listeners, &self.pid] {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_haproxies_that_do_not_run_are_removed_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let directories =
            HaproxyDirectories { configs: dir.path().join("configs"), pids: dir.path().join("pids") };
        directories.sweep();
        directories.create().unwrap();
        let (gone, reused, half) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3));
        // The process id of a test is that of no haproxy, as after a reboot that gave it to another program.
        for (network, pid) in [(gone, "4194304".to_owned()), (reused, std::process::id().to_string())] {
            let files = directories.files(network);
            fs::write(&files.config, "x").unwrap();
            fs::write(&files.pid, pid).unwrap();
        }
        fs::write(directories.files(half).log, "x").unwrap();
        let foreign = directories.configs.join("haproxy.conf");
        fs::write(&foreign, "x").unwrap();
        assert_eq!(directories.networks(), [gone, reused, half].into());
        directories.sweep();
        assert_eq!(directories.networks(), BTreeSet::new());
        assert!(foreign.exists(), "a file of others");
        assert_eq!(fs::read_dir(&directories.pids).unwrap().count(), 0);
    }
}
