//! Every end-to-end test, by area. `cargo xtask lab list` prints this list.

mod faults;
mod guest;

use std::process::ExitCode;

use lab::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_TARGET_TMPDIR")).tests(guest::tests()).tests(faults::tests()).main()
}
