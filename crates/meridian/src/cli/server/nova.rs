//! The configured client of Nova, and the metrics of the events sent to it.

use std::fmt;
use std::sync::Arc;

use api::auth::keystone::Keystone;
use api::nova::{NovaClient, NovaCounts, NovaEndpoint, NovaSettings};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;

use super::read;
use crate::config::Server;
use crate::failure::{Exit, Failure, Outcome};

/// A client of Nova; `None` if the server does not notify Nova, or if neither Keystone nor the configuration names its URL.
pub(super) fn client(server: &Server, keystone: Option<Arc<Keystone>>) -> Outcome<Option<NovaClient>> {
    if !server.notify_nova.value {
        return Ok(None);
    }
    let endpoint = match &server.nova_url.value {
        Some(url) => NovaEndpoint::parse(url.expose()).map_err(|error| {
            Failure::new(Exit::Usage, error).while_(format!("server.nova_url ({})", server.nova_url.origin))
        })?,
        None if keystone.as_ref().is_some_and(|keystone| keystone.has_account()) => NovaEndpoint::Catalog {
            region: server.nova_region.value.clone(),
            interface: server.nova_interface.value.word().to_owned(),
        },
        None => return Ok(None),
    };
    let ca_certificates = server.keystone_ca.value.as_deref().map(read).transpose()?;
    // Without a service account there is no token for Nova.
    let keystone = keystone.filter(|keystone| keystone.has_account());
    let client = NovaClient::new(NovaSettings { endpoint, keystone, ca_certificates });
    client.map(Some).map_err(|error| Failure::new(Exit::Usage, error))
}

/// The counters of events sent to Nova, read at each scrape.
pub(super) struct NovaMetrics(pub(super) NovaCounts);

impl fmt::Debug for NovaMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NovaMetrics").finish_non_exhaustive()
    }
}

impl Collector for NovaMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kind = ConstCounter::new(0_u64).metric_type();
        let help = "Events about ports that were sent to Nova, by outcome";
        let mut family = encoder.encode_descriptor("nova_events", help, None, kind)?;
        for (outcome, count) in self.0.outcomes() {
            ConstCounter::new(count).encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        let help = "Ports that the server reported to Nova before their metadata service was ready";
        let family = encoder.encode_descriptor("nova_events_before_metadata", help, None, kind)?;
        ConstCounter::new(self.0.late()).encode(family)
    }
}
