//! The file systems of a guest, or of a set of namespaces.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};

/// Mounts a file system of `kind` at `at`, which is created if necessary.
pub(super) fn mount_at(kind: &str, at: &Path, options: &str) -> Result<()> {
    fs::create_dir_all(at).with_context(|| format!("cannot make {}", at.display()))?;
    mount(Some(kind), at, Some(kind), MsFlags::empty(), Some(options))
        .with_context(|| format!("cannot mount {kind} at {}", at.display()))
}

/// Mounts a folder next to the job folder at `at`, read-only; only in a guest.
pub(super) fn host_folder(name: &str, at: &Path) -> Result<()> {
    fs::create_dir_all(at).with_context(|| format!("cannot make {}", at.display()))?;
    let (kind, path) = ("hostfs", format!("/{name}"));
    mount(Some(kind), at, Some(kind), MsFlags::MS_RDONLY, Some(path.as_str()))
        .with_context(|| format!("cannot show the host's {name} at {}", at.display()))
}

/// Makes `from` visible at `at` as well.
pub(super) fn bind(from: &Path, at: &Path) -> Result<()> {
    mount(Some(from), at, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("cannot show {} at {}", from.display(), at.display()))
}

/// Mounts a writable overlay over a read-only root file system; writes go to memory below `scratch`. Returns the path of the
/// tree.
pub(super) fn overlay(lower: &Path, scratch: &Path) -> Result<std::path::PathBuf> {
    let [upper, work, root] = ["upper", "work", "root"].map(|name| scratch.join(name));
    for dir in [&upper, &work, &root] {
        fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let escape =
        |path: &Path| path.to_string_lossy().replace('\\', "\\\\").replace(',', "\\,").replace(':', "\\:");
    let options = format!("lowerdir={},upperdir={},workdir={}", escape(lower), escape(&upper), escape(&work));
    mount(Some("overlay"), &root, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .context("cannot lay a writable tree over the root file system")?;
    Ok(root)
}

/// Mounts the file systems that every program expects, except `/dev` itself.
pub(super) fn usual(root: &Path) -> Result<()> {
    mount_at("proc", &root.join("proc"), "")?;
    mount_at("sysfs", &root.join("sys"), "")?;
    mount_at("devpts", &root.join("dev/pts"), "newinstance,ptmxmode=0666")?;
    mount_at("tmpfs", &root.join("dev/shm"), "mode=1777")?;
    mount_at("tmpfs", &root.join("run"), "mode=755")?;
    mount_at("tmpfs", &root.join("tmp"), "mode=1777")
}

/// Sets the root directory of this process and of all its future children to `root`.
pub(super) fn enter(root: &Path) -> Result<()> {
    std::env::set_current_dir(root).with_context(|| format!("cannot enter {}", root.display()))?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).context("cannot move the root")?;
    nix::unistd::chroot(".").context("cannot change the root")?;
    std::env::set_current_dir("/").context("cannot enter the new root")
}

/// Applies the settings that are the same on every kernel: host name, loopback device, sysctls. A failure is an error.
pub(super) fn settle() -> Result<()> {
    nix::unistd::sethostname("lab").context("cannot set the host name")?;
    // The interface's flags: up, loopback.
    write("/sys/class/net/lo/flags", "0x9")
}

/// Writes a setting.
pub(super) fn write(path: &str, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("cannot set {path} to {value}"))
}
