//! The services of a cloud beside its network: a database, an identity service, and the binary under test.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::{Test, Topology, eventually};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "cloud::postgres_on_a_node",
            "PostgreSQL runs on a node, is reached from another one over the network, and keeps what was committed when it is killed",
            &[],
            postgres,
        ),
        Test::new(
            "cloud::keystone_on_a_node",
            "Keystone runs on a node, and the openstack command on another one finds its way by the catalog",
            &[],
            keystone,
        )
        .openstack(),
        Test::new(
            "cloud::meridian_on_a_node",
            "the workspace's own binary runs on a node, beside the database it watches, and is ended and started again",
            &[],
            meridian,
        )
        .meridian(),
    ]
}

/// The time limit of waits on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn postgres() -> Result<()> {
    Topology::new().run(|lab| {
        let (db, api) = (lab.controller("db")?, lab.controller("api")?);
        let postgres = db.postgres()?;
        postgres.create_database("meridian")?;
        postgres.sql("meridian", "CREATE TABLE router (name text)")?;
        postgres.sql("meridian", "INSERT INTO router VALUES ('edge')")?;
        let url = postgres.url_at(db.ip(), "meridian");
        let ask = || api.run_args(&["/usr/lib/postgresql/17/bin/psql", "-At", "-c", "TABLE router", &url]);
        ensure!(ask()?.trim() == "edge", "another answer over the network");
        postgres.daemon().kill()?;
        ensure!(ask().is_err(), "a killed server answers");
        postgres.start_again()?;
        let said = eventually(LONG, "it answers again", ask)?;
        ensure!(said.trim() == "edge", "it forgot what was committed: {said}");
        Ok(())
    })
}

fn keystone() -> Result<()> {
    Topology::new().run(|lab| {
        let (ids, people) = (lab.controller("ids")?, lab.controller("people")?);
        let keystone = ids.keystone(ids.ip())?;
        let (project, alice) = (keystone.project("demo")?, keystone.user("alice", "secret")?);
        keystone.grant("member", &alice, &project)?;
        let network = keystone.service("network", "meridian")?;
        keystone.endpoint(&network, "public", "http://10.10.0.100:9696")?;
        let token = keystone.token("alice", "secret", "demo")?;
        ensure!(keystone.about(&token)?["token"]["project"]["id"] == *project, "a token for something else");
        let env = keystone.env("alice", "secret", "demo");
        let said = people.openstack(&env, &["catalog", "list", "--format", "json"])?;
        ensure!(said.contains("http://10.10.0.100:9696") && said.contains(keystone.url()), "{said}");
        Ok(())
    })
}

fn meridian() -> Result<()> {
    Topology::new().central("az1").run(|lab| {
        let (az1, api) = (lab.central("az1")?, lab.controller("api")?);
        let version = api.run("meridian --version")?;
        ensure!(version.starts_with("meridian "), "{version}");
        let watch = api.meridian(
            "watch",
            &["ovsdb", "watch", "--remote", "tcp:10.10.0.100:6641", "OVN_Northbound", "Logical_Switch"],
        )?;
        az1.write(|net| {
            net.switch("first");
        })?;
        let sees = |name: &str| {
            eventually(LONG, &format!("meridian sees {name}"), || {
                ensure!(watch.alive(), "it ended: {}", watch.said());
                ensure!(watch.said().contains(name), "not yet");
                Ok(())
            })
        };
        sees("first")?;
        watch.kill()?;
        ensure!(!watch.alive(), "a killed process lives");
        watch.start_again()?;
        az1.write(|net| {
            net.switch("second");
        })?;
        sees("second")?;
        let status = watch.stop(LONG).context("it does not end when asked to")?;
        ensure!(status.success(), "it ended with {status}: {}", watch.said());
        Ok(())
    })
}
