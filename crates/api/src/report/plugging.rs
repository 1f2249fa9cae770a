//! The state of instances' ports in OVN's reports: plugged in or not, on which chassis, and where their metadata service is ready.

use imbl::OrdSet;
use jiff::Timestamp;
use ovn::sb::Chassis;
use ovn::text::neutron::key;
use smol_str::SmolStr;
use uuid::Uuid;

use super::{Place, Report, set};

/// The presence of a port on a chassis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The host name of the chassis.
    pub host: SmolStr,
    /// The time at which this server first saw the port there.
    pub since: Timestamp,
}

impl Report {
    /// Whether OVN reports the port's switch port as down. False without a report, as for a row that was just written.
    pub fn is_known_down(&self, port: Uuid) -> bool {
        self.down.contains(&port)
    }

    /// The chassis that have a port, by name. There are two while its instance migrates.
    pub fn claims(&self, port: Uuid) -> impl Iterator<Item = (&SmolStr, &Claim)> {
        let of_port = self.claims.range((port, SmolStr::default())..);
        of_port
            .take_while(move |((owner, _), _)| *owner == port)
            .map(|((_, chassis), claim)| (chassis, claim))
    }

    /// Whether the agent of a chassis has reported the metadata service of a network as ready.
    pub fn is_metadata_ready(&self, chassis: &str, network: Uuid) -> bool {
        self.metadata.get(chassis).is_some_and(|networks| networks.contains(&network))
    }

    /// Records whether OVN reports a port as down.
    pub fn set_down(&mut self, port: Uuid, down: bool) {
        match down {
            true => drop(self.down.insert(port)),
            false => drop(self.down.remove(&port)),
        }
    }

    /// Records the chassis that have a port. A chassis that already had it keeps its time.
    pub fn set_claims(&mut self, port: Uuid, places: Vec<Place>, now: Timestamp) {
        let gone: Vec<SmolStr> = self
            .claims(port)
            .filter(|(chassis, _)| places.iter().all(|place| place.chassis != **chassis))
            .map(|(chassis, _)| chassis.clone())
            .collect();
        gone.into_iter().for_each(|chassis| drop(self.claims.remove(&(port, chassis))));
        for Place { chassis, host } in places {
            let known = self.claims.get(&(port, chassis.clone()));
            let since = known.map_or(now, |claim| claim.since);
            set(&mut self.claims, (port, chassis), Some(Claim { host, since }));
        }
    }

    /// Records the networks whose metadata service is ready on a chassis.
    pub fn set_metadata_ready(&mut self, chassis: impl Into<SmolStr>, networks: OrdSet<Uuid>) {
        set(&mut self.metadata, chassis.into(), Some(networks).filter(|networks| !networks.is_empty()));
    }

    /// Takes in a change of a chassis row.
    pub(super) fn metadata_changed(&mut self, before: Option<&Chassis>, after: Option<&Chassis>) {
        let said = |row: &Chassis| row.external_ids.get(key::METADATA_NETWORKS).cloned();
        if let Some(before) = before
            && after.is_none_or(|after| after.name != before.name)
        {
            self.set_metadata_ready(before.name.clone(), OrdSet::new());
        }
        if let Some(after) = after
            && before.is_none_or(|before| before.name != after.name || said(before) != said(after))
        {
            self.set_metadata_ready(after.name.clone(), networks(said(after).as_deref().unwrap_or_default()));
        }
    }
}

/// The networks in `neutron-metadata-proxy-networks`; the parser skips all else.
fn networks(text: &str) -> OrdSet<Uuid> {
    text.split(',').filter_map(|id| Uuid::try_parse(id.trim()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use ovsdb::Str;

    use super::*;

    #[test]
    fn networks_are_read_one_by_one() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let read = |text: &str| networks(text).into_iter().collect::<Vec<_>>();
        assert_eq!(read(&format!("{b},{a}")), [a, b]);
        assert_eq!(read(&format!(" {a} ,, nonsense")), [a]);
        assert!(read("").is_empty());
    }

    #[test]
    fn a_chassis_that_goes_or_is_renamed_is_ready_for_nothing() {
        let network = Uuid::from_u128(1);
        let row = |name: &str| Chassis {
            name: name.into(),
            external_ids: [(key::METADATA_NETWORKS.into(), Str::from(network.to_string()))].into(),
            ..Chassis::default()
        };
        let mut report = Report::default();
        report.metadata_changed(None, Some(&row("ch1")));
        assert!(report.is_metadata_ready("ch1", network));
        report.metadata_changed(Some(&row("ch1")), Some(&row("ch2")));
        assert!(!report.is_metadata_ready("ch1", network) && report.is_metadata_ready("ch2", network));
        report.metadata_changed(Some(&row("ch2")), None);
        assert!(report.is_same(&Report::default()));
    }

    #[test]
    fn a_chassis_keeps_its_time_while_others_come_and_go() {
        let port = Uuid::from_u128(7);
        let place = |name: &str| Place { chassis: name.into(), host: format!("{name}.example").into() };
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut report = Report::default();
        report.set_claims(port, vec![place("ch1")], at(1));
        report.set_claims(port, vec![place("ch1"), place("ch2")], at(2));
        report.set_claims(Uuid::from_u128(8), vec![place("ch1")], at(3));
        let claims = |report: &Report| {
            report.claims(port).map(|(chassis, claim)| (chassis.to_string(), claim.since)).collect::<Vec<_>>()
        };
        assert_eq!(claims(&report), [("ch1".to_owned(), at(1)), ("ch2".to_owned(), at(2))]);
        report.set_claims(port, vec![place("ch2")], at(4));
        assert_eq!(claims(&report), [("ch2".to_owned(), at(2))]);
        report.set_claims(port, Vec::new(), at(5));
        assert!(claims(&report).is_empty());
    }
}
