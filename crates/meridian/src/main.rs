//! The `meridian` binary.
fn main() {}
