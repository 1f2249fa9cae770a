//! End-to-end tests: they prove Meridian's claims with packets in the lab.
//!
//! This library is empty. The tests are in `tests/e2e/`: each is a short function over a lab, registered in `main.rs` with the sentence
//! that it proves. `cargo xtask lab list` prints them, `docs/lab.md` describes how they run.
