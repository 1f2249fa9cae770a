//! The connections of all networks of a chassis together: a flood on some networks must not use up the process' files.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use listener::{Client, Door, Limits};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// A listening socket of a network. Its clients are single addresses: link-local ones are all in one prefix.
///
/// While all places of the chassis are taken, it accepts no further connection; those wait in the kernel's queue.
#[derive(Debug)]
pub(crate) struct NamespaceDoor {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// A connection that waits for its place: the future that waits may be dropped.
    waiting: Mutex<Option<(TcpStream, Client)>>,
}

/// A connection with its place.
#[derive(Debug)]
pub(crate) struct PlacedStream {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl NamespaceDoor {
    pub(crate) fn new(listener: TcpListener, places: Arc<Semaphore>) -> Self {
        NamespaceDoor { listener, places, waiting: Mutex::default() }
    }
}

impl Door for NamespaceDoor {
    type Stream = PlacedStream;

    async fn next(&self) -> io::Result<(PlacedStream, Client)> {
        let mut waiting = self.waiting.lock().await;
        if waiting.is_none() {
            let (stream, peer) = self.listener.accept().await?;
            *waiting = Some((stream, Client::Address(peer.ip().to_canonical())));
        }
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, client) = waiting.take().ok_or(io::ErrorKind::WouldBlock)?;
        Ok((PlacedStream { stream, _place: place }, client))
    }

    fn prepare(stream: &PlacedStream, limits: &Limits) {
        <TcpListener as Door>::prepare(&stream.stream, limits);
    }
}

impl AsyncRead for PlacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PlacedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Whether a connection comes within a moment. The future is dropped if none does.
    async fn comes(door: &NamespaceDoor) -> Option<PlacedStream> {
        let next = timeout(Duration::from_millis(50), door.next()).await.ok()?;
        Some(next.unwrap().0)
    }

    #[tokio::test]
    async fn connections_wait_for_a_place_and_none_is_lost() {
        let places = Arc::new(Semaphore::new(2));
        let mut doors = Vec::new();
        for _ in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            doors.push((listener.local_addr().unwrap(), NamespaceDoor::new(listener, Arc::clone(&places))));
        }
        let mut clients = Vec::new();
        for (address, _) in doors.iter().chain(&doors) {
            clients.push(TcpStream::connect(*address).await.unwrap());
        }
        let first = comes(&doors[0].1).await.expect("there is a place");
        let second = comes(&doors[0].1).await.expect("there is another one");
        assert!(comes(&doors[1].1).await.is_none(), "another network's connections take the last one");
        assert!(comes(&doors[1].1).await.is_none());
        drop(first);
        let third = comes(&doors[1].1).await.expect("the connection that waited has come");
        assert!(comes(&doors[1].1).await.is_none());
        drop((second, third));
        assert!(comes(&doors[1].1).await.is_some());
    }
}
