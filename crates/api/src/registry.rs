//! The stored nouns: one entry each, from which kind, SQL table, schema step, fact and unit follow.
//!
//! To add a noun, see "How to add a noun" in ARCHITECTURE.md. Rows are written in the order of this list, so a noun comes after those that
//! it refers to.
//!
//! - `table`: the SQL table.
//! - `key`: the type of the key and its field.
//! - `since`: the schema step that creates the table. `store/schema.rs` contains the SQL of step 1. For later steps the statement is
//!   generated from the entry: `id`, `columns` if there are any, `body`.
//! - `columns`: SQL columns besides `id` and `body`, for what a database can check by itself. They correspond to
//!   [`Record::columns`](crate::world::Record::columns), and never change after a release.
//! - `unit`: the function in `desired/` that compiles the noun's Northbound rows.
//! - `touches`: the function in `snapshot/change.rs` that records which other facts a change of an object touches.

/// Passes the list of nouns to a macro.
macro_rules! with_nouns {
    ($macro:ident) => {
        $macro! {
            AddressScope { table: address_scopes, key: Uuid = id, since: 1 }
            SubnetPool { table: subnetpools, key: Uuid = id, since: 1 }
            Network {
                table: networks, key: Uuid = id, since: 1,
                unit: switch::compile, touches: touched_by_network
            }
            Subnet { table: subnets, key: Uuid = id, since: 1, unit: dhcp::compile }
            SecurityGroup { table: security_groups, key: Uuid = id, since: 1, unit: port_group::compile }
            SecurityGroupRule { table: security_group_rules, key: Uuid = id, since: 1, unit: acl::compile }
            Port { table: ports, key: Uuid = id, since: 1, unit: port::compile, touches: touched_by_port }
            Router { table: routers, key: Uuid = id, since: 1, unit: router::compile }
            FloatingIp {
                table: floatingips, key: Uuid = id, since: 1,
                unit: nat::compile_floating_ip, touches: touched_by_floating_ip
            }
            RbacPolicy { table: rbac_policies, key: Uuid = id, since: 1 }
            // Not a part of the port: placements change by themselves, thousands at once.
            Placement {
                table: placements, key: Uuid = port_id, since: 1,
                unit: chassis_group::compile, touches: touched_by_placement
            }
            LoadBalancer {
                table: load_balancers, key: Uuid = id, since: 3,
                columns: "project_id TEXT NOT NULL",
                unit: load_balancer::compile, touches: touched_by_load_balancer
            }
            Pool {
                table: pools, key: Uuid = id, since: 3,
                columns: "project_id TEXT NOT NULL, load_balancer_id TEXT NOT NULL \
REFERENCES load_balancers (id) DEFERRABLE INITIALLY DEFERRED"
            }
            Listener {
                table: listeners, key: Uuid = id, since: 3,
                columns: "project_id TEXT NOT NULL, load_balancer_id TEXT NOT NULL \
REFERENCES load_balancers (id) DEFERRABLE INITIALLY DEFERRED, \
default_pool_id TEXT REFERENCES pools (id) DEFERRABLE INITIALLY DEFERRED"
            }
            Member {
                table: members, key: Uuid = id, since: 3,
                columns: "project_id TEXT NOT NULL, \
pool_id TEXT NOT NULL REFERENCES pools (id) DEFERRABLE INITIALLY DEFERRED",
                touches: touched_by_member
            }
            HealthMonitor {
                table: health_monitors, key: Uuid = id, since: 3,
                columns: "project_id TEXT NOT NULL, \
pool_id TEXT NOT NULL REFERENCES pools (id) DEFERRABLE INITIALLY DEFERRED"
            }
            // Not a part of the port: a notice stays until Nova has received it, even if the port is deleted before.
            PlugNotice { table: plug_notices, key: Uuid = port_id, since: 4 }
            QuotaSet { table: quotas, key: String = project, since: 1 }
            AgentSetting { table: agent_settings, key: String = agent, since: 1 }
            Adopted { table: adopted_rows, key: Uuid = ours, since: 1, unit: adopted::compile }
        }
    };
}
pub(crate) use with_nouns;
