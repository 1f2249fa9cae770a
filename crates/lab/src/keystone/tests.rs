//! The real Keystone, on the host.

use serde_json::json;

use super::*;

#[test]
fn a_cloud_is_set_up_and_the_openstack_command_finds_its_way() {
    let dir = tempfile::tempdir().unwrap();
    let keystone = Keystone::start(dir.path()).unwrap();
    let (project, alice) = (keystone.project("demo").unwrap(), keystone.user("alice", "secret").unwrap());
    assert!(keystone.token("alice", "secret", "demo").is_err(), "a token without a role");
    keystone.grant("member", &alice, &project).unwrap();
    let network = keystone.service("network", "meridian").unwrap();
    keystone.endpoint(&network, "public", "http://127.0.0.1:9696").unwrap();

    let token = keystone.token("alice", "secret", "demo").unwrap();
    let about = keystone.about(&token).unwrap();
    assert_eq!(about["token"]["project"]["id"], json!(project));
    assert_eq!(about["token"]["user"]["id"], json!(alice));
    let error = format!("{:#}", keystone.token("alice", "wrong", "demo").unwrap_err());
    assert!(error.starts_with("Keystone gives alice no token") && error.contains("401"), "{error}");

    // `openstack` itself finds Keystone through the catalog, which was changed to this address.
    let list = || {
        let mut command = std::process::Command::new(python::openstack().unwrap().join("bin/openstack"));
        command.args(["endpoint", "list", "--format", "value", "--column", "URL"]);
        command.envs(keystone.env("admin", keystone.admin_password(), "admin"));
        python::said(&mut command).unwrap()
    };
    let mut urls: Vec<String> = list().lines().map(|line| line.to_owned()).collect();
    urls.sort();
    let mut wanted = vec!["http://127.0.0.1:9696".to_owned(), keystone.url().to_owned()];
    wanted.sort();
    assert_eq!(urls, wanted);

    keystone.revoke(&token).unwrap();
    assert!(keystone.about(&token).is_err(), "a token that was taken back is good");
    keystone.daemon().restart().unwrap();
    assert!(keystone.token("alice", "secret", "demo").is_ok(), "it forgot a user");
}
