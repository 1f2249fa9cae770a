//! The fields of a layer-2 network.
#![expect(unreachable_pub, reason = "the schema's macro copies the structs into a function")]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::Layer2Input;

/// Whether a network is the pods' default network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Role {
    /// The pods' default route leads into it.
    Primary,
    /// An additional network. Meridian leaves these to other programs.
    Secondary,
}

/// Whether addresses are allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IpamMode {
    /// Pods get addresses.
    #[default]
    Enabled,
    /// Pods get none.
    Disabled,
}

/// How long an address belongs to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Lifecycle {
    /// As long as the IPAMClaim that the pod names.
    Persistent,
}

/// The allocation of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("!has(self.lifecycle) || !has(self.mode) || self.mode == 'Enabled'")
        .message("lifecycle needs mode Enabled")
)]
pub struct IpamSpec {
    /// Whether addresses are allocated; default Enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<IpamMode>,
    /// Persistent keeps addresses as long as the IPAMClaim that a pod names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
}

/// A subnet or an address as a user wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CidrText(#[schemars(length(max = 43))] pub String);

/// A layer-2 network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.ipam) && has(self.ipam.mode) && self.ipam.mode == 'Disabled' ? !has(self.subnets) : has(self.subnets)"
    ).message("subnets is required if ipam.mode is Enabled, and forbidden otherwise"),
    validation = Rule::new(
        "!has(self.ipam) || !has(self.ipam.mode) || self.ipam.mode == 'Enabled' || self.role == 'Secondary'"
    ).message("a primary network needs ipam.mode Enabled"),
    validation = Rule::new("!has(self.joinSubnets) || self.role == 'Primary'")
        .message("joinSubnets is for primary networks"),
    validation = Rule::new("!has(self.reservedSubnets) || self.role == 'Primary'")
        .message("reservedSubnets is for primary networks"),
    validation = Rule::new("!has(self.infrastructureSubnets) || self.role == 'Primary'")
        .message("infrastructureSubnets is for primary networks"),
    validation = Rule::new("!has(self.defaultGatewayIPs) || self.role == 'Primary'")
        .message("defaultGatewayIPs is for primary networks"),
    validation = Rule::new(
        "!has(self.subnets) || !has(self.mtu) || self.mtu >= 1280 || \
         !self.subnets.exists(i, isCIDR(i) && cidr(i).ip().family() == 6)"
    ).message("mtu must be at least 1280 if there is an IPv6 subnet"),
    validation = Rule::new(
        "!has(self.reservedSubnets) || !has(self.subnets) || self.reservedSubnets.all(i, \
         isCIDR(i) && self.subnets.exists(j, isCIDR(j) && cidr(j).containsCIDR(cidr(i))))"
    ).message("reservedSubnets must be inside of subnets"),
    validation = Rule::new(
        "!has(self.infrastructureSubnets) || !has(self.subnets) || self.infrastructureSubnets.all(i, \
         isCIDR(i) && self.subnets.exists(j, isCIDR(j) && cidr(j).containsCIDR(cidr(i))))"
    ).message("infrastructureSubnets must be inside of subnets"),
    validation = Rule::new(
        "!has(self.infrastructureSubnets) || !has(self.reservedSubnets) || !self.infrastructureSubnets.exists(i, \
         isCIDR(i) && self.reservedSubnets.exists(j, isCIDR(j) && \
         (cidr(i).containsCIDR(cidr(j)) || cidr(j).containsCIDR(cidr(i)))))"
    ).message("infrastructureSubnets and reservedSubnets must not overlap"),
    validation = Rule::new(
        "!has(self.defaultGatewayIPs) || !has(self.subnets) || self.defaultGatewayIPs.all(i, \
         isIP(i) && self.subnets.exists(j, isCIDR(j) && cidr(j).containsIP(ip(i))))"
    ).message("defaultGatewayIPs must be inside of subnets"),
    validation = Rule::new(
        "!has(self.defaultGatewayIPs) || !has(self.infrastructureSubnets) || self.defaultGatewayIPs.all(i, isIP(i) && \
         (!self.infrastructureSubnets.exists(j, isCIDR(j) && cidr(j).ip().family() == ip(i).family()) || \
         self.infrastructureSubnets.exists(j, isCIDR(j) && cidr(j).containsIP(ip(i)))))"
    ).message("defaultGatewayIPs must be inside of infrastructureSubnets")
)]
pub struct Layer2Spec {
    /// Primary or Secondary.
    pub role: Role,
    /// The MTU; default that of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65536))]
    pub mtu: Option<u32>,
    /// One subnet, or one of each address family: 10.20.0.0/16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2))]
    #[x_kube(
        validation = Rule::new("self.all(i, isCIDR(i))").message("subnets must be subnets such as 10.20.0.0/16"),
        validation = Rule::new(
            "size(self) != 2 || !isCIDR(self[0]) || !isCIDR(self[1]) || \
             cidr(self[0]).ip().family() != cidr(self[1]).ip().family()"
        ).message("two subnets must be of different address families")
    )]
    pub subnets: Option<Vec<CidrText>>,
    /// Subnets from which pods get addresses only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25))]
    #[x_kube(validation = Rule::new("self.all(i, isCIDR(i) && cidr(i) == cidr(i).masked())")
        .message("reservedSubnets must be subnets without host bits"))]
    pub reserved_subnets: Option<Vec<CidrText>>,
    /// Subnets of the gateway and the management port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4))]
    #[x_kube(validation = Rule::new("self.all(i, isCIDR(i) && cidr(i) == cidr(i).masked())")
        .message("infrastructureSubnets must be subnets without host bits"))]
    pub infrastructure_subnets: Option<Vec<CidrText>>,
    /// The default gateways; default the first address of each subnet.
    #[serde(default, rename = "defaultGatewayIPs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2))]
    #[x_kube(
        validation = Rule::new("self.all(i, isIP(i))").message("defaultGatewayIPs must be addresses such as 10.20.0.1"),
        validation = Rule::new(
            "size(self) != 2 || !isIP(self[0]) || !isIP(self[1]) || ip(self[0]).family() != ip(self[1]).family()"
        ).message("two defaultGatewayIPs must be of different address families")
    )]
    pub default_gateway_ips: Option<Vec<CidrText>>,
    /// Subnets of the gateway routers' inner addresses; default 100.65.0.0/16 and fd99::/64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2))]
    #[x_kube(
        validation = Rule::new("self.all(i, isCIDR(i))").message("joinSubnets must be subnets such as 100.65.0.0/16"),
        validation = Rule::new(
            "size(self) != 2 || !isCIDR(self[0]) || !isCIDR(self[1]) || \
             cidr(self[0]).ip().family() != cidr(self[1]).ip().family()"
        ).message("two joinSubnets must be of different address families")
    )]
    pub join_subnets: Option<Vec<CidrText>>,
    /// The allocation of addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<IpamSpec>,
}

impl Layer2Spec {
    /// The fields for the rules. `path` is where they stand: `spec.layer2.`.
    pub fn input(&self, path: &'static str) -> Layer2Input {
        let list = |texts: &Option<Vec<CidrText>>| -> Vec<String> {
            texts.iter().flatten().map(|text| text.0.clone()).collect()
        };
        let ipam = self.ipam.as_ref();
        Layer2Input {
            path,
            join_field: "joinSubnets",
            mtu: self.mtu,
            subnets: list(&self.subnets),
            reserved: list(&self.reserved_subnets),
            infrastructure: list(&self.infrastructure_subnets),
            gateways: list(&self.default_gateway_ips),
            join: list(&self.join_subnets),
            transit: None,
            is_allocated: ipam.and_then(|ipam| ipam.mode) != Some(IpamMode::Disabled),
            persistent: ipam.is_some_and(|ipam| ipam.lifecycle.is_some()),
        }
    }
}
