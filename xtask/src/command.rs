//! Running other programs: the path of the repository, the display of command lines, error messages.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use console::style;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives one level below the root")
}

/// The cargo that runs us, so that `cargo +nightly xtask` stays on nightly; started at the repository's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The directory of cargo's build output.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Prints a heading that stands out between the programs' own output.
pub(crate) fn heading(text: &str) {
    eprintln!("{} {text}", style("==>").for_stderr().cyan().bold());
}

/// A command line as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    std::iter::once(name)
        .chain(command.get_args().map(|arg| {
            let arg = arg.to_string_lossy();
            if arg.contains([' ', '"', '\'']) { format!("'{arg}'") } else { arg.into_owned() }
        }))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a command with our own output; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output; on failure the error contains its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !out.status.success() {
        bail!(
            "`{}` failed ({}): {}",
            shown(command),
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The project's files that match a pattern of git's, those included that are not committed yet.
pub(crate) fn files(pattern: &str) -> Result<Vec<String>> {
    files_in(root(), pattern)
}

fn files_in(root: &Path, pattern: &str) -> Result<Vec<String>> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", pattern];
    let listed = output(Command::new("git").current_dir(root).args(list))?;
    Ok(listed.lines().filter(|file| root.join(file).is_file()).map(str::to_owned).collect())
}

/// Runs a command, forwards its output as it arrives, and passes every line (without colours) to `see`. Returns whether it
/// succeeded.
pub(crate) fn tee(command: &mut Command, mut see: impl FnMut(&str) + Send) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{}`", shown(command)))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (send, lines) = std::sync::mpsc::channel::<String>();
    std::thread::scope(|scope| {
        let send_err = send.clone();
        scope.spawn(move || forward(stdout, std::io::stdout(), &send));
        scope.spawn(move || forward(stderr, std::io::stderr(), &send_err));
        for line in lines {
            see(&console::strip_ansi_codes(&line));
        }
    });
    Ok(child.wait().with_context(|| format!("cannot wait for `{}`", shown(command)))?.success())
}

/// Copies lines as they arrive. Invalid UTF-8 is forwarded unchanged.
fn forward(from: Option<impl Read>, mut to: impl Write, send: &std::sync::mpsc::Sender<String>) {
    let Some(from) = from else { return };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // A closed terminal must not stop the tests: their result is still wanted.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        let _ = send.send(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_that_are_there_and_not_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| output(Command::new("git").current_dir(dir.path()).args(args)).unwrap();
        git(&["init", "--quiet"]);
        for name in ["kept.rs", "gone.rs", "ignored.rs", "new.rs", "other.md"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::write(dir.path().join(".gitignore"), "ignored.rs\n").unwrap();
        git(&["add", "kept.rs", "gone.rs"]);
        std::fs::remove_file(dir.path().join("gone.rs")).unwrap();
        let mut found = files_in(dir.path(), "*.rs").unwrap();
        found.sort();
        assert_eq!(found, ["kept.rs", "new.rs"]);
    }
}
