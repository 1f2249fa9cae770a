//! Contains a panic in the request or component where it happened.
//!
//! A panic is our bug. It must neither stop the other components nor end this one: the caller turns it into a problem or an
//! answer and continues. Containment needs unwinding, so the binary is not built with `panic = "abort"`.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use tokio::runtime::{Handle, RuntimeFlavor};

thread_local! {
    /// The number of containers around the code that this thread runs.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Whether a container would catch a panic of this thread.
pub(crate) fn is_contained() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

fn caught<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let outcome = catch_unwind(AssertUnwindSafe(step)).map_err(text);
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    outcome
}

/// Runs a synchronous step on this thread, however long it takes.
pub fn here<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    caught(step)
}

/// The message of a panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked(pub String);

/// Runs a synchronous step that may compute for long: a multi-threaded runtime moves its other tasks off this thread.
pub fn sync<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    let contained = || caught(step);
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(contained),
        _ => contained(),
    }
}

/// Runs an asynchronous step.
pub async fn future<F: Future>(step: F) -> Result<F::Output, Panicked> {
    let mut step = pin!(step);
    poll_fn(|cx| match caught(|| step.as_mut().poll(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn text(panic: Box<dyn Any + Send>) -> Panicked {
    let text = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => text.to_string(),
            Err(_) => "no message".to_string(),
        },
    };
    Panicked(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(word: &str) -> usize {
        panic!("no {word}")
    }

    #[test]
    fn a_step_outside_a_runtime_is_contained() {
        assert_eq!(sync(|| 1), Ok(1));
        assert_eq!(sync(|| fails("luck")), Err(Panicked("no luck".into())));
        assert_eq!(sync(|| std::panic::panic_any(7)), Err::<(), _>(Panicked("no message".into())));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_step_on_either_side_of_an_await_is_contained() {
        let before = future(async { fails("luck") }).await;
        let after = future(async {
            tokio::task::yield_now().await;
            fails("luck")
        });
        assert_eq!(before, Err(Panicked("no luck".into())));
        assert_eq!(after.await, before);
        let inside = tokio::spawn(async { sync(|| fails("luck")) });
        assert_eq!(inside.await.unwrap(), before);
    }
}
