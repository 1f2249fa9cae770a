//! Waits for a condition, with a limit, and prints how long it took.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The polling interval.
const POLL: Duration = Duration::from_millis(50);

/// Retries a probe until it succeeds, prints the elapsed time, and returns its value. At the limit, the last error is the cause.
///
/// The limits suit a busy machine. Durations are printed and not asserted.
pub fn eventually<T>(within: Duration, what: &str, probe: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    let value = quietly(within, what, probe)?;
    println!("{what}: after {} ms", begin.elapsed().as_millis());
    Ok(value)
}

/// Like `eventually` without output, for conditions that are of interest only if they fail.
pub(crate) fn quietly<T>(within: Duration, what: &str, mut probe: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(error) if begin.elapsed() >= within => {
                return Err(error).with_context(|| format!("{what}: not within {within:?}"));
            }
            Err(_) => sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn it_is_tried_until_it_works_and_fails_with_the_last_cause() {
        let mut left = 2;
        let value = eventually(Duration::from_secs(60), "a third try", || {
            left -= 1;
            if left >= 0 { bail!("{left} left") } else { Ok(7) }
        });
        assert_eq!(value.unwrap(), 7);
        let error =
            eventually(Duration::ZERO, "a thing", || -> Result<()> { bail!("nothing there") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "a thing: not within 0ns: nothing there");
    }
}
