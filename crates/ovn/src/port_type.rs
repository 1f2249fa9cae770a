//! Types of logical ports, shared by `Logical_Switch_Port` and `Port_Binding`.

use crate::text::word::words;

words! {
    /// The type of a logical port.
    pub enum PortType {
        /// A VIF of an instance or container.
        Vif = "",
        /// The switch's side of a router port (Northbound).
        Router = "router",
        /// A connection to a physical network on every chassis with the mapping.
        Localnet = "localnet",
        /// A port that exists on every chassis and whose traffic never leaves it, for metadata.
        Localport = "localport",
        /// A VIF outside OVN's switches (SR-IOV, bare metal), served by one chassis.
        External = "external",
        /// An address that moves between other ports, claimed by ARP.
        Virtual = "virtual",
        /// A port of another zone.
        Remote = "remote",
        /// Either side of a link between datapaths (Southbound).
        Patch = "patch",
        /// The instance of a distributed gateway port on its chassis (Southbound).
        ChassisRedirect = "chassisredirect",
        /// A port of a router bound to one chassis (Southbound).
        L3Gateway = "l3gateway",
        /// A connection to a physical network on one chassis.
        L2Gateway = "l2gateway",
        /// A VTEP gateway's switch.
        Vtep = "vtep",
        /// A link to another switch (OVN 25.03).
        Switch = "switch",
    }
}
