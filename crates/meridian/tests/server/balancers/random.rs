//! Schemathesis sends random requests to the load-balancer API of a real server.

use std::fmt::Write;
use std::process::Command;

use serde_json::json;

use super::site::BalancerSite;

#[test]
fn schemathesis_finds_no_server_error_of_load_balancers() {
    let site = BalancerSite::new();
    let balancer = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &balancer);
    let member = site.member(&pool, "10.0.0.107", &site.s1);
    let listener = site.listener(&balancer, 80, &pool);
    let monitor = json!({"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
    let monitor = site.make("healthmonitors", "healthmonitor", monitor);
    // OVN cannot fulfil many of the requests; Octavia answers those with 501. Random ids would only find 404, so the paths name existing
    // objects, which no request deletes.
    let mut config =
        "[checks]\nnot_a_server_error.expected-statuses = [\"2xx\", \"3xx\", \"4xx\", \"501\"]\n".to_owned();
    for (path, id) in [
        ("loadbalancers", &balancer),
        ("listeners", &listener),
        ("pools/\\{parent\\}/members", &member),
        ("pools", &pool),
        ("healthmonitors", &monitor),
    ] {
        writeln!(
            config,
            "[[operations]]\ninclude-path-regex = '^/v2/lbaas/{path}/\\{{id'\nexclude-method = 'DELETE'"
        )
        .unwrap();
        writeln!(config, "parameters = {{ id = '{id}', parent = '{pool}' }}\n").unwrap();
    }
    std::fs::write(site.cloud.dir().join("schemathesis.toml"), config).unwrap();
    let url = site.cloud.load_balancer_url();
    let output = Command::new(lab::python::openstack().unwrap().join("bin/schemathesis"))
        .args(["--config-file", "schemathesis.toml", "run", &format!("{url}/openapi.json"), "--url", url])
        .args(["--checks", "not_a_server_error,content_type_conformance,status_code_conformance"])
        .args(["--max-examples", "5", "--seed", "7", "--phases", "examples,coverage,fuzzing"])
        // More workers trigger a bug of Python 3.11: its parser keeps one recursion depth for all threads.
        .args(["--workers", "1", "--no-color"])
        .current_dir(site.cloud.dir())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(" Tested: "), "{said}");
    site.settled();
}
