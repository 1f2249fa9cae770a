use super::*;

#[test]
fn the_server_keeps_objects_over_a_kill_and_ends_with_its_value() {
    let dir = tempfile::tempdir().unwrap();
    let begin = std::time::Instant::now();
    let api = ApiServer::start(dir.path()).unwrap();
    println!("ready after {} ms", begin.elapsed().as_millis());
    api.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: blue}\n").unwrap();
    let error = api.kubectl(&["get", "namespace", "red"]).unwrap_err().to_string();
    assert!(error.contains("NotFound"), "{error}");
    api.server().kill().unwrap();
    assert!(api.kubectl(&["get", "namespace", "blue"]).is_err(), "a killed server answers");
    api.start_again().unwrap();
    assert!(api.kubectl(&["get", "namespace", "blue"]).unwrap().contains("blue"));
    let pids = [api.server().pid().unwrap(), api.etcd().pid().unwrap()];
    drop(api);
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it outlived its value");
    }
}
