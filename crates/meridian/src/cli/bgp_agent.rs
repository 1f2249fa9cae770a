//! `meridian bgp-agent`: the BGP agent of a node, with the configuration of the program that it replaces.

use std::path::{Path, PathBuf};

use node::bgp::config::{Config, Loaded};
use node::ini::Ini;

use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Where ovn-bgp-agent's packages have their file.
const USUAL: &str = "/etc/ovn-bgp-agent/bgp-agent.conf";

/// Expose an OVN cloud through BGP on this node, as a bgp-agent.conf says
///
/// Takes the place of ovn-bgp-agent: reads its configuration, takes over what it left on the node, and keeps addresses of
/// instances, routers and load balancers announced by FRR while OVN has them here. Without --config-file and --config-dir,
/// /etc/ovn-bgp-agent/bgp-agent.conf is read if it is there. Ends on SIGINT and SIGTERM, and leaves everything in place
/// unless withdraw_on_stop is set.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// A configuration file; of several the later ones win
    #[arg(long, value_name = "FILE")]
    config_file: Vec<PathBuf>,
    /// A directory whose *.conf files are read in the order of their names; a file is read, too
    #[arg(long, value_name = "DIR")]
    config_dir: Vec<PathBuf>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Take requests of `meridian status`, `plan` and `explain` at this path [default: /run/meridian/node.sock, where that
    /// directory is there]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9697
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<std::net::SocketAddr>,
}

impl Args {
    /// Reads the files, and puts the flags over them.
    pub(super) fn load(&self) -> Outcome<Loaded> {
        let ini = self.files()?;
        let mut loaded = Config::from_ini(&ini).map_err(|error| Failure::new(Exit::Usage, error))?;
        let config = &mut loaded.config;
        config.dry_run |= self.dry_run;
        config.admin_socket = self.admin_socket.clone().or_else(|| config.admin_socket.take());
        config.metrics_listen = self.metrics_listen.or(config.metrics_listen);
        Ok(loaded)
    }

    fn files(&self) -> Outcome<Ini> {
        let mut files = self.config_file.clone();
        for dir in &self.config_dir {
            files.extend(in_directory(dir)?);
        }
        if self.config_file.is_empty() && self.config_dir.is_empty() && Path::new(USUAL).exists() {
            files.push(USUAL.into());
        }
        let mut ini = Ini::default();
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
            ini.read(&file.display().to_string(), &text).map_err(|error| Failure::new(Exit::Usage, error))?;
        }
        Ok(ini)
    }
}

/// The files of a directory. Many start the agent with a file here, so that will do, too.
fn in_directory(dir: &Path) -> Outcome<Vec<PathBuf>> {
    if dir.is_file() {
        return Ok(vec![dir.to_owned()]);
    }
    let entries = std::fs::read_dir(dir).map_err(|error| unreadable(dir, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(dir, error))?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(Exit::Usage, error).while_(format!("cannot read the configuration {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(config_file: &[&Path], config_dir: &[&Path]) -> Args {
        let own = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
        Args {
            config_file: own(config_file),
            config_dir: own(config_dir),
            dry_run: false,
            admin_socket: None,
            metrics_listen: None,
        }
    }

    #[test]
    fn files_and_directories_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = write("z.conf", "bgp_AS = 1\nbgp_nic = a\n");
        write("b.conf", "bgp_AS = 3\n");
        write("a.conf", "bgp_AS = 2\nbgp_vrf = v\n");
        write("c.conf.bak", "bgp_AS = 9\n");
        let sub = dir.path().join("sub");
        std::fs::create_dir(&sub).unwrap();
        std::fs::write(sub.join("x.conf"), "bgp_AS = 7\n").unwrap();
        let config = args(&[&first], &[&sub]).load().unwrap().config;
        assert_eq!((config.bgp_as.as_str(), config.bgp_nic.as_str()), ("7", "a"));
        let config = args(&[], &[dir.path()]).load().unwrap().config;
        assert_eq!((config.bgp_as.as_str(), config.bgp_vrf.as_str()), ("1", "v"), "by the order of names");
        let config = args(&[], &[&first]).load().unwrap().config;
        assert_eq!(config.bgp_as, "1", "a file for a directory");
        assert!(args(&[Path::new("/nowhere.conf")], &[]).load().is_err());
        let broken = write("broken", "nonsense\n");
        assert!(args(&[&broken], &[]).load().is_err());
    }
}
