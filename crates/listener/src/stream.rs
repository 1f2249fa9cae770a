//! A connection's stream of bytes, which records the client's activity as bytes pass.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::activity::Activity;
use crate::framing::Framing;
use crate::table::Table;

/// A stream that records when its client sends and reads.
#[derive(Debug)]
pub struct GuardedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    table: Arc<Table>,
    /// Finds the requests in an HTTP stream. With `None`, all bytes pass unchanged.
    framing: Option<Framing>,
    /// Received bytes that are not passed on yet.
    rest: BytesMut,
}

impl<S> GuardedStream<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>, table: Arc<Table>) -> Self {
        GuardedStream { stream, activity, table, framing: None, rest: BytesMut::new() }
    }

    /// Makes this a stream of HTTP requests.
    pub(crate) fn framed(self) -> Self {
        GuardedStream { framing: Some(Framing::default()), ..self }
    }

    fn sent(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &outcome {
            Poll::Pending => self.activity.blocked(&self.table.limits),
            Poll::Ready(Ok(bytes)) => self.activity.took(*bytes, &self.table.limits),
            Poll::Ready(Err(_)) => {}
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(framing) = &mut this.framing else {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
            this.activity.received(false);
            return Poll::Ready(Ok(()));
        };
        if this.rest.is_empty() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
            let new = &buf.filled()[before..];
            if new.is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.rest.extend_from_slice(new);
            buf.set_filled(before);
        }
        // hyper reads ahead. It gets the next request only after it has answered this one, so that the connection's activity always
        // concerns the current request.
        if framing.between_requests() && this.activity.next_has_to_wait(cx.waker()) {
            return Poll::Pending;
        }
        let room = this.rest.len().min(buf.remaining());
        let heads = framing.heads();
        let taken = framing.feed(&mut this.rest[..room]);
        buf.put_slice(&this.rest[..taken]);
        this.rest.advance(taken);
        this.activity.received(framing.in_head());
        if framing.heads() > heads {
            this.activity.head_complete();
        }
        if framing.is_last() {
            this.activity.set_last();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.sent(outcome)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_flush(cx);
        if outcome.is_ready() {
            this.activity.flushed();
        }
        outcome
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.sent(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
