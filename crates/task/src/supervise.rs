//! Starts tasks and threads by name, and ends the process if one of them dies.

use std::future::Future;
use std::io;
use std::panic::PanicHookInfo;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::contain;

/// The reason why the process must end. The first one stays.
static FAILURE: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::Sender::new(None));
/// Set while the process shuts down: tasks may end now.
static STOPPING: AtomicBool = AtomicBool::new(false);
/// Grace period for an orderly end after a failure.
const GRACE: Duration = Duration::from_secs(10);
/// The exit code of a process that missed that period.
const STUCK: i32 = 6;

/// Turns every panic outside of a container into a failure of the process. Call it once, at the start.
pub fn end_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        print(info);
        if !contain::is_contained() {
            let thread = thread::current();
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let name = thread.name().unwrap_or("without a name");
            fail(format!("a background task panicked (thread {name}, {place})"));
            // A main thread that waits for what has just died would wait for ever.
            let _ = thread::Builder::new().name("end".into()).spawn(|| {
                thread::sleep(GRACE);
                std::process::exit(STUCK);
            });
        }
    }));
}

/// Waits until the process must end, and returns the reason.
pub async fn failed() -> String {
    let mut failure = FAILURE.subscribe();
    match failure.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => std::future::pending().await,
    }
}

/// Announces an orderly shutdown: from now on tasks may end.
pub fn stopping() {
    STOPPING.store(true, Ordering::Relaxed);
}

fn fail(reason: String) {
    tracing::error!(reason, "the process has to end");
    FAILURE.send_if_modified(|failure| {
        let first = failure.is_none();
        failure.get_or_insert(reason);
        first
    });
}

fn ended(name: &str) {
    if STOPPING.load(Ordering::Relaxed) {
        tracing::debug!(name, "a background task has ended");
    } else {
        fail(format!("the background task {name} has ended by itself"));
    }
}

/// Starts a task that may end.
pub fn spawn<F>(name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(async move {
        inject(name);
        work.await
    })
}

/// Starts a task that must run as long as the process does. Its end is a failure of the process.
pub fn keep<F>(name: &'static str, work: F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    spawn(name, lasting(name, || true, work))
}

/// Runs work that has to go on for as long as somebody needs it. For example, the writer of a store may end when the last
/// handle of the store is gone, and not before. An earlier end is a failure of the process.
pub async fn lasting(name: impl AsRef<str>, needed: impl Fn() -> bool, work: impl Future<Output = ()>) {
    if !is_injected("MERIDIAN_TEST_END", name.as_ref()) {
        work.await;
    }
    if needed() {
        ended(name.as_ref());
    }
}

/// Starts a thread that may end.
pub fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let label = name.to_owned();
    let body = move || {
        inject(&label);
        work();
    };
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

/// Lets tests make a task of this name panic and observe the process.
fn inject(name: &str) {
    if is_injected("MERIDIAN_TEST_PANIC", name) {
        panic!("{name} panics because a test asked for it");
    }
}

/// Whether a test names this task in a variable. Only builds with debug assertions listen.
fn is_injected(variable: &str, name: &str) -> bool {
    cfg!(debug_assertions) && std::env::var_os(variable).is_some_and(|wanted| wanted == *name)
}
