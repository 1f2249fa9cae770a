//! The bodies of the fuzz targets.
//!
//! A body accepts any bytes and must not panic. It checks that the code under test neither panics nor breaks a promise: printed values
//! parse to the same values, and splitting a stream differently gives the same messages. A body is a plain function, so it has two users:
//! libFuzzer (`fuzz/fuzz_targets`, one target per body) and `tests/corpus.rs`, which replays `fuzz/corpus` on stable Rust in every test
//! run.

mod agent_config;
mod api_request;
mod flow_lexer;
mod metadata;
mod node;
mod ovn_flow;
mod ovn_text;
mod ovsdb_session;
mod ovsdb_update;
mod ovsdb_wire;

pub use agent_config::oslo_ini;
pub use api_request::{api_body, api_query};
pub use metadata::{metadata_control, metadata_request};
pub use node::{flow_stats, rt_tables, running_config, vty_reply};
pub use ovn_flow::flow_text;
pub use ovn_text::{addresses, bridge_mappings, match_expr, nat_addresses, neutron_text, vips};
pub use ovsdb_session::session;
pub use ovsdb_update::update;
pub use ovsdb_wire::{datum, frame, message, row, schema};

/// A body.
pub type Body = fn(&[u8]);

/// Every body under the name of its target and its corpus.
pub const TARGETS: &[(&str, Body)] = &[
    ("addresses", addresses),
    ("api_body", api_body),
    ("api_query", api_query),
    ("bridge_mappings", bridge_mappings),
    ("datum", datum),
    ("flow_stats", flow_stats),
    ("flow_text", flow_text),
    ("frame", frame),
    ("match_expr", match_expr),
    ("message", message),
    ("metadata_control", metadata_control),
    ("metadata_request", metadata_request),
    ("nat_addresses", nat_addresses),
    ("neutron_text", neutron_text),
    ("oslo_ini", oslo_ini),
    ("row", row),
    ("rt_tables", rt_tables),
    ("running_config", running_config),
    ("schema", schema),
    ("session", session),
    ("update", update),
    ("vips", vips),
    ("vty_reply", vty_reply),
];
