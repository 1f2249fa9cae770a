//! `[server]`: the addresses of the APIs, the authentication of their clients, and the store.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use api::http::Limits;
use api::secret::SecretUrl;

use super::value::{AuthMode, BalancerRoleMode, Field, Interface, OptionalListen};
use super::{Key, Setting};

/// The keys of the section.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Server {
    pub(crate) listen: Setting<SocketAddr>,
    pub(crate) load_balancer_listen: Setting<OptionalListen>,
    pub(crate) load_balancer_roles: Setting<BalancerRoleMode>,
    pub(crate) client_timeout: Setting<Duration>,
    pub(crate) first_request_timeout: Setting<Duration>,
    pub(crate) max_connections: Setting<usize>,
    pub(crate) max_idle_per_client: Setting<usize>,
    pub(crate) allow_remote_noauth: Setting<bool>,
    pub(crate) tls_cert: Setting<Option<PathBuf>>,
    pub(crate) tls_key: Setting<Option<PathBuf>>,
    pub(crate) metrics_tls_cert: Setting<Option<PathBuf>>,
    pub(crate) metrics_tls_key: Setting<Option<PathBuf>>,
    pub(crate) data_dir: Setting<PathBuf>,
    pub(crate) database: Setting<Option<SecretUrl>>,
    pub(crate) database_password_file: Setting<Option<PathBuf>>,
    pub(crate) nb: Setting<Vec<String>>,
    pub(crate) sb: Setting<Vec<String>>,
    pub(crate) auth: Setting<Option<AuthMode>>,
    pub(crate) trusted_hosts: Setting<Vec<String>>,
    pub(crate) noauth_project_id: Setting<String>,
    pub(crate) token_file: Setting<Option<PathBuf>>,
    pub(crate) htpasswd: Setting<Option<PathBuf>>,
    pub(crate) keystone_url: Setting<Option<SecretUrl>>,
    pub(crate) keystone_ca: Setting<Option<PathBuf>>,
    pub(crate) keystone_username: Setting<Option<String>>,
    pub(crate) keystone_password_file: Setting<Option<PathBuf>>,
    pub(crate) keystone_project: Setting<String>,
    pub(crate) keystone_domain: Setting<String>,
    pub(crate) notify_nova: Setting<bool>,
    pub(crate) nova_url: Setting<Option<SecretUrl>>,
    pub(crate) nova_region: Setting<Option<String>>,
    pub(crate) nova_interface: Setting<Interface>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: Setting::default(SocketAddr::from((Ipv4Addr::LOCALHOST, 9696))),
            load_balancer_listen: Setting::default(OptionalListen::At((Ipv4Addr::LOCALHOST, 9876).into())),
            load_balancer_roles: Setting::default(BalancerRoleMode::General),
            client_timeout: Setting::default(Limits::default().idle),
            first_request_timeout: Setting::default(Limits::default().first_request),
            max_connections: Setting::default(Limits::default().connections),
            max_idle_per_client: Setting::default(Limits::default().per_client),
            allow_remote_noauth: Setting::default(false),
            tls_cert: Setting::default(None),
            tls_key: Setting::default(None),
            metrics_tls_cert: Setting::default(None),
            metrics_tls_key: Setting::default(None),
            data_dir: Setting::default("/var/lib/meridian".into()),
            database: Setting::default(None),
            database_password_file: Setting::default(None),
            nb: Setting::default(Vec::new()),
            sb: Setting::default(Vec::new()),
            auth: Setting::default(None),
            trusted_hosts: Setting::default(Vec::new()),
            noauth_project_id: Setting::default("fake_project_id".into()),
            token_file: Setting::default(None),
            htpasswd: Setting::default(None),
            keystone_url: Setting::default(None),
            keystone_ca: Setting::default(None),
            keystone_username: Setting::default(None),
            keystone_password_file: Setting::default(None),
            keystone_project: Setting::default("service".into()),
            keystone_domain: Setting::default("Default".into()),
            notify_nova: Setting::default(true),
            nova_url: Setting::default(None),
            nova_region: Setting::default(None),
            nova_interface: Setting::default(Interface::Public),
        }
    }
}

impl Server {
    /// The limits on connections and requests of API clients.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            connections: self.max_connections.value,
            per_client: self.max_idle_per_client.value,
            first_request: self.first_request_timeout.value,
            head: self.first_request_timeout.value,
            idle: self.client_timeout.value,
            answer: self.client_timeout.value,
        }
    }

    pub(super) fn fields(&mut self) -> Vec<(Key, &mut dyn Field)> {
        let key = |name, doc| Key::new("server", name, doc);
        vec![
            (key("listen", "Address of the network API"), &mut self.listen),
            (
                key(
                    "load_balancer_listen",
                    "Address of the load-balancer API, which has the limits, TLS and authentication of the network API; \
                     \"none\" turns it off",
                ),
                &mut self.load_balancer_listen,
            ),
            (
                key(
                    "load_balancer_roles",
                    "Roles of Keystone for load balancers: general (admin, member, reader) or octavia (admin, \
                     load-balancer_admin, load-balancer_member and so on)",
                ),
                &mut self.load_balancer_roles,
            ),
            (
                key(
                    "client_timeout",
                    "Time limit for the pause between two requests of a connection, and for reading a response",
                ),
                &mut self.client_timeout,
            ),
            (
                key(
                    "first_request_timeout",
                    "Time limit for the head of a request, on a new connection from its begin",
                ),
                &mut self.first_request_timeout,
            ),
            (
                key("max_connections", "Maximum number of connections; beyond it the idlest one is closed"),
                &mut self.max_connections,
            ),
            (
                key(
                    "max_idle_per_client",
                    "Maximum number of connections of one client address; beyond it the address's idlest one is closed",
                ),
                &mut self.max_idle_per_client,
            ),
            (
                key("allow_remote_noauth", "Treat every client that reaches the address as administrator"),
                &mut self.allow_remote_noauth,
            ),
            (
                key(
                    "tls_cert",
                    "Certificate of the network and load-balancer API with its chain (PEM); without it, they have no TLS",
                ),
                &mut self.tls_cert,
            ),
            (key("tls_key", "Private key of that certificate (PEM)"), &mut self.tls_key),
            (
                key(
                    "metrics_tls_cert",
                    "Certificate of /metrics and /health with its chain (PEM); without it, no TLS",
                ),
                &mut self.metrics_tls_cert,
            ),
            (key("metrics_tls_key", "Private key of that certificate (PEM)"), &mut self.metrics_tls_key),
            (key("data_dir", "Directory of the server's files"), &mut self.data_dir),
            (
                key(
                    "database",
                    "sqlite:///file or postgres://user@host/database; api.db in the data directory if not set",
                ),
                &mut self.database,
            ),
            (
                key("database_password_file", "File with the password of the PostgreSQL user"),
                &mut self.database_password_file,
            ),
            (
                key(
                    "nb",
                    "OVN Northbound servers, as unix:PATH, tcp:IP:PORT or ssl:IP:PORT; all of a cluster",
                ),
                &mut self.nb,
            ),
            (key("sb", "OVN Southbound servers, in the same form"), &mut self.sb),
            (
                key(
                    "auth",
                    "Authentication of API clients: keystone, basic, token or none; required except with --dev",
                ),
                &mut self.auth,
            ),
            (
                key(
                    "trusted_hosts",
                    "Names by which clients may reach the API, with auth = \"none\", besides localhost",
                ),
                &mut self.trusted_hosts,
            ),
            (
                key("noauth_project_id", "The project of every caller, with auth = \"none\""),
                &mut self.noauth_project_id,
            ),
            (
                key("token_file", "File with the administrator's token, with auth = \"token\""),
                &mut self.token_file,
            ),
            (
                key("htpasswd", "File with names and passwords of administrators, with auth = \"basic\""),
                &mut self.htpasswd,
            ),
            (
                key("keystone_url", "Keystone as http://host:5000/v3, with auth = \"keystone\""),
                &mut self.keystone_url,
            ),
            (
                key("keystone_ca", "File with CA certificates for Keystone, besides the system's"),
                &mut self.keystone_ca,
            ),
            (
                key(
                    "keystone_username",
                    "User that validates tokens at Keystone; the caller's own token if not set",
                ),
                &mut self.keystone_username,
            ),
            (
                key("keystone_password_file", "File with that user's password"),
                &mut self.keystone_password_file,
            ),
            (key("keystone_project", "That user's project"), &mut self.keystone_project),
            (key("keystone_domain", "The domain of that user and project"), &mut self.keystone_domain),
            (
                key(
                    "notify_nova",
                    "Notify Nova when ports of its instances are plugged in, unplugged or deleted; needs keystone_username or \
                     nova_url",
                ),
                &mut self.notify_nova,
            ),
            (
                key(
                    "nova_url",
                    "Nova's API as http://host:8774/v2.1; the compute endpoint in Keystone's catalog if not set",
                ),
                &mut self.nova_url,
            ),
            (key("nova_region", "The region of that endpoint; any if not set"), &mut self.nova_region),
            (
                key("nova_interface", "The kind of that endpoint: public, internal or admin"),
                &mut self.nova_interface,
            ),
        ]
    }
}
