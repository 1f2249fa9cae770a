//! What the packages' own scripts would have done.
//!
//! Packages are only unpacked: nobody is root, so no script of theirs can run. What they would have left behind and the lab
//! needs is made here: users, links, PAM rules, the modules' index, empty databases, and the line that starts our own process as PID 1.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::interp;

/// The first program in the guest. It finds the job and becomes what lies there: our own binary.
pub(crate) const FIRST: &str = "/lab-init";

const FIRST_TEXT: &str = "#!/bin/dash\nmount -t hostfs -o hostfs=/ none /job && exec /job/init\n";

/// Where the empty databases are, by the names of `SCHEMAS`.
pub(crate) const EMPTY: &str = "/usr/share/lab/empty";

/// The databases of a lab: what we call each, and its schema.
pub(crate) const SCHEMAS: [(&str, &str); 3] = [
    ("nb", "/usr/share/ovn/ovn-nb.ovsschema"),
    ("sb", "/usr/share/ovn/ovn-sb.ovsschema"),
    ("vswitch", "/usr/share/openvswitch/vswitch.ovsschema"),
];

/// Root is in `frrvty` for vtysh; tcpdump drops to its own user.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
    frr:x:100:100::/nonexistent:/usr/sbin/nologin\n\
    haproxy:x:101:101::/nonexistent:/usr/sbin/nologin\n\
    tcpdump:x:103:103::/nonexistent:/usr/sbin/nologin\n\
    nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\ntty:x:5:\nfrr:x:100:\nfrrvty:x:102:frr,root\nhaproxy:x:101:\ntcpdump:x:103:\nnogroup:x:65534:\n";

/// vtysh asks PAM, and there is nobody in a guest to keep out.
const PAM: &str =
    "auth sufficient pam_permit.so\naccount sufficient pam_permit.so\nsession sufficient pam_permit.so\n";

/// What a shell in the guest reads first.
const PROFILE: &str = "export PS1='\\[\\e[36m\\]lab\\[\\e[0m\\]:\\w\\$ ' LC_ALL=C\n\
    # n NODE COMMAND...: runs a command in a node's network namespace\n\
    n() { ip netns exec \"$@\"; }\n";

/// Parts of the kernel's module tree that a network lab loads from.
const MODULES_KEPT: &[&str] = &["net/", "drivers/net/", "lib/", "crypto/", "fs/overlayfs/", "arch/"];
/// And, of these, families that it does not.
const MODULES_LEFT: &[&str] = &[
    "9p",
    "atm",
    "ax25",
    "batman-adv",
    "bluetooth",
    "can",
    "dccp",
    "mac80211",
    "rds",
    "rxrpc",
    "sctp",
    "smc",
    "sunrpc",
    "tipc",
    "vmw_vsock",
    "wireless",
];

/// Turns an unpacked root file system into one that boots.
pub(super) fn root(root: &Path) -> Result<()> {
    for gone in
        ["var/cache/apt", "var/lib/apt", "usr/share/doc", "usr/share/man", "usr/share/locale", "etc/apt"]
    {
        remove(&root.join(gone))?;
    }
    for dir in ["bin", "sbin", "lib", "lib64"] {
        link(&format!("usr/{dir}"), &root.join(dir))?;
    }
    for dir in [
        "proc",
        "sys",
        "run",
        "tmp",
        "dev",
        "job",
        "mnt",
        "root",
        "var/lib",
        "var/tmp",
        "etc/iproute2",
        "etc/pam.d",
    ] {
        fs::create_dir_all(root.join(dir)).with_context(|| format!("cannot make /{dir}"))?;
    }
    link("dash", &root.join("usr/bin/sh"))?;
    link("gawk", &root.join("usr/bin/awk"))?;
    // An alternative, which only a maintainer script links.
    link("../lib/openvswitch-switch/ovs-vswitchd", &root.join("usr/sbin/ovs-vswitchd"))?;
    write(root, "etc/passwd", PASSWD)?;
    write(root, "etc/group", GROUP)?;
    write(root, "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")?;
    write(root, "etc/pam.d/frr", PAM)?;
    write(root, "etc/pam.d/other", PAM)?;
    write(root, "root/.bashrc", PROFILE)?;
    write(root, FIRST.trim_start_matches('/'), FIRST_TEXT)?;
    fs::set_permissions(root.join(FIRST.trim_start_matches('/')), fs::Permissions::from_mode(0o755))?;
    // FRR is configured by whoever starts it.
    for entry in fs::read_dir(root.join("etc/frr")).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|end| end == "conf") {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Moves the kernel out of the root file system, beside it and with the C library it wants, and makes its modules loadable.
pub(super) fn kernel(root: &Path, kernel: &Path) -> Result<()> {
    let library = kernel.join("g");
    fs::create_dir_all(&library)?;
    let packed = root.join("usr/bin/linux.uml");
    let mut program =
        fs::read(&packed).with_context(|| format!("cannot read the kernel {}", packed.display()))?;
    interp::point_at(&mut program, interp::LOADER).context("cannot give the kernel its own loader")?;
    let linux = kernel.join("linux");
    fs::write(&linux, program).context("cannot write the kernel")?;
    fs::set_permissions(&linux, fs::Permissions::from_mode(0o755))?;
    remove(&packed)?;
    for name in ["ld-linux-x86-64.so.2", "libc.so.6"] {
        fs::copy(root.join("usr/lib/x86_64-linux-gnu").join(name), library.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    modules(root)
}

fn modules(root: &Path) -> Result<()> {
    let (packed, at) = (root.join("usr/lib/uml/modules"), root.join("usr/lib/modules"));
    fs::create_dir_all(at.parent().unwrap_or(root))?;
    fs::rename(&packed, &at).with_context(|| format!("cannot move the modules from {}", packed.display()))?;
    let version = fs::read_dir(&at)?.next().context("the kernel has no modules")??.file_name();
    let tree = at.join(&version).join("kernel");
    prune(&tree, &tree)?;
    run(root, "depmod", "usr/bin/kmod", &[Path::new("-b"), root, Path::new(&version)])
}

/// Makes an empty database for each schema, to be copied: a guest would take a fifth of a second for it at every start.
pub(super) fn databases(root: &Path) -> Result<()> {
    let dir = root.join(EMPTY.trim_start_matches('/'));
    fs::create_dir_all(&dir).context("cannot make a folder for empty databases")?;
    for (name, schema) in SCHEMAS {
        let (database, schema) = (dir.join(name), root.join(schema.trim_start_matches('/')));
        run(root, "ovsdb-tool", "usr/bin/ovsdb-tool", &[Path::new("create"), &database, &schema])?;
    }
    Ok(())
}

/// Runs a program of the root by the root's own loader: the host needs neither.
fn run(root: &Path, name: &str, program: &str, args: &[&Path]) -> Result<()> {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let loader = libraries.join("ld-linux-x86-64.so.2");
    let out = Command::new(&loader)
        .args(["--argv0", name, "--library-path"])
        .arg(&libraries)
        .arg(root.join(program))
        .args(args)
        .output()
        .with_context(|| format!("cannot run {name} by {}", loader.display()))?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{name} failed ({}): {}", out.status, said.trim());
    Ok(())
}

/// Removes the modules that no lab loads.
fn prune(tree: &Path, dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            prune(tree, &path)?;
        } else if !kept(path.strip_prefix(tree).unwrap_or(&path)) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Whether a module, named by its path within the tree, may be of use.
fn kept(module: &Path) -> bool {
    let path = module.to_string_lossy();
    MODULES_KEPT.iter().any(|dir| path.starts_with(dir))
        && !module.components().skip(1).any(|part| MODULES_LEFT.iter().any(|left| part.as_os_str() == *left))
}

fn write(root: &Path, path: &str, text: &str) -> Result<()> {
    let path = root.join(path);
    // What a package put there may be a link to elsewhere.
    remove(&path)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Makes a link where nothing is.
fn link(to: &str, at: &PathBuf) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        return Ok(());
    }
    symlink(to, at).with_context(|| format!("cannot link {} to {to}", at.display()))
}

/// Removes a file or a folder that may not be there.
fn remove(path: &Path) -> Result<()> {
    let done = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    done.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_modules_stay_and_others_go() {
        for module in
            ["drivers/net/vrf.ko", "net/8021q/8021q.ko.xz", "fs/overlayfs/overlay.ko", "lib/crc16.ko"]
        {
            assert!(kept(Path::new(module)), "{module}");
        }
        for module in
            ["fs/nfs/nfs.ko", "net/bluetooth/bnep.ko", "drivers/net/wireless/x.ko", "sound/soundcore.ko"]
        {
            assert!(!kept(Path::new(module)), "{module}");
        }
    }

    #[test]
    fn a_root_gets_its_users_links_and_first_program() {
        let dir = tempfile::tempdir().unwrap();
        for made in ["usr/bin", "usr/sbin", "etc/frr", "var/cache/apt"] {
            fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        fs::write(dir.path().join("etc/frr/frr.conf"), "x").unwrap();
        fs::write(dir.path().join("etc/frr/daemons"), "x").unwrap();
        symlink("/nonexistent/elsewhere", dir.path().join("etc/hosts")).unwrap();
        root(dir.path()).unwrap();
        // A second time changes nothing and fails at nothing.
        root(dir.path()).unwrap();
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
        assert!(read("etc/group").contains("frrvty:x:102:frr,root"));
        assert!(read("etc/hosts").starts_with("127.0.0.1"));
        assert!(read("lab-init").ends_with("exec /job/init\n"));
        assert_eq!(fs::read_link(dir.path().join("lib64")).unwrap(), Path::new("usr/lib64"));
        assert!(!dir.path().join("etc/frr/frr.conf").exists() && dir.path().join("etc/frr/daemons").exists());
        assert!(!dir.path().join("var/cache/apt").exists());
    }
}
