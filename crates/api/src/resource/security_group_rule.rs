//! Rules of security groups: the traffic that each allows, and the check for duplicates.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod protocol;

use std::net::IpAddr;

use ipnet::IpNet;
use uuid::Uuid;

use super::attribute::{CREATED_AT, DESCRIPTION, ID, PROJECT_ID, REVISION_NUMBER, TENANT_ID, UPDATED_AT};
use super::security_group::{self, SecurityGroups};
use super::{Attribute, Checked, Filters, Preset, Resource, Scene, Shape, Verb, View, quota, touch};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{Direction, Ethertype, SecurityGroup, SecurityGroupRule, Standard};
use crate::policy::{Party, PolicyTarget, Rule, Term};
use crate::world::{Kind, Link, Txn, World};

#[cfg(test)]
pub(crate) use protocol::names;
pub use protocol::number;

/// The rule for changing the rules of a group.
const MEMBER_OF_GROUP: Rule = Rule(&[Term::Admin, Term::Member(Party::Group)]);

/// Security group rules.
#[derive(Debug)]
pub struct SecurityGroupRules;

const PORT: Shape = Shape::WordOrNumber { format: "port", parse: protocol::parse_port };

const ATTRIBUTES: &[Attribute] = &[
    ID,
    TENANT_ID,
    PROJECT_ID,
    Attribute::new("security_group_id", Shape::Uuid, "The group.").required(),
    Attribute::new("direction", Shape::OneOf(&["ingress", "egress"]), "To the port, or from it.").required(),
    Attribute::new("ethertype", Shape::Word { format: "ethertype", parse: ethertype }, "IPv4 or IPv6.")
        .create()
        .preset(Preset::Text("IPv4")),
    Attribute::new(
        "protocol",
        Shape::Nullable(&Shape::WordOrNumber { format: "protocol", parse: protocol::parse }),
        "Name or number of the protocol; null means any.",
    )
    .create()
    .preset(Preset::Null),
    Attribute::new("port_range_min", Shape::Nullable(&PORT), "First port, or ICMP type.")
        .create()
        .preset(Preset::Null),
    Attribute::new("port_range_max", Shape::Nullable(&PORT), "Last port, or ICMP code.")
        .create()
        .preset(Preset::Null),
    Attribute::new(
        "remote_ip_prefix",
        Shape::Nullable(&Shape::Word { format: "cidr", parse: prefix }),
        "The other side's prefix; an address stands for itself.",
    )
    .create()
    .preset(Preset::Null),
    Attribute::new("remote_group_id", Shape::Nullable(&Shape::Text { max: 255 }), "The other side's group.")
        .create()
        .preset(Preset::Null),
    Attribute::new("normalized_cidr", Shape::Nullable(&Shape::Cidr), "remote_ip_prefix without host bits."),
    Attribute::new("belongs_to_default_sg", Shape::Bool, "Whether the group is a project's default group."),
    DESCRIPTION,
    REVISION_NUMBER,
    CREATED_AT,
    UPDATED_AT,
];

impl Resource for SecurityGroupRules {
    type Entity = SecurityGroupRule;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "security_group_rule";
    const COLLECTION: &'static str = "security_group_rules";
    const PATH: &'static str = "security-group-rules";
    const ABSENT: (&'static str, &'static str) = ("SecurityGroupRuleNotFound", "Security group rule");
    const GET: Rule = Rule(&[Term::Admin, Term::Reader(Party::Group)]);
    const CREATE: Rule = MEMBER_OF_GROUP;
    const UPDATE: Rule = MEMBER_OF_GROUP;
    const DELETE: Rule = MEMBER_OF_GROUP;
    const TAGS: Rule = MEMBER_OF_GROUP;
    const VERBS: &'static [Verb] = &[Verb::Create, Verb::Delete];
    const TAGGED: bool = false;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(rule: &SecurityGroupRule) -> &str {
        &rule.project
    }

    fn standard(rule: &SecurityGroupRule) -> Option<&Standard> {
        Some(&rule.standard)
    }

    fn standard_mut(rule: &mut SecurityGroupRule) -> Option<&mut Standard> {
        Some(&mut rule.standard)
    }

    /// Members of the group's project may change a rule, even if another project created it.
    fn target<'w>(rule: &'w SecurityGroupRule, world: &'w World) -> PolicyTarget<'w> {
        let group = world.get::<SecurityGroup>(&rule.security_group_id);
        PolicyTarget { group: group.map(|group| group.project.as_str()), ..PolicyTarget::of(&rule.project) }
    }

    fn target_of_new<'w>(
        world: &'w World,
        caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        let group = security_group::usable(world, caller, new.uuid("security_group_id").unwrap_or_default())?;
        Ok(PolicyTarget { group: Some(&group.project), ..PolicyTarget::of(new.project()) })
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        Some(filters.uuids("security_group_id")?.into_iter().map(Link::RulesOfGroup).collect())
    }

    fn view(rule: &SecurityGroupRule, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(rule.id, &rule.project);
        view.text("security_group_id", &rule.security_group_id);
        view.put("direction", direction_word(rule.direction));
        view.put("ethertype", ethertype_word(rule.ethertype));
        view.optional("protocol", rule.protocol.as_ref());
        view.put("port_range_min", rule.port_range_min);
        view.put("port_range_max", rule.port_range_max);
        view.optional("remote_ip_prefix", rule.remote_ip_prefix.as_ref());
        view.optional("remote_group_id", rule.remote_group_id.as_ref());
        view.optional("normalized_cidr", rule.remote_ip_prefix.map(|prefix| prefix.trunc()).as_ref());
        view.put_with("belongs_to_default_sg", || {
            let group = scene.world.get::<SecurityGroup>(&rule.security_group_id);
            group.is_some_and(|group| group.is_default)
        });
        view.standard(&rule.standard);
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        // As in Neutron, a malformed id is reported as an unknown group.
        if let Some(group) = new.text("remote_group_id").filter(|group| Uuid::try_parse(group).is_err()) {
            return Err(super::absent::<SecurityGroups>(group));
        }
        let rule = read(txn, new);
        check(&rule)?;
        if let Some(other) = rule.remote_group_id {
            security_group::usable(txn, caller, other)?;
        }
        check_new(txn, &rule)?;
        quota::check(txn, Kind::SecurityGroupRule, new.project(), 1)?;
        let (id, group) = (rule.id, rule.security_group_id);
        txn.put(rule);
        touch::<SecurityGroups>(txn, group);
        Ok(id)
    }

    fn update(_txn: &mut Txn, _caller: &Caller, _id: Uuid, _change: &Checked) -> Result<(), Fault> {
        Err(Fault::bad("A security group rule cannot be changed: delete it and create another"))
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        if let Some(rule) = txn.remove::<SecurityGroupRule>(&id) {
            touch::<SecurityGroups>(txn, rule.security_group_id);
        }
        Ok(())
    }
}

/// Stores a rule that allows a whole family, from anywhere or from a group.
pub(super) fn put_open(
    txn: &mut Txn,
    project: &str,
    group: Uuid,
    direction: Direction,
    ethertype: Ethertype,
    remote_group_id: Option<Uuid>,
) {
    let rule = SecurityGroupRule {
        id: txn.new_id(),
        project: project.to_owned(),
        security_group_id: group,
        direction,
        ethertype,
        protocol: None,
        port_range_min: None,
        port_range_max: None,
        remote_ip_prefix: None,
        remote_group_id,
        standard: Standard::new(txn.now(), ""),
    };
    txn.put(rule);
}

fn read(txn: &mut Txn, new: &Checked) -> SecurityGroupRule {
    SecurityGroupRule {
        id: txn.new_id(),
        project: new.project().to_owned(),
        security_group_id: new.uuid("security_group_id").unwrap_or_default(),
        direction: match new.text("direction") {
            Some("egress") => Direction::Egress,
            _ => Direction::Ingress,
        },
        ethertype: match new.text("ethertype") {
            Some("IPv6") => Ethertype::IPv6,
            _ => Ethertype::IPv4,
        },
        protocol: new.text("protocol").filter(|protocol| *protocol != protocol::ANY).map(str::to_owned),
        port_range_min: new.parsed("port_range_min"),
        port_range_max: new.parsed("port_range_max"),
        remote_ip_prefix: new.parsed("remote_ip_prefix"),
        remote_group_id: new.uuid("remote_group_id"),
        standard: new.standard(txn.now()),
    }
}

fn check_new(world: &World, rule: &SecurityGroupRule) -> Result<(), Fault> {
    let same = meaning(rule);
    let mut others = world.linked::<SecurityGroupRule>(Link::RulesOfGroup(rule.security_group_id));
    match others.find(|other| meaning(other) == same) {
        Some(other) => {
            let message = format!("Security group rule already exists. Rule id is {}.", other.id);
            Err(Fault::conflict("SecurityGroupRuleExists", message))
        }
        None => Ok(()),
    }
}

fn check(rule: &SecurityGroupRule) -> Result<(), Fault> {
    if rule.remote_ip_prefix.is_some() && rule.remote_group_id.is_some() {
        return Err(Fault::new(
            400,
            "SecurityGroupRemoteGroupAndRemoteIpPrefix",
            "Only remote_ip_prefix or remote_group_id may be provided.",
        ));
    }
    let ethertype = ethertype_word(rule.ethertype);
    if let Some(prefix) = rule.remote_ip_prefix
        && prefix.addr().is_ipv4() != (rule.ethertype == Ethertype::IPv4)
    {
        let message = format!("Conflicting value ethertype {ethertype} for CIDR {prefix}");
        return Err(Fault::new(400, "SecurityGroupRuleParameterConflict", message));
    }
    if let Some(protocol) = rule.protocol.as_deref()
        && rule.ethertype == Ethertype::IPv4
        && protocol::is_ipv6_only(protocol)
    {
        let message = format!("Invalid ethertype {ethertype} for protocol {protocol}.");
        return Err(Fault::new(400, "SecurityGroupEthertypeConflictWithProtocol", message));
    }
    protocol::check_ports(rule)
}

/// The traffic that a rule allows, normalized. Two rules with equal traffic are duplicates.
fn meaning(rule: &SecurityGroupRule) -> impl PartialEq + use<> {
    let number = rule.protocol.as_deref().map(|protocol| protocol::number_for(protocol, rule.ethertype));
    let ports = match (rule.port_range_min, rule.port_range_max) {
        (Some(1), Some(65_535)) if number.is_some_and(protocol::has_ports) => (None, None),
        ports => ports,
    };
    let prefix = rule.remote_ip_prefix.map(|prefix| prefix.trunc()).filter(|prefix| prefix.prefix_len() > 0);
    (rule.direction, rule.ethertype, number, ports, prefix, rule.remote_group_id)
}

/// The direction as a string of the API.
pub fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

/// The family as a string of the API.
pub fn ethertype_word(ethertype: Ethertype) -> &'static str {
    match ethertype {
        Ethertype::IPv4 => "IPv4",
        Ethertype::IPv6 => "IPv6",
    }
}

fn ethertype(text: &str) -> Result<String, String> {
    for known in ["IPv4", "IPv6"] {
        if text.eq_ignore_ascii_case(known) {
            return Ok(known.to_owned());
        }
    }
    Err(format!("'{text}' is not in ('IPv4', 'IPv6')"))
}

/// Parses a prefix, whose host bits are kept, or an address as a prefix of full length.
fn prefix(text: &str) -> Result<String, String> {
    let prefix = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    prefix.map(|prefix| prefix.to_string()).ok_or_else(|| format!("Invalid CIDR {text} given as IP prefix"))
}

#[cfg(test)]
mod tests;
