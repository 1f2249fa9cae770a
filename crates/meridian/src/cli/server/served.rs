//! The running APIs of a server: the tasks that answer on its sockets, until the server stops.

use std::net::SocketAddr;
use std::sync::Arc;

use api::dialect::{Neutron, Octavia};
use api::http::{Api, HttpDialect, Limits};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::sockets::{ApiSocket, Probe};

/// The tasks of the running APIs.
pub(super) struct ServedApis {
    tasks: JoinSet<Result<(), JoinError>>,
    drain: watch::Sender<bool>,
}

/// Probes of the APIs of this process.
pub(super) struct Probes {
    network: Probe,
    load_balancer: Option<Probe>,
}

impl ServedApis {
    /// Answers on all sockets from one `Api` value, so that both APIs see the same world.
    pub(super) fn start(
        network: ApiSocket,
        load_balancer: Option<ApiSocket>,
        api: &Arc<Api>,
        limits: Limits,
    ) -> (Self, Probes) {
        let mut served = Self { tasks: JoinSet::new(), drain: watch::Sender::new(false) };
        served.answer("network-api", network.http, Neutron, api, limits);
        let load_balancer = load_balancer.map(|socket| {
            served.answer("load-balancer-api", socket.http, Octavia, api, limits);
            socket.probe
        });
        (served, Probes { network: network.probe, load_balancer })
    }

    fn answer(
        &mut self,
        name: &'static str,
        socket: listener::http::HttpSocket,
        dialect: impl HttpDialect,
        api: &Arc<Api>,
        limits: Limits,
    ) {
        let mut drain = self.drain.subscribe();
        let drained = async move { drop(drain.wait_for(|drain| *drain).await) };
        let serving = task::spawn(name, api::http::serve(socket, Arc::clone(api), dialect, limits, drained));
        self.tasks.spawn(serving);
    }

    /// Waits until an API ends. No API should end before [`drain`](Self::drain).
    pub(super) async fn ended(&mut self) -> String {
        match self.tasks.join_next().await {
            Some(ended) => format!("an API ended by itself: {ended:?}"),
            None => std::future::pending().await,
        }
    }

    /// Stops accepting requests and finishes those in progress.
    pub(super) async fn drain(&mut self) {
        self.drain.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Probes {
    /// The lines on standard output that tell programs the addresses of the APIs, because the kernel may choose the ports. The network API
    /// comes last: its line means that the server is ready.
    pub(super) fn lines(&self) -> String {
        let second = self.load_balancer.as_ref().map(|probe| format!("load balancers on {}\n", probe.url()));
        format!("{}listening on {}\n", second.unwrap_or_default(), self.network.url())
    }

    /// The address of the load-balancer API, if it is turned on.
    pub(super) fn load_balancer_address(&self) -> Option<SocketAddr> {
        self.load_balancer.as_ref().map(|probe| probe.address)
    }

    /// Whether all APIs answer a request on their sockets, as a client would send it.
    pub(super) async fn live(&self) -> bool {
        let second = async {
            match &self.load_balancer {
                Some(probe) => probe.lives().await,
                None => true,
            }
        };
        let (network, second) = tokio::join!(self.network.lives(), second);
        network && second
    }
}
