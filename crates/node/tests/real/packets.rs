//! Single packets through a real ovs-vswitchd. Its dummy ports write down what leaves through them.

use std::path::Path;

use node::flows::{FlowError, OutPort, PacketSender};
use node::kernel::Dev;

use crate::support::{eventually, run};
use crate::switch::Switch;

/// The frames in a file of packets, in the byte order of this machine.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some((head, more)) = rest.split_first_chunk::<16>() {
        let length = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some((frame, more)) = more.split_at_checked(length) else { break };
        frames.push(frame.to_vec());
        rest = more;
    }
    frames
}

/// A frame of this length with a number in it.
fn frame(number: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![number; length];
    // To everybody, from a local address, of an experimental protocol.
    frame[..14].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

#[tokio::test]
async fn frames_leave_through_one_port_as_they_are_whatever_the_flows() {
    let switch = Switch::start().await;
    let at = |name: &str| switch.dir.path().join(name);
    switch.vsctl(&format!("set interface p5 options:tx_pcap={}", at("p5.pcap").display()));
    switch.vsctl(&format!(
        "add-port br-ex p6 -- set interface p6 type=dummy ofport_request=6 options:tx_pcap={}",
        at("p6.pcap").display()
    ));
    run("ovs-ofctl", &["add-flow", "br-ex", "priority=65535,actions=drop"], switch.dir.path());
    for port in ["p5.pcap", "p6.pcap"] {
        eventually("the port writes down packets", async || at(port).exists().then_some(())).await;
    }
    let mut sender = PacketSender::new(switch.dir.path());
    let (bridge, port) = (Dev::new("br-ex"), OutPort::new(5).unwrap());
    let sent = vec![frame(1, 60), frame(2, 110), frame(3, 1400)];
    sender.send(&bridge, port, &sent).await.unwrap();
    sender.send(&bridge, port, &[frame(4, 60)]).await.unwrap();
    let expected: Vec<Vec<u8>> = sent.into_iter().chain([frame(4, 60)]).collect();
    eventually("the frames have left", async || {
        (frames(&at("p5.pcap")).len() >= expected.len()).then_some(())
    })
    .await;
    assert_eq!(frames(&at("p5.pcap")), expected);
    assert_eq!(frames(&at("p6.pcap")), [] as [Vec<u8>; 0], "no other guest gets them");
}

#[tokio::test]
async fn a_port_that_is_not_there_and_a_bridge_that_is_not_there_are_errors() {
    let switch = Switch::start().await;
    let mut sender = PacketSender::new(switch.dir.path());
    let nowhere = sender.send(&Dev::new("br-none"), OutPort::new(5).unwrap(), &[frame(1, 60)]).await;
    assert!(matches!(nowhere, Err(FlowError::Connect { .. })), "{nowhere:?}");
    // Open vSwitch takes packets for ports that do not exist, and drops them.
    sender.send(&Dev::new("br-ex"), OutPort::new(77).unwrap(), &[frame(1, 60)]).await.unwrap();
}
