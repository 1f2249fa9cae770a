//! The Python peer's environment: PyPI's `ovs` in a virtual environment of ours, with a C JSON parser if one is available.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{heading, output, target_dir};

/// The release measured against.
const OVS: &str = "ovs==4.0.0";

/// Debian's interpreter: its `python3-openvswitch` may lend the C parser, which must match the interpreter.
const PYTHON: &str = "/usr/bin/python3";

/// The interpreter of a virtual environment with `ovs`, made on first use.
pub(crate) fn environment() -> Result<PathBuf> {
    let dir = target_dir().join("bench-python");
    let python = dir.join("bin/python3");
    let mark = dir.join("ready");
    if !std::fs::read_to_string(&mark).is_ok_and(|text| text == OVS) {
        heading(&format!("a Python environment with {OVS}"));
        output(Command::new(PYTHON).args(["-m", "venv", "--clear"]).arg(&dir))?;
        output(Command::new(&python).args(["-m", "pip", "install", "--quiet", OVS]))
            .context("cannot install Python's ovs; is PyPI reachable?")?;
        borrow_parser(&python)?;
        std::fs::write(&mark, OVS)?;
    }
    Ok(python)
}

/// PyPI has the sources of the C parser only, and building it needs libopenvswitch, which Debian does not ship. Debian's
/// own package has it built for Debian's interpreter, with the same interface: link that one in, if it loads.
fn borrow_parser(python: &Path) -> Result<()> {
    let has_parser = |python: &Path| output(Command::new(python).args(["-c", "import ovs._json"])).is_ok();
    let ask = |python: &Path, code: &str| {
        output(Command::new(python).args(["-c", code])).map(|out| out.trim().to_owned())
    };
    if has_parser(python) {
        return Ok(());
    }
    let Ok(built) = ask(Path::new(PYTHON), "import ovs._json; print(ovs._json.__file__)") else {
        return Ok(());
    };
    let package = ask(python, "import ovs, os; print(os.path.dirname(ovs.__file__))")?;
    let name = Path::new(&built).file_name().context("a module without a file")?;
    let link = Path::new(&package).join(name);
    std::os::unix::fs::symlink(&built, &link).with_context(|| format!("cannot link {}", link.display()))?;
    if !has_parser(python) {
        std::fs::remove_file(&link)?;
    }
    Ok(())
}
