//! Connections: who is let in, and for how long somebody may say nothing. What is said is for [`router`](super::router).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use super::{Api, router};

/// What clients may take of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a client may take to say what it wants (the head of a request, which it may also wait with between two
    /// requests), and how long it may leave an answer unread.
    pub patience: Duration,
    /// How many may be connected at once. Those beyond wait until others are gone.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Most systems let a process have 1024 files open.
        Limits { patience: Duration::from_secs(60), connections: 900 }
    }
}

/// Answers requests until `stop`; requests that have begun are finished.
pub async fn serve(
    listener: TcpListener,
    api: Arc<Api>,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let app = router(api);
    let places = Arc::new(Semaphore::new(limits.connections));
    let under_way = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.patience);
    tokio::pin!(stop);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: others may end soon.
                warn!(%error, "cannot take a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        prepare(&stream, limits.patience);
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
        let connection = under_way.watch(connection);
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended badly");
            }
        });
    }
    drop(listener);
    under_way.shutdown().await;
    Ok(())
}

fn prepare(stream: &TcpStream, patience: Duration) {
    // Answers are written whole; waiting for more to send would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "cannot turn off delays of a connection");
    }
    // The kernel gives up on a client that takes nothing of what is sent to it.
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(patience)) {
        debug!(%error, "cannot limit how long a client may take nothing");
    }
}
