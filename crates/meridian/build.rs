//! Packs the relocations of release builds. Otherwise every process would read 0.75 MB more at its start and keep it in memory. glibc
//! supports packed relocations from 2.36 on. A binary that an older glibc builds may run on one, so it gets none.

use std::env;
use std::process::Command;

const UNDERSTOOD: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_ENV", "gnu") && native && glibc() >= Some(UNDERSTOOD)
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the build machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
