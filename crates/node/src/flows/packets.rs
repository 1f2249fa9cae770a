//! Sends frames out of ports of a bridge, with OpenFlow's PACKET_OUT.
//!
//! The frames pass none of the bridge's flows: the port's guest gets them as they are, and no other guest does. This needs neither a raw
//! socket nor a device of the host on the guest's network.

use std::path::PathBuf;

use super::connection::FlowError;
use super::observe::Connections;
use super::openflow;
use crate::kernel::Dev;

/// The OpenFlow number of a port that packets can leave through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutPort(u32);

impl OutPort {
    /// The port of this number, as the table `Interface` has it. It has -1 for a device that Open vSwitch cannot open, and numbers
    /// from 65280 are no ports but actions such as flooding.
    pub fn new(ofport: i64) -> Option<OutPort> {
        u32::try_from(ofport).ok().filter(|port| (1..0xff00).contains(port)).map(OutPort)
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Sends frames out of ports of bridges.
#[derive(Debug)]
pub struct PacketSender {
    rundir: PathBuf,
    connections: Connections,
}

impl PacketSender {
    /// A sender for the bridges whose sockets are in `rundir` (`OVS_RUNDIR`).
    pub fn new(rundir: impl Into<PathBuf>) -> PacketSender {
        PacketSender { rundir: rundir.into(), connections: Connections::default() }
    }

    /// Sends frames out of a port, in this order, and waits until ovs-vswitchd has taken all of them. A connection from before Open
    /// vSwitch was restarted is replaced; then a guest may get frames twice.
    pub async fn send(&mut self, bridge: &Dev, port: OutPort, frames: &[Vec<u8>]) -> Result<(), FlowError> {
        let known = self.connections.0.contains_key(bridge);
        let first = self.connections.get(&self.rundir, bridge).await?.send_out(port, frames).await;
        let sent = match first {
            Err(FlowError::Broken(_)) if known => {
                self.connections.0.remove(bridge);
                self.connections.get(&self.rundir, bridge).await?.send_out(port, frames).await
            }
            other => other,
        };
        sent.inspect_err(|_| drop(self.connections.0.remove(bridge)))
    }
}

/// The messages for frames, and the longest frame that fits into one.
pub(super) fn messages(
    port: OutPort,
    frames: &[Vec<u8>],
    mut xid: impl FnMut() -> u32,
) -> Result<Vec<u8>, FlowError> {
    let mut bytes = Vec::new();
    for frame in frames {
        let message = openflow::packet_out(port.get(), frame, xid());
        bytes
            .extend(message.ok_or_else(|| {
                FlowError::Refused(format!("a frame of {} bytes is too long", frame.len()))
            })?);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_ports_are_ports() {
        assert_eq!(OutPort::new(1).map(OutPort::get), Some(1));
        assert_eq!(OutPort::new(0xfeff).map(OutPort::get), Some(0xfeff));
        // Not opened, the reserved ports of OpenFlow 1.0 and 1.3, and nonsense.
        for number in [-1, 0, 0xff00, 0xfffb, 0xffff_fffb, i64::MIN, i64::MAX] {
            assert_eq!(OutPort::new(number), None, "{number}");
        }
    }

    #[test]
    fn a_frame_that_fits_into_no_message_is_refused() {
        let port = OutPort::new(3).unwrap();
        let error = messages(port, &[vec![0; 65_536]], || 1).unwrap_err();
        assert_eq!(error.to_string(), "a frame of 65536 bytes is too long");
        assert_eq!(messages(port, &[vec![0; 100], vec![0; 50]], || 1).unwrap().len(), 2 * 40 + 150);
    }
}
