//! The messages between agent and proxy, and the channel that carries them together with sockets.
//!
//! The proxy listens on a unix socket, the agent connects. Both keep every listening socket: when the proxy restarts, the agent
//! sends them again; when the agent restarts, the proxy sends them back. VMs that connect meanwhile wait in the sockets' queues.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use uuid::Uuid;

use crate::counts::Counts;
use crate::identity::PortIdentity;

/// Maximum size of a message. The kernel refuses larger ones by default.
const MESSAGE: usize = 192 << 10;
/// Size of the ports in one message: far less than the kernel takes.
const PORTS: usize = 64 << 10;
/// Maximum number of a port's addresses in one piece.
const ADDRESSES: usize = 512;
/// Maximum number of Ethernet addresses of a port. Each piece has all of them.
const MACS: usize = 64;
/// Maximum length of an id. Those of Neutron have at most 255 characters.
const ID: usize = 1 << 10;
/// Mode of the proxy's socket: for its owner and its group, which the agent is in.
const MODE: u32 = 0o660;

/// The addresses of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// No listening socket, but the netlink socket that answers for the neighbours of the namespace. It comes first, so that the
    /// proxy has it before the first request.
    Neighbours,
    /// 169.254.169.254.
    Ipv4,
    /// fe80::a9fe:a9fe.
    Ipv6,
    /// No address, but the unix socket that haproxy forwards requests to.
    Forwarded,
}

/// A listening socket in the namespace of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerId {
    /// The network.
    #[serde(with = "as_text")]
    pub network: Uuid,
    /// The address.
    pub family: Family,
    /// The inode of the namespace. A namespace that was replaced has another one, and its sockets are of no use any more.
    pub namespace: u64,
    /// The index of the device that a link-local address is bound to, or whose neighbours are asked for; zero for IPv4. Another device
    /// of the same name has another one.
    #[serde(default)]
    pub device: u32,
}

impl ListenerId {
    /// The unix socket for requests from haproxy, which is of no network.
    pub const FORWARDED: ListenerId =
        ListenerId { network: Uuid::nil(), family: Family::Forwarded, namespace: 0, device: 0 };
}

/// A message between agent and proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// A listening socket, which comes with the message. The proxy sends its own after an agent connects.
    Listener(ListenerId),
    /// The proxy has sent all its sockets.
    Complete,
    /// The agent wants a socket and all its connections closed.
    Close(ListenerId),
    /// The proxy has closed them.
    Closed(ListenerId),
    /// The ports of a network. A network with many ports takes several messages.
    Ports {
        /// The network.
        #[serde(with = "as_text")]
        network: Uuid,
        /// The ports.
        ports: Vec<PortIdentity>,
        /// Whether these are the last ones; then they replace those that the proxy had.
        last: bool,
    },
    /// All identities are current, and may be used for so long unless another such message comes. Zero ends that at once.
    Valid {
        /// The time.
        milliseconds: u64,
    },
    /// The proxy's counts, which follow each [`Message::Valid`].
    Counts(Counts),
}

impl Message {
    /// The messages that give the proxy a network's ports. A port whose id is none is left out: it must not keep the others waiting.
    pub fn ports(network: Uuid, ports: &[PortIdentity]) -> Vec<Message> {
        let (mut messages, mut chunk, mut size) = (Vec::new(), Vec::new(), 0);
        for piece in ports.iter().flat_map(pieces) {
            let length = serde_json::to_vec(&piece).map_or(PORTS, |bytes| bytes.len() + 1);
            if size + length > PORTS && size > 0 {
                messages.push(Message::Ports { network, ports: std::mem::take(&mut chunk), last: false });
                size = 0;
            }
            chunk.push(piece);
            size += length;
        }
        messages.push(Message::Ports { network, ports: chunk, last: true });
        messages
    }
}

/// A port as several ones of the same instance, each with some of the addresses.
fn pieces(port: &PortIdentity) -> Vec<PortIdentity> {
    let PortIdentity { instance, project, addresses, macs } = port;
    if instance.len() > ID || project.len() > ID {
        tracing::warn!(?addresses, "a port has an id that is too long for one; its requests get no answer");
        return Vec::new();
    }
    let addresses: Vec<_> = addresses.iter().copied().collect();
    let piece = |some: &[std::net::IpAddr]| PortIdentity {
        instance: instance.clone(),
        project: project.clone(),
        addresses: some.iter().copied().collect(),
        macs: macs.iter().copied().take(MACS).collect(),
    };
    addresses.chunks(ADDRESSES).map(piece).collect()
}

/// UUIDs as strings.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use uuid::Uuid;

    pub(super) fn serialize<S: Serializer>(uuid: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(uuid)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
        Uuid::try_parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// One end of a connection between agent and proxy.
#[derive(Debug)]
pub struct Channel {
    /// A socket that keeps the boundaries of messages, which a stream's type can hold as well.
    socket: UnixStream,
}

impl Channel {
    /// Connects to a proxy. Must be called within a tokio runtime.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = seqpacket()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Channel { socket: UnixStream::from_std(socket.into())? })
    }

    /// User and group of the process at the other end.
    pub fn peer(&self) -> io::Result<(u32, u32)> {
        self.socket.peer_cred().map(|peer| (peer.uid(), peer.gid()))
    }

    /// Sends a message, and a socket with it.
    pub async fn send(&self, message: &Message, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let sockets: Vec<BorrowedFd<'_>> = socket.into_iter().collect();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !sockets.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
            }
            let parts = [io::IoSlice::new(&bytes)];
            Ok(rustix::net::sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?)
        };
        self.socket.async_io(Interest::WRITABLE, send).await.map(drop)
    }

    /// Receives a message, and the socket that came with it; `None` if the other side closed the connection.
    pub async fn receive(&self) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
        let mut buffer = vec![0; MESSAGE];
        let receive = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [io::IoSliceMut::new(&mut buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(&self.socket, &mut parts, &mut ancillary, flags)?;
            let socket = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
                _ => None,
            });
            Ok((received.bytes, received.flags, socket))
        };
        let (length, flags, socket) = self.socket.async_io(Interest::READABLE, receive).await?;
        if length == 0 {
            return Ok(None);
        }
        if flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
        let message = serde_json::from_slice(buffer.get(..length).unwrap_or_default())?;
        Ok(Some((message, socket)))
    }
}

/// The socket that the proxy listens on for its agent.
#[derive(Debug)]
pub struct ControlSocket {
    socket: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Binds the socket, and replaces a stale one. Must be called within a tokio runtime.
    pub fn bind(path: &Path) -> io::Result<Self> {
        // Bound under another name, so that nobody connects before the mode is right.
        let fresh = path.with_extension("new");
        let _ = fs::remove_file(&fresh);
        let socket = seqpacket()?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&fresh)?)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(MODE))?;
        rustix::net::listen(&socket, 8)?;
        fs::rename(&fresh, path)?;
        Ok(ControlSocket { socket: UnixListener::from_std(socket.into())?, path: path.to_owned() })
    }

    /// Waits for an agent: a process of root, or of the proxy's own user. Others are turned away.
    pub async fn accept(&self) -> io::Result<Channel> {
        loop {
            let (socket, _) = self.socket.accept().await?;
            let user = socket.peer_cred()?.uid();
            if user == 0 || user == rustix::process::geteuid().as_raw() {
                return Ok(Channel { socket });
            }
            tracing::warn!(user, "a process of another user connected and was turned away");
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn seqpacket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;
    use crate::identity::{IdentityTable, MacAddr};

    const NETWORK: Uuid = Uuid::from_u128(7);

    #[tokio::test]
    async fn a_listening_socket_survives_its_first_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        fs::write(&path, "stale").unwrap();
        let control = ControlSocket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let agent = Channel::connect(&path).unwrap();
        let proxy = control.accept().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let id = ListenerId { network: NETWORK, family: Family::Ipv4, namespace: 9, device: 0 };
        agent.send(&Message::Listener(id), Some(listener.as_fd())).await.unwrap();
        drop((listener, agent));
        let (message, socket) = proxy.receive().await.unwrap().unwrap();
        assert_eq!(message, Message::Listener(id));
        // The client connects while nobody accepts.
        let client = TcpStream::connect(address).unwrap();
        let listener = TcpListener::from(socket.unwrap());
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert!(proxy.receive().await.unwrap().is_none(), "the agent has gone");
        drop(control);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn many_ports_take_several_messages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let control = ControlSocket::bind(&path).unwrap();
        let (agent, proxy) = (Channel::connect(&path).unwrap(), control.accept().await.unwrap());
        let port = |n: u32| PortIdentity {
            instance: format!("{:036}", n),
            project: "p".repeat(36),
            addresses: [std::net::Ipv4Addr::from(n).into()].into(),
            macs: BTreeSet::new(),
        };
        let ports: Vec<PortIdentity> = (0..600).map(port).collect();
        let messages = Message::ports(NETWORK, &ports);
        assert_eq!(messages.len(), 2);
        assert_eq!(Message::ports(NETWORK, &[]).len(), 1, "none are told, too");
        assert_eq!(through(&agent, &proxy, &messages).await, ports);
    }

    /// The ports that arrive.
    async fn through(agent: &Channel, proxy: &Channel, messages: &[Message]) -> Vec<PortIdentity> {
        let sending = async {
            for message in messages {
                agent.send(message, None).await.unwrap();
            }
        };
        let receiving = async {
            let mut all = Vec::new();
            loop {
                let Some((Message::Ports { ports, last, .. }, None)) = proxy.receive().await.unwrap() else {
                    panic!("another message");
                };
                all.extend(ports);
                if last {
                    return all;
                }
            }
        };
        tokio::join!(sending, receiving).1
    }

    #[tokio::test]
    async fn a_port_with_many_addresses_or_a_long_id_keeps_no_other_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let control = ControlSocket::bind(&path).unwrap();
        let (agent, proxy) = (Channel::connect(&path).unwrap(), control.accept().await.unwrap());
        let port = |first: u128, addresses: u128| PortIdentity {
            instance: format!("instance-{first}"),
            project: "p".repeat(36),
            addresses: (0..addresses)
                .map(|n| std::net::Ipv6Addr::from((0xfd00 << 112) | (u128::MAX >> 32) ^ (first + n)).into())
                .collect(),
            macs: [MacAddr([2, 0, 0, 0, 0, 1])].into(),
        };
        let mut ports: Vec<PortIdentity> = (0..250).map(|n| port(n * 100, 30)).collect();
        ports.push(port(1_000_000, 20_000));
        let table = IdentityTable::new(ports.clone());
        ports.push(PortIdentity { instance: "x".repeat(1 << 20), ..port(2_000_000, 1) });
        let arrived = through(&agent, &proxy, &Message::ports(NETWORK, &ports)).await;
        assert!(IdentityTable::new(arrived) == table);
    }
}
