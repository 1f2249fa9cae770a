//! The object that a pod uses.
//!
//! Several objects may match a pod. It uses the oldest; the others stand by, and the next one takes over when the oldest is deleted or
//! matches no more. All nodes see the same objects and so choose the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{ParseExpressionError, Selector, SelectorExt};

use crate::ident::EgressMark;

/// An address and the node that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EgressItem {
    /// The node.
    pub node: String,
    /// The address.
    pub address: IpAddr,
}

/// An EgressIP object, ready to be matched. The caller sorts them from the oldest to the newest.
#[derive(Clone, Debug)]
pub struct EgressRule {
    /// The object's name.
    pub name: String,
    /// The packet mark.
    pub mark: EgressMark,
    /// The assigned addresses.
    pub items: Vec<EgressItem>,
    namespaces: Selector,
    pods: Selector,
}

impl EgressRule {
    /// A rule with these selectors. An empty selector of pods matches all pods of the namespaces.
    pub fn new(
        name: &str,
        mark: EgressMark,
        items: Vec<EgressItem>,
        (namespaces, pods): (LabelSelector, LabelSelector),
    ) -> Result<EgressRule, ParseExpressionError> {
        let (namespaces, pods) = (namespaces.try_into()?, pods.try_into()?);
        Ok(EgressRule { name: name.to_owned(), mark, items, namespaces, pods })
    }
}

/// A pod that rules may match.
#[derive(Clone, Copy, Debug)]
pub struct SelectablePod<'a> {
    /// The labels of the pod's namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// The pod's labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// The way out of a pod: the object that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEgress {
    /// The object's name.
    pub name: String,
    /// The packet mark by which the external bridge knows the address.
    pub mark: EgressMark,
    /// The nodes with an IPv4 address of the object.
    pub ipv4: BTreeSet<String>,
    /// The nodes with an IPv6 address of the object.
    pub ipv6: BTreeSet<String>,
}

impl PodEgress {
    /// The nodes with an address of the same family.
    pub fn nodes(&self, like: IpAddr) -> &BTreeSet<String> {
        if like.is_ipv4() { &self.ipv4 } else { &self.ipv6 }
    }
}

/// The object that a pod uses, and the names of those that stand by.
pub fn select<'r>(rules: &'r [EgressRule], pod: SelectablePod<'_>) -> (Option<PodEgress>, Vec<&'r str>) {
    let matching =
        |rule: &&EgressRule| rule.namespaces.matches(pod.namespace_labels) && rule.pods.matches(pod.labels);
    let mut matching = rules.iter().filter(matching);
    let active = matching.next().map(|rule| {
        let of = |is_ipv4: bool| {
            let items = rule.items.iter().filter(|item| item.address.is_ipv4() == is_ipv4);
            items.map(|item| item.node.clone()).collect()
        };
        PodEgress { name: rule.name.clone(), mark: rule.mark, ipv4: of(true), ipv6: of(false) }
    });
    (active, matching.map(|rule| rule.name.as_str()).collect())
}
