//! The stored types: one struct per noun, without computed fields.
//!
//! These are the rows of the store and the inputs of `desired`. Further attributes in responses (status, `subnets` of a network,
//! `external_gateways` of a router) are computed at each request. Fields have specific types; all strings from outside have been checked
//! before. [`Entity`](crate::world::Entity) defines how the [`World`](crate::World) stores a noun.

mod address_scope;
mod adopted;
mod agent_setting;
mod dhcp_option;
mod floating_ip;
mod given;
mod health_monitor;
mod listener;
mod load_balancer;
mod member;
mod network;
mod placement;
mod plug_notice;
mod pool;
mod port;
mod quota;
mod rbac_policy;
mod router;
mod security_group;
mod standard;
mod subnet;
mod subnet_pool;

pub use address_scope::AddressScope;
pub use adopted::Adopted;
pub use agent_setting::AgentSetting;
pub use floating_ip::FloatingIp;
pub use given::{Given, GivenAddress, GivenCidr};
pub use health_monitor::{HealthMonitor, MonitorKind};
pub use listener::{Listener, ListenerTimeouts};
pub use load_balancer::{Generation, LbProtocol, LoadBalancer, RowGroup, RowSlot, Vip};
pub use member::Member;
pub use network::{Network, NetworkType, Segment};
pub use placement::{Placed, Placement};
pub use plug_notice::PlugNotice;
pub use pool::{Algorithm, Persistence, Pool};
pub use port::{AddressPair, Binding, ExtraDhcpOpt, FixedIp, InactiveBinding, Port, VifType, owner};
pub use quota::QuotaSet;
pub use rbac_policy::{RbacAction, RbacObject, RbacPolicy};
pub use router::{ExtraRoute, Router};
pub use security_group::{Direction, Ethertype, SecurityGroup, SecurityGroupRule};
pub use standard::Standard;
pub use subnet::{AddressRange, HostRoute, Ipv6Mode, Subnet};
pub use subnet_pool::SubnetPool;
