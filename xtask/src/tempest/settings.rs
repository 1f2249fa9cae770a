//! Tempest's configuration.

use std::path::Path;

use super::cloud::Cloud;

/// The text of tempest.conf. `extensions` are those whose tests run; tempest takes the list as the truth, so that the tests of an
/// extension that the server lacks fail instead of being skipped.
pub(super) fn tempest_conf(cloud: &Cloud, workspace: &Path, extensions: &[String]) -> String {
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
         [service_available]\n\
         neutron = true\n\
         nova = false\n\
         glance = false\n\
         cinder = false\n\
         swift = false\n\
         [enforce_scope]\n\
         neutron = true\n\
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
         [neutron_plugin_options]\n\
         available_type_drivers = flat,vlan,geneve\n\
         create_shared_resources = true\n",
        password = keystone.admin_password(),
        uri = keystone.url(),
        region = keystone.region(),
        extensions = extensions.join(","),
    )
}
