//! Tempest's configuration.

use std::path::Path;

use super::cloud::Cloud;

/// The part of tempest.conf that both suites share. The tests of `extensions` run. tempest does not compare this list with the server, so
/// the tests of an extension that the server lacks fail instead of being skipped.
pub(super) fn tempest_conf(cloud: &Cloud, workspace: &Path, extensions: &[String], suite: &str) -> String {
    let (keystone, network, dir) = (&cloud.keystone, &cloud.public_network, workspace.display());
    format!(
        "[DEFAULT]\n\
         log_dir = {dir}/logs\n\
         log_file = tempest.log\n\
         [oslo_concurrency]\n\
         lock_path = {dir}/lock\n\
         [auth]\n\
         use_dynamic_credentials = true\n\
         tempest_roles = member\n\
         create_isolated_networks = false\n\
         admin_username = admin\n\
         admin_password = {password}\n\
         admin_project_name = admin\n\
         admin_domain_name = Default\n\
         [identity]\n\
         auth_version = v3\n\
         uri_v3 = {uri}\n\
         region = {region}\n\
         [network]\n\
         public_network_id = {network}\n\
         project_network_cidr = 10.100.0.0/16\n\
         project_network_mask_bits = 28\n\
         project_network_v6_cidr = fd00:100::/48\n\
         project_network_v6_mask_bits = 64\n\
         [network-feature-enabled]\n\
         ipv6 = true\n\
         ipv6_subnet_attributes = true\n\
         api_extensions = {extensions}\n\
         {suite}",
        password = keystone.admin_password(),
        uri = keystone.url(),
        region = keystone.region(),
        extensions = extensions.join(","),
    )
}

/// The part for the network API.
pub(super) const NETWORK: &str = "\
    [service_available]\n\
    neutron = true\n\
    nova = false\n\
    glance = false\n\
    cinder = false\n\
    swift = false\n\
    load_balancer = false\n\
    [enforce_scope]\n\
    neutron = true\n\
    [neutron_plugin_options]\n\
    available_type_drivers = flat,vlan,geneve\n\
    create_shared_resources = true\n";

/// The part for the load-balancer API. Its suite creates clients of Nova and Glance, and the API tests never use them. The provider's
/// description is that of `GET /v2/lbaas/providers`.
pub(super) fn load_balancer(with_ipv6: bool) -> String {
    format!(
        "[service_available]\n\
         neutron = true\n\
         nova = true\n\
         glance = true\n\
         cinder = false\n\
         swift = false\n\
         load_balancer = true\n\
         [enforce_scope]\n\
         neutron = true\n\
         octavia = true\n\
         [load_balancer]\n\
         provider = ovn\n\
         enabled_provider_drivers = ovn:Load balancing by OVN\n\
         RBAC_test_type = keystone_default_roles\n\
         enforce_new_defaults = true\n\
         test_with_ipv6 = {with_ipv6}\n\
         log_user_roles = false\n\
         build_interval = 0.1\n\
         check_interval = 0.1\n\
         lb_build_interval = 0.1\n\
         [loadbalancer-feature-enabled]\n\
         not_implemented_is_error = false\n\
         health_monitor_enabled = true\n\
         l7_protocol_enabled = false\n\
         terminated_tls_enabled = false\n\
         prometheus_listener_enabled = false\n"
    )
}
