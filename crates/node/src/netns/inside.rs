//! Work inside of a network namespace, on a thread that ends there.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{FsType, fstatfs};

/// The namespace of the thread that opens it.
const OWN: &str = "/proc/thread-self/ns/net";
/// The type of the file system whose files are namespaces (`NSFS_MAGIC`).
const NSFS: i64 = 0x6e73_6673;

/// Runs `work` on a thread of its own inside of a namespace. Sockets that it opens stay in that namespace, and any thread may use
/// them.
pub(crate) fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_a_thread(|| {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        Ok(work())
    })
}

/// Creates a namespace, runs `prepare` in it, and then gives it a name. A namespace that was not prepared gets no name, so that
/// the next attempt starts afresh.
pub(crate) fn create(path: &Path, prepare: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
        share(dir)?;
    }
    on_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        prepare()?;
        File::create_new(path)?;
        mount(Some(OWN), path, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(|error| {
            let _ = fs::remove_file(path);
            error.into()
        })
    })
}

/// Makes the directory a shared mount of its own, as `ip netns` does. If `ip netns` came later and did it, our names would be
/// covered by a second mount, and could not be removed while that is there.
fn share(dir: &Path) -> io::Result<()> {
    let none = None::<&str>;
    let shared = || mount(none, dir, none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    match shared() {
        // It is no mount yet.
        Err(nix::Error::EINVAL) => {
            mount(Some(dir), dir, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
            Ok(shared()?)
        }
        result => Ok(result?),
    }
}

/// Takes a namespace's name away. The namespace itself goes with the last socket in it.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // It is no mount, or there is no file.
        Ok(()) | Err(nix::Error::EINVAL | nix::Error::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a namespace by its name; `None` if the file is no namespace.
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    let kind = fstatfs(&file)?.filesystem_type();
    Ok((kind == FsType(NSFS)).then_some(file))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".into()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
