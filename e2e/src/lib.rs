//! End-to-end tests: what Meridian claims, shown with packets in the lab.
//!
//! There is nothing to call here. The tests are in `tests/e2e/`: each is a short function over a lab, registered in `main.rs`
//! with the sentence it proves. `cargo xtask lab list` shows them, `docs/lab.md` tells how they run.
