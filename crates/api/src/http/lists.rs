//! Lists: rendered on threads of their own, and bounded in memory while slow clients read them.
//!
//! A list may be several megabytes. Rendering one uses a processor for a while, so a limited number of other threads does it. The server
//! holds the bytes until the client has received them. The sum of such bytes is limited, and one project may use a share of it, so that one
//! tenant's slow clients do not affect another tenant.

use std::collections::HashMap;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use task::contain;
use tokio::sync::Semaphore;

use crate::{Caller, Fault};

/// Responses up to this size are not counted; any connection may hold one.
const SMALL: usize = 64 << 10;
/// The size of the pieces in which a response is sent.
const PIECE: usize = 64 << 10;
/// The maximum bytes of responses held at once.
const HELD: usize = 128 << 20;

/// Renders lists and limits their memory.
#[derive(Clone, Debug)]
pub struct Lists(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    threads: Semaphore,
    limit: usize,
    held: Mutex<HeldLists>,
}

#[derive(Debug, Default)]
struct HeldLists {
    all: usize,
    by_project: HashMap<String, usize>,
}

impl Default for Lists {
    fn default() -> Self {
        Self::limited(HELD)
    }
}

impl Lists {
    /// Limits held responses to this many bytes, or to one response if it is larger. A project may use a quarter of the limit;
    /// administrators may use all.
    pub fn limited(limit: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        Lists(Arc::new(Inner { threads: Semaphore::new(threads), limit, held: Mutex::default() }))
    }

    fn held(&self) -> MutexGuard<'_, HeldLists> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that are held now.
    pub fn held_bytes(&self) -> usize {
        self.held().all
    }

    /// Renders on another thread, once one is free.
    pub(super) async fn render<T, F>(&self, render: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        let Ok(_turn) = self.0.threads.acquire().await else { return Err(Fault::internal()) };
        let rendered = tokio::task::spawn_blocking(|| contain::here(render)).await;
        match rendered {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(contain::Panicked(text))) => {
                tracing::error!(text, "the rendering of a list panicked");
                Err(Fault::internal())
            }
            Err(_) => Err(Fault::internal()),
        }
    }

    /// Reserves memory for a response; none if it is too small to count.
    pub(super) fn hold(&self, caller: &Caller, bytes: usize) -> Result<Option<Room>, Fault> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let mut held = self.held();
        let own = held.by_project.get(&caller.project).copied().unwrap_or(0);
        let share = if caller.admin { self.0.limit } else { self.0.limit / 4 };
        let fits = |held: usize, limit: usize| held == 0 || held + bytes <= limit;
        if !fits(own, share) || !fits(held.all, self.0.limit) {
            return Err(Fault::unavailable(
                "Too many large answers wait for clients to read them. Read them, or ask for pages with limit.",
            ));
        }
        held.all += bytes;
        *held.by_project.entry(caller.project.clone()).or_default() += bytes;
        Ok(Some(Room { lists: self.clone(), project: caller.project.clone(), bytes }))
    }
}

/// Reserved memory for a response, released on drop.
#[derive(Debug)]
pub(super) struct Room {
    lists: Lists,
    project: String,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut held = self.lists.held();
        held.all -= self.bytes;
        if let Some(own) = held.by_project.get_mut(&self.project) {
            *own -= self.bytes;
            if *own == 0 {
                held.by_project.remove(&self.project);
            }
        }
    }
}

/// A large response while it is sent, piece by piece.
#[derive(Debug)]
pub(super) struct Pieces {
    rest: Bytes,
    room: Option<Room>,
}

impl Pieces {
    pub(super) fn new(body: Bytes, room: Room) -> Self {
        Pieces { rest: body, room: Some(room) }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            self.room = None;
            return Poll::Ready(None);
        }
        let size = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(project: &str) -> Caller {
        Caller { admin: false, ..Caller::admin(project) }
    }

    #[test]
    fn one_project_has_its_share_and_no_more() {
        let lists = Lists::limited(1 << 20);
        let (blue, red) = (member("blue"), member("red"));
        assert!(lists.hold(&blue, SMALL).unwrap().is_none(), "small ones are not counted");
        let first = lists.hold(&blue, 200 << 10).unwrap();
        assert!(lists.hold(&blue, 100 << 10).is_err());
        let _other = lists.hold(&red, 700 << 10).unwrap();
        assert!(lists.hold(&Caller::admin("p"), 200 << 10).is_err(), "there is room for 124 KiB");
        drop(first);
        assert!(lists.hold(&blue, 100 << 10).unwrap().is_some());
    }

    #[test]
    fn any_answer_is_sent_when_there_is_no_other() {
        let lists = Lists::limited(1 << 20);
        let room = lists.hold(&member("blue"), 5 << 20).unwrap();
        assert!(lists.hold(&Caller::admin("p"), 1 << 20).is_err());
        drop(room);
        assert_eq!(lists.held_bytes(), 0);
        assert!(lists.held().by_project.is_empty());
    }

    #[tokio::test]
    async fn lists_are_rendered_elsewhere_and_in_turn() {
        let lists = Lists::default();
        let there = lists.render(|| Ok(std::thread::current().id())).await.unwrap();
        assert_ne!(there, std::thread::current().id());
        assert_eq!(lists.render(|| -> Result<(), _> { panic!("no luck") }).await.unwrap_err().status, 500);
        let turns = lists.0.threads.available_permits();
        let _all = lists.0.threads.try_acquire_many(u32::try_from(turns).unwrap()).unwrap();
        let waits = tokio::time::timeout(std::time::Duration::from_millis(50), lists.render(|| Ok(())));
        assert!(waits.await.is_err(), "it waits for its turn");
    }
}
