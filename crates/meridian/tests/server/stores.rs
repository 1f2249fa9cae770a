//! A server whose store is not the one that the Northbound was written from: it deletes no rows of the customers' networks.

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually, raw};
use crate::plant::Plant;
use crate::two_servers::postgres;

fn networks(cloud: &Cloud, names: std::ops::Range<usize>) {
    for n in names {
        cloud.create("networks", "network", json!({"name": format!("n{n}")}));
    }
    cloud.converged();
}

/// The message of a writer that withholds deletions, if it does.
fn withholds(cloud: &Cloud) -> Option<String> {
    let status = cloud.status();
    let problems = status["components"].as_array()?.iter().flat_map(|it| it["problems"].as_array().cloned());
    let mut problems = problems.flatten();
    let found = problems.find(|problem: &Value| problem["code"] == "deletions-withheld")?;
    found["message"].as_str().map(str::to_owned)
}

#[test]
fn two_servers_on_one_file_are_one_server_and_a_refusal() {
    let plant = Plant::start();
    let cloud = Cloud::on(plant.dir(), &[]);
    networks(&cloud, 0..12);
    let file = format!("sqlite://{}", cloud.dir().join("api.db").display());
    let complaint = Cloud::refused(plant.dir(), &["--database", &file]);
    assert!(complaint.contains(&format!("is in use by process {}", cloud.pid())), "{complaint}");
    assert!(complaint.contains("--data-dir"), "it says what to do: {complaint}");
    networks(&cloud, 12..14);
    assert_eq!(cloud.rows("Logical_Switch").len(), 14);
}

/// A server with a store of its own replaces one that is gone. `args` choose the store.
fn takes_over_with_another_store(plant: &Plant, args: &[&str]) {
    let mut first = plant.cloud(&[]);
    networks(&first, 0..3);
    first.kill();
    let mut second = plant.cloud(args);
    let told = eventually("it withholds the deletions", || withholds(&second));
    assert!(told.contains("has written to this Northbound before"), "{told}");
    assert_eq!(second.rows("Logical_Switch").len(), 3);
    // The server works for its own clients, and reports itself unhealthy.
    second.create("networks", "network", json!({"name": "own"}));
    eventually("its own network is there", || (second.rows("Logical_Switch").len() == 4).then_some(()));
    assert_eq!(raw(&second.metrics_url(), &[], "GET", "/health", None).status, 503);
    let refusal = second.try_meridian(&["allow-deletions"]).unwrap_err();
    assert!(refusal.contains("withholds the deletion of") && refusal.contains("--yes"), "{refusal}");
    // After a restart the server still withholds the deletions.
    second.crash();
    eventually("it withholds them again", || withholds(&second));
    assert_eq!(second.rows("Logical_Switch").len(), 4);

    let told = second.meridian(&["allow-deletions", "--yes"]);
    assert!(told.contains("rows now"), "{told}");
    eventually("they go", || (second.rows("Logical_Switch").len() == 1).then_some(()));
    second.converged();
    assert_eq!(withholds(&second), None);
    assert_eq!(second.meridian(&["allow-deletions"]), "The server withholds no deletions.\n");
    // From now on the Northbound names this store, so a restart withholds nothing.
    second.crash();
    second.converged();
    assert_eq!((withholds(&second), second.rows("Logical_Switch").len()), (None, 1));
}

#[test]
fn a_server_with_another_file_deletes_nothing_until_an_operator_says_so() {
    takes_over_with_another_store(&Plant::start(), &[]);
}

#[test]
fn a_server_with_another_postgresql_deletes_nothing_until_an_operator_says_so() {
    let (postgres, _dir) = postgres();
    takes_over_with_another_store(&Plant::start(), &["--database", &postgres.url("meridian")]);
}

#[test]
fn a_server_with_another_postgresql_deletes_nothing_over_tls_either() {
    let (postgres, _dir) = postgres();
    takes_over_with_another_store(&Plant::encrypted(), &["--database", &postgres.url("meridian")]);
}

#[test]
fn a_backup_that_is_restored_deletes_nothing_until_an_operator_says_so() {
    let plant = Plant::start();
    let mut cloud = Cloud::on(plant.dir(), &[]);
    networks(&cloud, 0..3);
    assert!(cloud.stop());
    let files = ["api.db", "api.db-wal"].map(|name| cloud.dir().join(name));
    let backup = files.clone().map(|file| std::fs::read(file).unwrap_or_default());
    cloud.again();
    networks(&cloud, 3..6);
    assert!(cloud.stop());
    let _ = std::fs::remove_file(cloud.dir().join("api.db-shm"));
    for (file, content) in files.iter().zip(backup) {
        std::fs::write(file, content).unwrap();
    }
    cloud.again();
    let told = eventually("it withholds the deletions", || withholds(&cloud));
    assert!(told.contains("restored from a backup"), "{told}");
    // The restored store counts on from the backup, beyond the number in the Northbound. It is still not the newest store.
    for n in 0..20 {
        cloud.create("networks", "network", json!({"name": format!("later{n}")}));
    }
    cloud.crash();
    eventually("it withholds them again", || withholds(&cloud));
    assert_eq!(cloud.rows("Logical_Switch").len(), 26);
}

/// Deletes networks while the Northbound is down, then kills the server and restarts both. Checks which rows the server deletes with this
/// configuration.
fn deletes_what_it_missed(config: &str) -> Result<(), String> {
    let mut plant = Plant::start();
    let file = plant.dir().join("meridian.toml");
    std::fs::write(&file, config).unwrap();
    let mut cloud = plant.cloud(&["--config", file.to_str().unwrap()]);
    networks(&cloud, 0..14);
    plant.kill();
    for network in cloud.get("networks")["networks"].as_array().unwrap().iter().skip(2) {
        cloud.delete(&format!("networks/{}", network["id"].as_str().unwrap()));
    }
    cloud.kill();
    plant.revive();
    cloud.again();
    eventually("the rows go, or their deletion is withheld", || match withholds(&cloud) {
        Some(told) => Some(Err(told)),
        None => (cloud.rows("Logical_Switch").len() == 2).then_some(Ok(())),
    })
}

#[test]
fn a_new_writer_deletes_no_more_than_the_operator_has_set() {
    let told = deletes_what_it_missed("").unwrap_err();
    assert!(told.contains("more than 10 % of the rows") && told.contains("max_takeover_deletions"), "{told}");
    let told = deletes_what_it_missed("[network]\nmax_takeover_deletions = 50\n").unwrap_err();
    assert!(told.contains("more than 50 % of the rows"), "{told}");
    deletes_what_it_missed("[network]\nmax_takeover_deletions = 100\n").unwrap();
}
