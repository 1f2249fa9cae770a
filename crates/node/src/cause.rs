//! An error with its causes on one line. The Display of an error does not repeat its source, so whoever shows it as text must.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::error::Error;

/// The error's text, then each cause's.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
