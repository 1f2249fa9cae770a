//! Enters lines into FRR's configuration.

use std::io::{self, Write};
use std::process::Stdio;
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::process::Command;

use super::observe::{Backend, Config};
use super::state::Op;
use super::vty::{Vty, VtyError};

/// Time limit of vtysh.
const VTYSH: Duration = Duration::from_secs(30);

/// Enters the lines of an op.
pub(super) async fn enter(config: &Config, op: &Op) -> Result<(), VtyError> {
    if config.backend == Backend::Vty {
        let mut vty = Vty::open(&config.dir, "bgpd").await?;
        match vty.configure(&op.lines).await {
            // A newer FRR has moved the command to another daemon.
            Err(error) if error.is_unknown_command() => {}
            result => return result,
        }
    }
    let failed = |source| VtyError::Vtysh { program: "vtysh -f".into(), source };
    let file = written(op).map_err(failed)?;
    vtysh(config, &["-f", &file.path().to_string_lossy()]).await.map(|_| ())
}

/// Runs vtysh on this FRR's sockets, and gives what it printed.
pub(super) async fn vtysh(config: &Config, args: &[&str]) -> Result<String, VtyError> {
    let program = config.vtysh.to_string_lossy().into_owned();
    let failed = |source| VtyError::Vtysh { program: format!("{program} {}", args.join(" ")), source };
    let output = Command::new(&config.vtysh)
        .arg("--vty_socket")
        .arg(&config.dir)
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(VTYSH, output).await.map_err(|_| VtyError::Late)?.map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let text = format!("{}: {}{}", output.status, said.trim(), complaint.trim());
    Err(failed(io::Error::other(text)))
}

/// A file with the lines, for vtysh to read.
fn written(op: &Op) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    for line in &op.lines {
        writeln!(file, "{line}")?;
    }
    file.flush()?;
    Ok(file)
}
