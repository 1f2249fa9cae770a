//! The Ethernet address of a source, which the neighbour table of its network tells.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use metadata_proxy::SourceCheck;
use metadata_proxy::control::{Family, ListenerId, Message};
use metadata_proxy::identity::{MacAddr, PortIdentity};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::os::fd::AsFd;
use tokio::time::{Duration, sleep};
use uuid::Uuid;

use crate::site::*;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 5]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 6]);
const NEIGHBOURS: ListenerId = ListenerId { family: Family::Neighbours, device: 3, ..LISTENER };
const ADVICE: &str = "another Ethernet address than that of the instance's port";

/// A kernel with one Ethernet address for all of its neighbours. It ends when the other end does.
fn kernel(mac: &Arc<Mutex<Option<MacAddr>>>) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let (theirs, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let mac = Arc::clone(mac);
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        while let Ok((length, _)) = recv(&ours, &mut buffer[..], RecvFlags::empty()) {
            if length == 0 {
                return;
            }
            let (kind, body) = match *mac.lock().unwrap() {
                Some(MacAddr(mac)) => (28u16, [&[0; 12][..], &[10, 0, 2, 0], &mac, &[0; 2]].concat()),
                None => (2, (-2i32).to_ne_bytes().to_vec()),
            };
            let mut answer = (16 + body.len() as u32).to_ne_bytes().to_vec();
            answer.extend(kind.to_ne_bytes());
            answer.extend([0; 2]);
            answer.extend(&buffer[8..12]);
            answer.extend([0; 4]);
            answer.extend(body);
            send(&ours, &answer, SendFlags::empty()).unwrap();
        }
    });
    theirs
}

fn checked() -> PortIdentity {
    PortIdentity { macs: [OWN].into(), ..port() }
}

/// Waits until a request gets a status: messages to the proxy take a moment.
async fn settles(front: &Front, source: &str, expected: u16) {
    for _ in 0..1000 {
        if front.get_from(source, "/").await.0 == expected {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("{front:?}: {source} gets no {expected} but {:?}", front.get_from(source, "/").await);
}

#[tokio::test]
async fn a_request_from_another_ethernet_address_is_refused_or_told_of() {
    for (check, none, other, warnings) in [
        (SourceCheck::Enforce, 404, 404, 1),
        (SourceCheck::Warn, 200, 200, 1),
        (SourceCheck::Off, 200, 200, 0),
    ] {
        let (log, _guard) = Log::start();
        let nova = Nova::start().await;
        let fronts = fronts(&nova, |config| config.check = check).await;
        tell(&fronts.agent, Message::ports(NETWORK, &[checked()])).await;
        let without = if check == SourceCheck::Enforce { 503 } else { 200 };
        let mac = Arc::new(Mutex::new(Some(OWN)));
        for front in &fronts.all {
            settles(front, "127.0.0.1", without).await;
        }
        let socket = kernel(&mac);
        fronts.agent.send(&Message::Listener(NEIGHBOURS), Some(socket.as_fd())).await.unwrap();
        for front in &fronts.all {
            *mac.lock().unwrap() = Some(OWN);
            settles(front, "127.0.0.1", 200).await;
            assert_eq!(
                log.warnings(ADVICE),
                if warnings > 0 && matches!(front, Front::Haproxy(_)) { 1 } else { 0 }
            );
            *mac.lock().unwrap() = Some(OTHER);
            settles(front, "127.0.0.1", other).await;
            assert_eq!(log.warnings(ADVICE), warnings, "{check:?}: once in a while");
            *mac.lock().unwrap() = None;
            settles(front, "127.0.0.1", none).await;
            // An instance whose Ethernet address nobody knows.
            tell(&fronts.agent, Message::ports(NETWORK, &[port()])).await;
            *mac.lock().unwrap() = Some(OTHER);
            settles(front, "127.0.0.1", 200).await;
            tell(&fronts.agent, Message::ports(NETWORK, &[checked()])).await;
        }
        // The table goes with its namespace, and the agent is told.
        *mac.lock().unwrap() = Some(OWN);
        tell(&fronts.agent, [Message::Close(NEIGHBOURS)]).await;
        assert_eq!(next(&fronts.agent).await, Message::Closed(NEIGHBOURS));
        settles(&fronts.all[0], "127.0.0.1", without).await;
    }
}

#[tokio::test]
async fn an_ethernet_address_decides_where_the_address_does_not() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    let mac = Arc::new(Mutex::new(Some(OWN)));
    let socket = kernel(&mac);
    fronts.agent.send(&Message::Listener(NEIGHBOURS), Some(socket.as_fd())).await.unwrap();
    let other = PortIdentity { instance: "other".into(), macs: [OTHER].into(), ..port() };
    tell(&fronts.agent, Message::ports(NETWORK, &[checked(), other])).await;
    // Two instances have one address.
    for front in &fronts.all {
        *mac.lock().unwrap() = None;
        settles(front, "127.0.0.1", 404).await;
        for own in [OWN, OTHER] {
            *mac.lock().unwrap() = Some(own);
            settles(front, "127.0.0.1", 200).await;
        }
    }
    // A link-local address that an instance chose itself.
    let haproxy = &fronts.all[1];
    *mac.lock().unwrap() = Some(OWN);
    assert_eq!(haproxy.get_from("fe80::1234", "/").await.0, 200);
    *mac.lock().unwrap() = Some(MacAddr([9; 6]));
    assert_eq!(haproxy.get_from("fe80::1234", "/").await.0, 404);
    *mac.lock().unwrap() = Some(OWN);
    assert_eq!(haproxy.get_from("fd00::1234", "/").await.0, 404, "only link-local ones");
}

#[tokio::test]
async fn a_network_without_sockets_and_instances_is_forgotten() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    let haproxy = &fronts.all[1];
    // The network has a socket, so it is known still: nobody has the address.
    settles(haproxy, "127.0.0.1", 200).await;
    tell(&fronts.agent, Message::ports(NETWORK, &[])).await;
    settles(haproxy, "127.0.0.1", 404).await;
    tell(&fronts.agent, [Message::Close(LISTENER)]).await;
    settles(haproxy, "127.0.0.1", 503).await;
    // One that never had a socket here.
    let another = Uuid::from_u128(77);
    tell(&fronts.agent, Message::ports(another, &[port()])).await;
    tell(&fronts.agent, Message::ports(NETWORK, &[port()])).await;
    settles(haproxy, "127.0.0.1", 200).await;
}
