//! The examples, against a real server: their functions are compiled into this test.

use crate::support::server::Standalone;
use crate::support::soon;

#[allow(dead_code)]
#[path = "../../examples/create.rs"]
mod create;
#[allow(dead_code)]
#[path = "../../examples/watch.rs"]
mod watch;

const SCHEMA: &str = r#"{"name": "OVN_Northbound", "version": "7.0.0", "tables": {
    "Logical_Switch": {"isRoot": true, "columns": {"name": {"type": "string"}}}}}"#;

#[tokio::test]
async fn a_switch_is_created_once_and_watched() {
    let server = Standalone::start(SCHEMA);
    let remote = server.unix();
    let row = soon("the switch", create::create(&remote, "net1")).await.unwrap();
    assert_eq!(soon("the same switch", create::create(&remote, "net1")).await.unwrap(), row);
    soon("another one", create::create(&remote, "net2")).await.unwrap();
    let mut out = Vec::new();
    soon("both rows", watch::watch(&remote, 2, &mut out)).await.unwrap();
    let mut lines: Vec<_> = std::str::from_utf8(&out).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["added net1", "added net2"]);
}
