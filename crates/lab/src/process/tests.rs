//! Daemons of the host. The end-to-end tests cover those of nodes.

use super::*;

fn here(dir: &Path, recipe: Recipe) -> Daemon {
    Daemon::start_here("thing", &dir.join("thing.out"), recipe).unwrap()
}

#[test]
fn it_is_ended_and_tells_how() {
    let dir = tempfile::tempdir().unwrap();
    let thing = here(dir.path(), Recipe::new("sleep").arg("600"));
    assert!(thing.alive() && thing.pid().is_some());
    let error = thing.ended(Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("thing of this host did not end within 0ns"), "{error}");
    assert!(!thing.stop(START).unwrap().success());
    assert!(!thing.alive());
    assert!(thing.signal(Signal::SIGHUP).unwrap_err().to_string().contains("does not run"));
    thing.start_again().unwrap();
    assert!(thing.alive());
    thing.kill().unwrap();
    assert!(!thing.alive());
}

#[test]
fn what_it_says_is_kept_over_its_lives() {
    let dir = tempfile::tempdir().unwrap();
    let thing = here(dir.path(), Recipe::new("echo").args(["hello", "there"]));
    assert!(thing.ended(START).unwrap().success());
    thing.start_again().unwrap();
    assert!(thing.ended(START).unwrap().success());
    assert_eq!(thing.said(), "hello there\nhello there\n");
}

#[test]
fn one_that_ends_at_its_start_tells_its_last_words() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe::new("sh").args(["-c", "echo no such table; exit 3"]);
    let thing = here(dir.path(), recipe.ready(dir.path().join("never.sock")));
    let error = thing.ready().unwrap_err().to_string();
    assert_eq!(error, "thing of this host ended at its start: no such table");
}

#[test]
fn a_dropped_one_is_gone_and_may_say_goodbye() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'echo goodbye; exit' INT; echo ready; while :; do sleep 0.05; done";
    let thing = here(dir.path(), Recipe::new("sh").args(["-c", script]).goodbye(Signal::SIGINT));
    let begin = Instant::now();
    while !thing.said().contains("ready") {
        assert!(begin.elapsed() < START, "it did not start");
        sleep(Duration::from_millis(5));
    }
    drop(thing);
    assert_eq!(fs::read_to_string(dir.path().join("thing.out")).unwrap(), "ready\ngoodbye\n");
}
