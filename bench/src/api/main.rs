//! The load of `cargo xtask bench api`: a separate process that sends requests to a server over connections that stay open, and observes
//! when ports arrive in the Northbound. Its own work is not measured; it only keeps the time.
//!
//! It reads commands as lines of JSON from its standard input; `xtask/src/bench/api/load.rs` describes them.

mod clients;
mod sight;

use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::json;

use self::clients::Run;
use self::sight::Sight;

/// An order.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Order {
    /// Observe a Northbound from now on.
    Watch { remote: String },
    /// Send requests, and report the results.
    Run(Run),
}

fn main() -> Result<()> {
    let mut sight = None;
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line?).context("an order that is none")? {
            Order::Watch { remote } => {
                sight = Some(Sight::open(&remote)?);
                say(&json!({ "watching": true }))?;
            }
            Order::Run(run) => {
                let (seconds, mut answers) = clients::run(&run)?;
                if let (Some(sight), true) = (&sight, run.see) {
                    sight.complete(&mut answers);
                }
                say(&json!({ "seconds": seconds, "answers": answers }))?;
            }
        }
    }
    Ok(())
}

/// The clock that every process on the machine shares, in nanoseconds.
fn monotonic() -> Result<i64> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.num_nanoseconds())
}

fn say(line: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("nobody listens")
}
