//! Reads the ports of provider bridges from the replica of the local switch's database.

use std::sync::Arc;

use ovn::text::Text;
use ovn::vswitch::{Bridge, Port};
use ovsdb::replica::Seq;
use ovsdb::{Client, Snapshot};
use smol_str::SmolStr;

use super::state::{INTERNAL, Observed, PortMark, Rows, SeenPort};

/// The ports of one Open vSwitch. Who opened its database is told of changes there, and follows them.
#[derive(Debug)]
pub struct Ports {
    pub(super) client: Option<Client>,
    /// The ones that are ours.
    pub(super) mark: PortMark,
    seen: Option<(Seq, Arc<Observed>)>,
}

impl Ports {
    /// The ports in a switch's database, which is held with its bridges, ports and interfaces. Those with the mark are ours.
    pub fn of(client: Client, mark: PortMark) -> Self {
        Ports { client: Some(client), mark, seen: None }
    }

    /// No ports, as nobody said where the switch's database is.
    pub fn nowhere(mark: PortMark) -> Self {
        Ports { client: None, mark, seen: None }
    }

    /// The mark of our ports.
    pub fn mark(&self) -> PortMark {
        self.mark
    }

    /// The observed ports. Without a database there are none.
    pub fn observe(&mut self) -> Arc<Observed> {
        let Some(client) = &self.client else { return Arc::default() };
        let now = client.snapshot();
        match &self.seen {
            Some((seq, seen)) if *seq == now.seq() => Arc::clone(seen),
            _ => {
                let seen = Arc::new(read(&now, self.mark));
                self.seen = Some((now.seq(), Arc::clone(&seen)));
                seen
            }
        }
    }
}

/// Whether a device is a port with a mark.
pub fn is_made(snapshot: &Snapshot, mark: PortMark, dev: &str) -> bool {
    snapshot.table::<Port>().iter().any(|(_, port)| port.name == dev && mark.is_on(port))
}

fn read(snapshot: &Snapshot, mark: PortMark) -> Observed {
    let mut seen = Observed::default();
    for (bridge, row) in snapshot.table::<Bridge>().iter() {
        for (port, found) in row.ports.iter().filter_map(|port| Some((*port, snapshot.get(*port)?))) {
            let name = SmolStr::new(&found.name);
            if !mark.is_on(found) {
                if is_like_a_vlans(&name) {
                    seen.others.insert(name);
                }
                continue;
            }
            // A port has an interface; it comes and goes with it.
            let Some((interface, of)) =
                found.interfaces.iter().find_map(|interface| Some((*interface, snapshot.get(*interface)?)))
            else {
                continue;
            };
            let port = SeenPort {
                bridge: SmolStr::new(&row.name),
                tag: found.tag.and_then(|tag| u16::try_from(tag).ok()),
                mac: of.mac.as_ref().and_then(Text::value).copied(),
                internal: of.kind == INTERNAL,
                error: of.error.clone(),
                rows: Rows { bridge, port, interface },
            };
            seen.ours.insert(name, port);
        }
    }
    seen
}

/// Whether a name ends as those of VLAN devices do.
fn is_like_a_vlans(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, tag)| tag.parse::<u16>().is_ok())
}
