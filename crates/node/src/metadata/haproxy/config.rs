//! The configuration of a network's haproxy. It is built from typed values, and nothing in it comes from a tenant.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write;
use std::path::Path;

use listener::Limits;
use metadata_proxy::control::Family;
use metadata_proxy::forwarded::{NETWORK_HEADER, SOURCE_HEADER};
use ovsdb::Uuid;

use crate::kernel::Dev;
use crate::metadata::desired::{IPV4, IPV6};

/// Size of haproxy's buffer for a head. It is larger than the proxy's limit, so that the proxy answers and not haproxy.
const BUFFER: usize = 32 << 10;
/// Maximum number of a head's fields that haproxy takes, for the same reason.
const FIELDS: usize = 200;

/// The values of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HaproxyConfig<'a> {
    /// The network.
    pub(super) network: Uuid,
    /// The addresses to listen on.
    pub(super) families: &'a [Family],
    /// The device in the namespace, to which the link-local address belongs.
    pub(super) inner: &'a Dev,
    /// User and group that haproxy runs as once it listens: those of the proxy's socket, which only they may open.
    pub(super) user: (u32, u32),
    /// The proxy's socket for requests.
    pub(super) backend: &'a Path,
    /// haproxy's own socket, over which its successor gets the listening sockets.
    pub(super) listeners: &'a Path,
    /// Limits of connections, and timeouts.
    pub(super) limits: Limits,
}

/// Maximum length of the path of `listeners`: haproxy binds it under a longer one first, and the kernel takes 107 bytes. Without
/// the socket a successor opens its own, and clients in the queue of the old ones are reset.
const SOCKET_PATH: usize = 94;

/// Whether a haproxy can have a socket for its successor at this path.
pub(super) fn is_socket_path(path: &Path) -> bool {
    path.as_os_str().len() <= SOCKET_PATH
}

/// The file's text.
pub(super) fn render(config: &HaproxyConfig<'_>) -> String {
    let HaproxyConfig { network, families, inner, user: (user, group), backend, listeners, limits } = config;
    let milliseconds = |time: std::time::Duration| time.as_millis();
    let mut text = format!(
        "# Written by Meridian for network {network}; changes are lost.\n\
         global\n    \
             maxconn {all}\n    \
             nbthread 1\n    \
             uid {user}\n    \
             gid {group}\n    \
             tune.bufsize {BUFFER}\n    \
             tune.http.maxhdr {FIELDS}\n\
         {hand_over}\
         defaults\n    \
             mode http\n    \
             option http-server-close\n    \
             retries 3\n    \
             timeout connect 5000\n    \
             timeout http-request {head}\n    \
             timeout http-keep-alive {idle}\n    \
             timeout client {answer}\n    \
             timeout server {patience}\n\
         frontend metadata\n",
        all = limits.connections,
        hand_over = match is_socket_path(listeners) {
            true =>
                format!("    stats socket {} mode 600 level admin expose-fd listeners\n", listeners.display()),
            false => String::new(),
        },
        head = milliseconds(limits.head),
        idle = milliseconds(limits.idle),
        answer = milliseconds(limits.answer),
        // The proxy has the time limits of Nova, and answers when they are over.
        patience = milliseconds(limits.answer) + PATIENCE,
    );
    for family in *families {
        // Without h1, haproxy takes HTTP/2 in clear text as well.
        let _ = match family {
            Family::Ipv4 => writeln!(text, "    bind {IPV4}:80 proto h1"),
            Family::Ipv6 => writeln!(text, "    bind [{IPV6}]:80 interface {inner} proto h1"),
            // That one is the other end: haproxy's own.
            Family::Forwarded | Family::Neighbours => Ok(()),
        };
    }
    let _ = write!(
        text,
        "    stick-table type ipv6 size 10k expire 60s store conn_cur\n    \
             tcp-request connection track-sc0 src\n    \
             tcp-request connection reject if {{ sc_conn_cur(0) gt {per_client} }}\n    \
             http-request del-header x- -m beg\n    \
             http-request del-header x_ -m beg\n    \
             http-request del-header forwarded\n    \
             http-request set-header {SOURCE_HEADER} %[src]\n    \
             http-request set-header {NETWORK_HEADER} {network}\n    \
             default_backend proxy\n\
         backend proxy\n    \
             server proxy unix@{backend}\n",
        per_client = limits.per_client,
        backend = backend.display(),
    );
    text
}

/// Time beyond the limits of the proxy after which haproxy gives up on it, in milliseconds.
const PATIENCE: u128 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_network_addresses_and_limits_alone() {
        let text = render(&HaproxyConfig {
            network: Uuid::from_u128(0x11111111_2222_3333_4444_555555555555),
            families: &[Family::Ipv4, Family::Ipv6],
            inner: &"tap11111111-21".into(),
            user: (990, 991),
            backend: Path::new("/run/meridian-metadata/requests.sock"),
            listeners: Path::new("/var/lib/neutron/ovn-metadata-proxy/x.sock"),
            limits: Limits { connections: 1024, per_client: 64, ..Limits::default() },
        });
        for line in [
            "    maxconn 1024",
            "    nbthread 1",
            "    uid 990",
            "    gid 991",
            "    stats socket /var/lib/neutron/ovn-metadata-proxy/x.sock mode 600 level admin expose-fd listeners",
            "    bind 169.254.169.254:80 proto h1",
            "    bind [fe80::a9fe:a9fe]:80 interface tap11111111-21 proto h1",
            "    http-request del-header x- -m beg",
            "    http-request set-header x-forwarded-for %[src]",
            "    http-request set-header x-ovn-network-id 11111111-2222-3333-4444-555555555555",
            "    server proxy unix@/run/meridian-metadata/requests.sock",
        ] {
            assert!(text.lines().any(|one| one == line), "{line:?} is not in\n{text}");
        }
        let deletes = text.find("del-header").unwrap();
        assert!(deletes < text.find("set-header").unwrap(), "what a VM sends goes first");
    }
}
