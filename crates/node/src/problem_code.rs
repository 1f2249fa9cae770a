//! The codes of the problems that the data plane and the BGP agent report, each with its row of the troubleshooting guide.
//!
//! The guide (`docs/src/bgp-trouble.md`) has the same texts; a test compares them. The metadata agent has a page and codes of its own, and
//! the loop's codes are in [`reconcile::LoopCode`].
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use smol_str::SmolStr;

macro_rules! codes {
    ($($($code:ident = $name:literal),+ => $guide:literal;)+) => {
        /// The code of a problem, for searches and alerts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemCode {
            $($(#[doc = $guide] $code,)+)+
        }

        impl ProblemCode {
            /// All codes, in the order of the guide.
            pub const ALL: &'static [ProblemCode] = &[$($(ProblemCode::$code),+),+];

            /// The code as the status, the log and the metrics show it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($(ProblemCode::$code => $name,)+)+
                }
            }

            /// The meaning, and what to do: the guide's text.
            pub fn guide(self) -> &'static str {
                match self {
                    $($(ProblemCode::$code)|+ => $guide,)+
                }
            }
        }
    };
}

codes! {
    NoChassis = "no-chassis" =>
        "OVN has no Chassis row with this node's `system-id`; `ovn-controller` is not running or registers under another name; \
         start it, or correct `system-id`. With `driver = nb_ovn_bgp_driver`: the Northbound has no `NB_Global` row, so it was \
         never initialised. Announcements stay for `chassis_grace`; then the agent withdraws them";
    NoSuchBridge = "no-such-bridge", BridgeMissing = "bridge-missing" =>
        "a bridge mapping names a bridge that Open vSwitch does not have, or whose device it has not created; create it \
         (`ovs-vsctl add-br`) or correct `ovn-bridge-mappings`. The agent uses it as soon as it exists";
    NoBridgeMac = "no-bridge-mac" =>
        "Open vSwitch reports no MAC address of the bridge; check that `ovs-vswitchd` is running. Existing flows stay. The agent \
         cannot create new ones, and does not announce addresses that need them";
    BadBridgeMapping = "bad-bridge-mapping" =>
        "an item of `ovn-bridge-mappings` is not `physnet:bridge`, or names a network twice; correct it in the local switch's \
         `external_ids`";
    NoPhysicalNetwork = "no-physical-network" =>
        "a localnet port has no option `network_name`, so the agent cannot find its bridge; set the option in the Northbound";
    BadVlan = "bad-vlan" =>
        "the tag of a localnet port is not a VLAN id; set one from 1 to 4094";
    BadAddresses = "bad-addresses", BadNatAddresses = "bad-nat-addresses", BadCidrs = "bad-cidrs" =>
        "a column of a row cannot be parsed; addresses that the row exposed before stay. Correct the row in the Northbound";
    UnknownPortType = "unknown-port-type" =>
        "a port that is bound here has a type that this version does not know; the agent does not expose it. Look for a newer \
         Meridian";
    NoDatapath = "no-datapath" =>
        "the Southbound has no switch for a port that is bound here; check that `ovn-northd` is running";
    NoRouterPort = "no-router-port" =>
        "a gateway leads to no router port; the agent does not expose it. Correct it in the Northbound";
    BadVip = "bad-vip" =>
        "an address of a load balancer cannot be parsed; addresses that it exposed before stay. Correct it in the Northbound";
    AddressConflict = "address-conflict" =>
        "two networks of this node claim one address, or the address is within a subnet of another bridge; the network that has it \
         keeps it. Give one of them another address";
    DuplicateAddress = "duplicate-address" =>
        "two ports have the address, and only one of them gets its packets; give the other ports other addresses";
    NoNextHop = "no-next-hop" =>
        "the address of a subnet's router is not exposed, so no path leads to the subnet; run `meridian explain` for the router's \
         address";
    ReservedPrefix = "reserved-prefix" =>
        "an address or a subnet in OVN overlaps the node's own network; see [reserved prefixes](bgp.md#reserved-prefixes). The \
         agent neither wires nor announces it; everything else continues. Give it another prefix, or limit tenants with \
         `address_scopes`";
    OverlappingSubnet = "overlapping-subnet" =>
        "two routers' subnets, or a subnet and an address of another bridge, overlap; the agent exposes one of them. Give them \
         different prefixes, or [opt one out](bgp.md#choose-what-is-exposed)";
    DeviceNameTaken = "device-name-taken" =>
        "the devices of two VLANs would have the same name; rename a bridge so that their first ten letters differ";
    NoVlanDevices = "no-vlan-devices" =>
        "the kernel has no 8021q, and `vlan_device = kernel`; load the module, or choose `auto`";
    PortInTheWay = "port-in-the-way", DeviceInTheWay = "device-in-the-way" =>
        "a foreign device has the name of a device that the agent needs, or a VRF of the right name has another table; rename or \
         remove it";
    NoDeviceOfPort = "no-device-of-port" =>
        "the port of a VLAN is in the switch's database, but `ovs-vswitchd` has not created its device yet; check that it is \
         running";
    TableInUse = "table-in-use" =>
        "the routing table of the exposure VRF belongs to another VRF, maybe one of OVN's own; choose another `bgp_vrf_table_id`. \
         Until then nothing is announced";
    NoVrf = "no-vrf" =>
        "the agent cannot create the device for announcements without its VRF; the VRF's own problem gives the cause";
    NoTable = "no-table" =>
        "a bridge has no routing table: all numbers are taken, or the number in `rt_tables` belongs to another. The message says \
         which; correct or remove lines of `rt_tables`";
    NoOpenflow = "no-openflow" =>
        "`ovs-vswitchd` does not answer on the bridge's socket, so packets from instances do not reach the kernel. It is not \
         running, or the agent may not open the socket: see below";
    FrrSilent = "frr-silent" =>
        "`bgpd` does not answer, so the agent announces nothing new. It is not running, or the agent may not open its socket \
         (`frr_vty_dir`, group `frrvty`). Everything else continues, and the agent enters its part of FRR's configuration when \
         `bgpd` answers";
    LeakStuck = "leak-stuck" =>
        "`bgpd` does not know the exposure VRF, so nothing is announced. FRR 10 gets stuck like this if `import vrf` is in its \
         configuration before the VRF exists. The agent enters the VRF's `router bgp` again with all of its lines, and repeats \
         that every `frr_reconcile_interval`. If the problem stays, check that `zebra` is running, and restart FRR";
    FrrBehind = "frr-behind" =>
        "`bgpd` does not have in the VRF's table what the kernel has in the VRF: addresses are announced by nobody, or still \
         announced though gone. The cause is a `zebra` that was restarted alone, or of a device that was renamed. The agent enters \
         `redistribute` anew; if that does not help it makes the announcing device anew, where `bgpd` has nothing of it, and then \
         enters the VRF's `router bgp` anew, ever more rarely. Where none of it helps, restart FRR";
    ZebraSilent = "zebra-silent", ZebraApart = "zebra-apart" =>
        "`zebra` does not answer, or `bgpd` is not connected to it: no address that comes is announced, none that goes is \
         withdrawn, and no route that `bgpd` learns reaches the kernel. Start `zebra`; `bgpd` connects to it by itself";
    NoReturnRoute = "no-return-route" =>
        "`bgpd` has learned a default route, and the kernel has none of that family: packets come in, and answers do not leave. It \
         is seen after `zebra` was restarted alone. Restart FRR; where the route is kept out of the kernel on purpose, give the \
         node another one";
    NoNormalFlow = "no-normal-flow" =>
        "no flow with `actions=NORMAL` on the bridge matches every packet, so what the kernel sends into the overlay is dropped. \
         The agent makes it again where nobody else writes flows; here the bridge has other flows, a controller or \
         `fail_mode=secure`. See who does, or run the command that the message names";
    AnotherAs = "another-as" =>
        "FRR's `router bgp` has another number than `bgp_AS`; make them equal. Until then the agent enters nothing into FRR";
    NoForwarding = "no-forwarding" =>
        "the kernel does not forward packets of this family, so announced addresses are unreachable; set the sysctl that the \
         message names";
    AnnouncedByOvn = "announced-by-ovn" =>
        "OVN's own dynamic routing announces this address from this node; the agent leaves it alone. Nothing to do";
    MassWithdrawHeld = "mass-withdraw-held" =>
        "a database returned without most of its addresses. The agent keeps them announced for `mass_withdraw_hold`, and withdraws \
         them if they are still missing then. If the loss is real, there is nothing to do";
    KeptUnclaimed = "kept-unclaimed" =>
        "since the agent started, one row cannot be read, and an announcement from before belongs to no other row. It may belong \
         to that row, so the agent keeps it. If the row still shows addresses, the agent keeps only these. Correct the row, which \
         has a problem of its own: then the agent withdraws addresses that no row has";
    ManyRules = "many-rules" =>
        "more than a thousand rules slow every packet down; set `rule_mode = aggregate`";
    AnotherAgent = "another-agent" =>
        "ovn-bgp-agent runs on the same node, and each agent removes the other's changes; stop and disable ovn-bgp-agent";
    NoWay = "no-way" =>
        "a bug: the plan would announce an address without a path. The agent does not announce it; please report the bug";
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<ProblemCode> for SmolStr {
    fn from(code: ProblemCode) -> Self {
        SmolStr::new_static(code.as_str())
    }
}

impl PartialEq<ProblemCode> for SmolStr {
    fn eq(&self, code: &ProblemCode) -> bool {
        self.as_str() == code.as_str()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use reconcile::LoopCode;

    use super::*;

    /// The rows of the guide's table of problems: the text of each code.
    fn rows(page: &str) -> BTreeMap<&str, &str> {
        let (_, section) = page.split_once("## What `meridian status` may say\n").expect("the heading");
        let section = section.split_once("\n#").map_or(section, |(section, _)| section);
        let is_code = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let mut rows = BTreeMap::new();
        for line in section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
            let Some((codes, text)) = line.split_once(" | ") else { continue };
            for code in codes.split('`').skip(1).step_by(2).filter(is_code) {
                assert_eq!(rows.insert(code, text), None, "{code} has two rows");
            }
        }
        rows
    }

    #[test]
    fn every_code_has_its_text_in_the_guide() {
        let page = include_str!("../../../docs/src/bgp-trouble.md");
        let own = ProblemCode::ALL.iter().map(|code| (code.as_str(), code.guide()));
        let of_loop = LoopCode::ALL.iter().map(|code| (code.as_str(), code.guide()));
        let known: BTreeMap<&str, &str> = own.chain(of_loop).collect();
        assert_eq!(rows(page), known);
    }
}
