//! TLS with certificates from `ovs-pki`.

use ovsdb::client::{Dialer, Rpc, TlsConfig};
use ovsdb::session::Remotes;
use ovsdb::{Client, FeedEvent, Transaction};

use crate::support::backend::{config, model, synced};
use crate::support::feed::next;
use crate::support::pki::Pki;
use crate::support::server::Standalone;
use crate::support::{PATIENCE, eventually, stable, whole};

/// A server that wants certificates, and the CA.
fn start() -> (Standalone, Pki) {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path(), "ca");
    let (certificate, key) = pki.sign("server");
    let options = [
        format!("--private-key={}", key.display()),
        format!("--certificate={}", certificate.display()),
        format!("--ca-cert={}", pki.ca().display()),
    ];
    (Standalone::start_in(dir, stable::SCHEMA, &options), pki)
}

async fn connect(remote: &str, tls: TlsConfig) -> Result<Vec<String>, String> {
    let remotes: Remotes = remote.parse().unwrap();
    let dialer = Dialer { tls: Some(tls), ..Dialer::default() };
    let mut rpc = Rpc::connect(&remotes, &dialer, PATIENCE).await.map_err(|error| whole(&error))?;
    rpc.databases().await.map_err(|error| whole(&error))
}

#[tokio::test]
async fn both_sides_show_certificates_and_what_is_wrong_is_said() {
    let (server, pki) = start();
    let client = pki.sign("client");
    let good = pki.client(&client);
    assert_eq!(connect(&server.ssl(), good.clone()).await.unwrap(), ["Stable", "_Server"]);

    let contains = |error: Result<Vec<String>, String>, part: &str| {
        let error = error.unwrap_err();
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    };
    let other = Pki::new(server.dir.path(), "other");
    let distrusting = TlsConfig { ca: other.ca(), ..good.clone() };
    contains(connect(&server.ssl(), distrusting).await, "not signed by the given CA; check the CA file");
    let namesake = Pki::with_subject(server.dir.path(), "namesake", "ca");
    let distrusting = TlsConfig { ca: namesake.ca(), ..good.clone() };
    contains(connect(&server.ssl(), distrusting).await, "not signed by the given CA; check the CA file");
    let distrusted = TlsConfig { ca: pki.ca(), ..namesake.client(&namesake.sign("impostor")) };
    contains(connect(&server.ssl(), distrusted).await, "does not trust our certificate");
    let distrusted = TlsConfig { ca: pki.ca(), ..other.client(&other.sign("stranger")) };
    contains(connect(&server.ssl(), distrusted).await, "does not trust our certificate");
    contains(connect(&server.ssl(), TlsConfig::new(pki.ca())).await, "requires a client certificate");
    let named = TlsConfig { verify_names: true, ..good.clone() };
    contains(connect(&server.ssl(), named).await, "is for another name");
    contains(
        connect(&server.ssl(), TlsConfig::new("/nothing")).await,
        "cannot read certificates from /nothing",
    );
    let swapped = pki.client(&(client.0.clone(), server.dir.path().join("ca/server-privkey.pem")));
    contains(connect(&server.ssl(), swapped).await, "cannot use");
    contains(connect(&server.tcp().replace("tcp", "ssl"), good.clone()).await, "tcp:");
    contains(connect(&server.ssl().replace("ssl", "tcp"), good).await, "if it is a TLS port, use ssl:");
}

async fn use_remote(client: &Client, method: &str) {
    let status = client.status();
    let remote = status.borrow().remote.clone().unwrap().to_string();
    assert!(remote.starts_with(method), "{remote} instead of {method}");
    assert_eq!(client.commit(&Transaction::new()).await.unwrap().results().len(), 0);
}

#[tokio::test]
async fn a_list_may_mix_every_kind_of_remote() {
    let (server, pki) = start();
    let tls = pki.client(&pki.sign("client"));
    let all = [server.ssl(), server.tcp(), server.unix()];
    for first in 0..3 {
        let list = [&*all[first], &*all[(first + 1) % 3], &*all[(first + 2) % 3]].join(",");
        let mut settings = config(&list).tls(tls.clone());
        settings.session.shuffle = false;
        let client = synced(settings, model()).await;
        use_remote(&client, &all[first]).await;
    }
    // The ones that do not answer are passed over.
    let dead = format!("ssl:127.0.0.1:1,tcp:127.0.0.1:1,unix:/nothing,{}", server.ssl());
    let client = synced(config(&dead).tls(tls), model()).await;
    use_remote(&client, "ssl:127.0.0.2").await;
}

#[tokio::test]
async fn certificates_are_rotated_without_a_restart_of_the_client() {
    let (mut server, old) = start();
    let dir = server.dir.path().to_owned();
    let install = |pki: &Pki| {
        let (certificate, key) = pki.sign("client");
        for (from, to) in [(pki.ca(), "ca.pem"), (certificate, "cert.pem"), (key, "key.pem")] {
            std::fs::copy(from, dir.join(to)).unwrap();
        }
    };
    install(&old);
    let tls = TlsConfig::new(dir.join("ca.pem")).identity(dir.join("cert.pem"), dir.join("key.pem"));
    let client = synced(config(&server.ssl()).tls(tls), model()).await;
    let mut feed = client.subscribe();

    // The server returns with certificates of another CA. The client rejects it and reports the reason.
    server.stop();
    let new = Pki::new(&dir, "new");
    let (certificate, key) = new.sign("server");
    std::fs::copy(new.ca(), old.ca()).unwrap();
    std::fs::copy(certificate, dir.join("ca/server-cert.pem")).unwrap();
    std::fs::copy(key, dir.join("ca/server-privkey.pem")).unwrap();
    server.run();
    assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
    eventually("the new certificate is refused", async || {
        let reason = client.status().borrow().last_close.clone()?.to_string();
        reason.contains("not signed by the given CA").then_some(())
    })
    .await;
    // With the new files in place the client connects by itself.
    install(&new);
    assert!(matches!(next(&mut feed).await, FeedEvent::Reconnected { .. }));
}
