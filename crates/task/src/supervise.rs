//! Starts tasks and threads by name, and ends the process when one of them dies.

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

/// Why the process has to end; the first reason stays.
static FAILURE: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::Sender::new(None));
/// Whether the process is ending anyway, so that tasks may end, too.
static STOPPING: AtomicBool = AtomicBool::new(false);
/// How long the process has to end by itself after a failure.
const GRACE: Duration = Duration::from_secs(10);
/// The exit code of a process that could not end by itself.
const STUCK: i32 = 6;

/// From now on a panic outside of a container is a failure of the process. Called once, at the start.
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

/// Returns the reason when the process has to end.
pub async fn failed() -> String {
    let mut failure = FAILURE.subscribe();
    match failure.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => std::future::pending().await,
    }
}

/// The process ends because somebody wants it to: from now on tasks may end.
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

/// Starts a task that has to run for as long as the process does.
pub fn keep<F>(name: &'static str, work: F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        inject(name);
        work.await;
        ended(name);
    })
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

/// Lets tests see what becomes of the process when a task of this name panics. Only builds with debug assertions listen.
fn inject(name: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os("MERIDIAN_TEST_PANIC").is_some_and(|wanted| wanted == *name) {
        panic!("{name} panics because a test asked for it");
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}
