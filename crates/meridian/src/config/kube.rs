//! `[kube]`: the cluster of `meridian kube-manager`.

use std::path::PathBuf;

use ipnet::IpNet;
use kubernetes::address::{DualNet, PeerScheme};
use kubernetes::manager::{EgressAssigner, ManagerSettings, PeerSource};
use kubernetes::network::ClusterNetwork;

use super::value::{EgressAssignerMode, Field, PeerSchemeMode, PeerSourceMode};
use super::{Key, Problem, Setting};

/// Every key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kube {
    pub(crate) kubeconfig: Setting<Option<PathBuf>>,
    pub(crate) namespace: Setting<String>,
    pod_subnets: Setting<Vec<String>>,
    service_subnets: Setting<Vec<String>>,
    default_join_subnets: Setting<Vec<String>>,
    masquerade_subnets: Setting<Vec<String>>,
    transit_subnets: Setting<Vec<String>>,
    join_subnets: Setting<Vec<String>>,
    egress_ips: Setting<EgressAssignerMode>,
    peer_scheme: Setting<PeerSchemeMode>,
    peer_source: Setting<PeerSourceMode>,
}

impl Default for Kube {
    fn default() -> Self {
        let cluster = ClusterNetwork::default();
        let dual = |nets: DualNet| Setting::default(nets.nets().map(|net| net.to_string()).collect());
        Self {
            kubeconfig: Setting::default(None),
            namespace: Setting::default("meridian".to_owned()),
            pod_subnets: Setting::default(Vec::new()),
            service_subnets: Setting::default(Vec::new()),
            default_join_subnets: dual(cluster.default_join),
            masquerade_subnets: dual(cluster.masquerade),
            transit_subnets: dual(cluster.transit),
            join_subnets: dual(cluster.join),
            egress_ips: Setting::default(EgressAssignerMode::Other),
            peer_scheme: Setting::default(PeerSchemeMode::Seed),
            peer_source: Setting::default(PeerSourceMode::Derived),
        }
    }
}

impl Kube {
    pub(super) fn fields(&mut self) -> Vec<(Key, &mut dyn Field)> {
        let key = |name, doc| Key::new("kube", name, doc);
        vec![
            (
                key(
                    "kubeconfig",
                    "File with the API server and credentials; unset: the pod's service account",
                ),
                &mut self.kubeconfig,
            ),
            (key("namespace", "Namespace of the lease that lets one manager write"), &mut self.namespace),
            (key("pod_subnets", "Subnets of the default network's pods"), &mut self.pod_subnets),
            (
                key("service_subnets", "Subnets of services; pods get routes to them"),
                &mut self.service_subnets,
            ),
            (
                key("default_join_subnets", "Join subnets of the default network"),
                &mut self.default_join_subnets,
            ),
            (key("masquerade_subnets", "Subnets that nodes masquerade with"), &mut self.masquerade_subnets),
            (
                key(
                    "transit_subnets",
                    "Subnets between gateway routers and transit routers, one per address family",
                ),
                &mut self.transit_subnets,
            ),
            (key("join_subnets", "Join subnets of networks that name none"), &mut self.join_subnets),
            (
                key(
                    "egress_ips",
                    "Program that gives EgressIPs their nodes: other (such as ovn-kubernetes), or manager",
                ),
                &mut self.egress_ips,
            ),
            (
                key(
                    "peer_scheme",
                    "Peer subnets of a node: seed (/30), or upstream (/31) beside ovn-kubernetes",
                ),
                &mut self.peer_scheme,
            ),
            (
                key("peer_source", "Whether peer subnets are derived from the node's id or allocated"),
                &mut self.peer_source,
            ),
        ]
    }

    /// The settings; or everything that is wrong with them.
    pub(crate) fn settings(&self) -> Result<ManagerSettings, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut list = |name: &str, setting: &Setting<Vec<String>>| -> Vec<IpNet> {
            let mut nets = Vec::new();
            for text in &setting.value {
                match text.parse::<IpNet>() {
                    Ok(net) if net.trunc() == net => nets.push(net),
                    Ok(net) => problems.push(problem(
                        setting,
                        name,
                        format!("{net} has host bits; write {}", net.trunc()),
                    )),
                    Err(_) => {
                        problems.push(problem(
                            setting,
                            name,
                            format!("{text:?} is not a subnet such as 10.96.0.0/16"),
                        ));
                    }
                }
            }
            nets
        };
        let pod_subnets = list("pod_subnets", &self.pod_subnets);
        let service_subnets = list("service_subnets", &self.service_subnets);
        let [default_join, masquerade, transit, join] = [
            ("default_join_subnets", &self.default_join_subnets),
            ("masquerade_subnets", &self.masquerade_subnets),
            ("transit_subnets", &self.transit_subnets),
            ("join_subnets", &self.join_subnets),
        ]
        .map(|(name, setting)| {
            let nets = list(name, setting);
            (name, setting, DualNet::from_nets(nets))
        });
        let mut dual = |(name, setting, nets): (&str, &Setting<Vec<String>>, Option<DualNet>)| {
            nets.unwrap_or_else(|| {
                let what = "two subnets of one address family; give one of each".to_owned();
                problems.push(problem(setting, name, what));
                DualNet::default()
            })
        };
        let cluster = ClusterNetwork {
            pod_subnets,
            service_subnets,
            default_join: dual(default_join),
            masquerade: dual(masquerade),
            transit: dual(transit),
            join: dual(join),
            peers: match self.peer_scheme.value {
                PeerSchemeMode::Seed => PeerScheme::Seed,
                PeerSchemeMode::Upstream => PeerScheme::Upstream,
            },
        };
        let egress = match self.egress_ips.value {
            EgressAssignerMode::Other => EgressAssigner::Other,
            EgressAssignerMode::Manager => EgressAssigner::Manager,
        };
        let peers = match self.peer_source.value {
            PeerSourceMode::Derived => PeerSource::Derived,
            PeerSourceMode::Allocated => PeerSource::Allocated,
        };
        if problems.is_empty() { Ok(ManagerSettings { cluster, peers, egress }) } else { Err(problems) }
    }
}

fn problem<T>(setting: &Setting<T>, name: &str, what: String) -> Problem {
    Problem { place: setting.origin.to_string(), what: format!("`kube.{name}`: {what}") }
}
