//! Requests that a haproxy in a network's namespace forwards over a unix socket.
//!
//! The socket does not belong to a network, so the haproxy names it in a header, and the VM's address in another. It removes what
//! the VM sent under these names. So only a haproxy of the agent may open the socket: it belongs to the user of this process, which
//! haproxy runs as, and other users are turned away.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use hyper::header::HeaderMap;
use hyper::{Request, Response, StatusCode, Uri};
use listener::http::{Refusal, RequestBody, Site};
use listener::{Client, Door};
use tokio::net::{UnixListener, UnixStream};
use uuid::Uuid;

use crate::answer::{AnswerBody, Network, Shared, short};

/// The header that names the network.
pub const NETWORK_HEADER: &str = "x-ovn-network-id";
/// The header that names the VM's address.
pub const SOURCE_HEADER: &str = "x-forwarded-for";
/// Headers of other proxies of Neutron, which no haproxy of the agent sends.
const FOREIGN: [&str; 2] = ["x-neutron-router-id", "x-neutron-network-id"];

/// The networks of a chassis, which several tasks share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks(Arc<RwLock<BTreeMap<Uuid, Arc<Network>>>>);

impl Networks {
    /// A network; it is created if it is not there.
    pub(crate) fn obtain(&self, id: Uuid, shared: &Arc<Shared>) -> Arc<Network> {
        let mut networks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(networks.entry(id).or_insert_with(|| Arc::new(Network::new(id, Arc::clone(shared)))))
    }

    /// A network, if it is there.
    fn find(&self, id: Uuid) -> Option<Arc<Network>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Forgets a network that has no instance.
    pub(crate) fn forget_empty(&self, id: Uuid) {
        let mut networks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if networks.get(&id).is_some_and(|network| network.is_empty()) {
            networks.remove(&id);
        }
    }

    /// The ids of all.
    pub(crate) fn ids(&self) -> Vec<Uuid> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

/// The service behind the socket.
#[derive(Debug)]
pub(crate) struct ForwardedSite {
    pub(crate) networks: Networks,
}

/// Network and address of a request; `None` if they are not named exactly once.
fn origin(headers: &HeaderMap) -> Option<(Uuid, IpAddr)> {
    let only = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    };
    if FOREIGN.iter().any(|name| headers.contains_key(*name)) {
        return None;
    }
    let source: IpAddr = only(SOURCE_HEADER)?.parse().ok()?;
    Some((Uuid::try_parse(only(NETWORK_HEADER)?).ok()?, source.to_canonical()))
}

impl Site for ForwardedSite {
    type Body = AnswerBody;

    async fn answer(&self, request: Request<RequestBody>) -> Response<AnswerBody> {
        match origin(request.headers()) {
            Some((network, source)) => match self.networks.find(network) {
                Some(network) => network.answer_for(source, request).await,
                // The agent has not told of it, or not yet.
                None => short(StatusCode::SERVICE_UNAVAILABLE),
            },
            None => short(StatusCode::BAD_REQUEST),
        }
    }

    fn is_health(&self, _: &Uri) -> bool {
        false
    }

    fn refuse(&self, refusal: Refusal) -> Response<AnswerBody> {
        short(refusal.status())
    }
}

/// The socket's connections.
#[derive(Debug)]
pub(crate) struct ForwardedDoor(pub(crate) UnixListener);

impl Door for ForwardedDoor {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Client)> {
        loop {
            let (stream, _) = self.0.accept().await?;
            let user = stream.peer_cred()?.uid();
            if user == 0 || user == rustix::process::geteuid().as_raw() {
                return Ok((stream, Client::Local));
            }
            tracing::warn!(user, "a process of another user sent a request and was turned away");
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_request_names_its_origin_exactly_once() {
        let network = "11111111-2222-3333-4444-555555555555";
        let of = |fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            origin(&headers).map(|(network, source)| (network.to_string(), source.to_string()))
        };
        let (net, source) = ((NETWORK_HEADER, network), (SOURCE_HEADER, "::ffff:10.0.1.5"));
        assert_eq!(of(&[net, source]), Some((network.to_owned(), "10.0.1.5".to_owned())));
        for wrong in [
            &[net][..],
            &[source],
            &[net, source, source],
            &[net, net, source],
            &[net, (SOURCE_HEADER, "10.0.1.5, 10.0.1.6")],
            &[net, (SOURCE_HEADER, "vm1")],
            &[(NETWORK_HEADER, "x"), source],
            &[net, source, ("x-neutron-router-id", network)],
        ] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }
}
