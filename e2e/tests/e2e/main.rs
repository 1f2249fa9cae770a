//! Every end-to-end test, by area. `cargo xtask lab list` prints this list.

mod bfd;
mod fabric;
mod faults;
mod guest;
mod overlay;

use std::process::ExitCode;

use lab::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_TARGET_TMPDIR"))
        .tests(guest::tests())
        .tests(faults::tests())
        .tests(overlay::tests())
        .tests(bfd::tests())
        .main()
}
