//! As much of OpenFlow 1.3 as two kinds of flow need.
//!
//! A match that was read is kept as bytes, so that a flow whose match we do not understand can still be deleted, and no other
//! with it. That, and that no byte of the other side may cause a panic, is why this is not left to a general library.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use ovn::MacAddr;

use super::state::{COOKIE, Flow, Matched, PRIORITY, SeenFlow};
use crate::kernel::Family;

/// Version 1.3 on the wire.
pub const VERSION: u8 = 4;
/// The header of every message.
pub const HEADER: usize = 8;

/// The kinds of message that we send or understand.
pub mod kind {
    /// The first of each side.
    pub const HELLO: u8 = 0;
    /// A refusal.
    pub const ERROR: u8 = 1;
    /// Are you there?
    pub const ECHO_REQUEST: u8 = 2;
    /// Yes.
    pub const ECHO_REPLY: u8 = 3;
    /// Send a packet out of a port.
    pub const PACKET_OUT: u8 = 13;
    /// Add or delete a flow.
    pub const FLOW_MOD: u8 = 14;
    /// A question with a long answer.
    pub const MULTIPART_REQUEST: u8 = 18;
    /// A part of it.
    pub const MULTIPART_REPLY: u8 = 19;
    /// Tell when all before is done.
    pub const BARRIER_REQUEST: u8 = 20;
    /// It is.
    pub const BARRIER_REPLY: u8 = 21;
}

/// What a message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The protocol's version.
    pub version: u8,
    /// See [`kind`].
    pub kind: u8,
    /// The length of what follows.
    pub body: usize,
    /// Which request it belongs to.
    pub xid: u32,
}

impl Header {
    /// Reads one; nothing if it contradicts itself.
    pub fn decode(bytes: [u8; HEADER]) -> Option<Self> {
        let [version, kind, l1, l2, x1, x2, x3, x4] = bytes;
        let body = usize::from(u16::from_be_bytes([l1, l2])).checked_sub(HEADER)?;
        Some(Header { version, kind, body, xid: u32::from_be_bytes([x1, x2, x3, x4]) })
    }
}

/// A whole message. What we send is far shorter than 64 KiB.
pub fn message(kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend([VERSION, kind]);
    out.extend(length.to_be_bytes());
    out.extend(xid.to_be_bytes());
    out.extend(body);
    out
}

/// The first message: version 1.3 and no other.
pub fn hello(xid: u32) -> Vec<u8> {
    // An element of type 1, a bitmap of versions, 8 bytes long.
    message(kind::HELLO, xid, &[0, 1, 0, 8, 0, 0, 0, 1 << VERSION])
}

/// Whether the other side's first message allows version 1.3.
pub fn speaks_ours(header: Header, body: &[u8]) -> bool {
    let element = |kind: &[u8], length: &[u8]| kind == [0, 1] && length == [0, 8];
    match body {
        [k1, k2, l1, l2, a, b, c, d, ..] if element(&[*k1, *k2], &[*l1, *l2]) => {
            u32::from_be_bytes([*a, *b, *c, *d]) & (1 << VERSION) != 0
        }
        _ => header.version >= VERSION,
    }
}

/// Any port, any group, no buffer.
const ANY: [u8; 4] = [0xff; 4];
/// The switch's own way of forwarding, `NORMAL`.
const NORMAL: u32 = 0xffff_fffa;
/// Fields of a match: class, field and length.
const IN_PORT: u32 = 0x8000_0004;
const ETH_TYPE: u32 = 0x8000_0a02;
const ETH_DST: u32 = 0x8000_0606;
/// Instructions and actions.
const APPLY_ACTIONS: u16 = 4;
const OUTPUT: u16 = 0;
const SET_FIELD: u16 = 25;
/// Commands of a flow message.
const ADD: u8 = 0;
const DELETE_STRICT: u8 = 4;

fn ethertype(family: Family) -> u16 {
    match family {
        Family::V4 => 0x0800,
        Family::V6 => 0x86dd,
    }
}

/// A match is a type, a length, fields, and zeros up to a multiple of eight, which do not count.
fn encode_match(fields: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + fields.len()).unwrap_or(u16::MAX);
    let mut out = vec![0, 1];
    out.extend(length.to_be_bytes());
    out.extend(fields);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

fn flow_mod(
    cookie: u64,
    command: u8,
    (table, priority): (u8, u16),
    matched: &[u8],
    instructions: &[u8],
    xid: u32,
) -> Vec<u8> {
    // Only a deletion looks at the mask.
    let mask = if command == DELETE_STRICT { u64::MAX } else { 0 };
    let mut body = Vec::with_capacity(40 + matched.len() + instructions.len());
    body.extend(cookie.to_be_bytes());
    body.extend(mask.to_be_bytes());
    body.extend([table, command, 0, 0, 0, 0]);
    body.extend(priority.to_be_bytes());
    body.extend([ANY, ANY, ANY].concat());
    body.extend([0; 4]);
    body.extend(matched);
    body.extend(instructions);
    message(kind::FLOW_MOD, xid, &body)
}

/// The match of a flow of ours.
fn match_of(flow: Flow) -> Vec<u8> {
    let mut fields = Vec::with_capacity(14);
    fields.extend(IN_PORT.to_be_bytes());
    fields.extend(flow.in_port.to_be_bytes());
    fields.extend(ETH_TYPE.to_be_bytes());
    fields.extend(ethertype(flow.family).to_be_bytes());
    encode_match(&fields)
}

/// Adds a flow.
pub fn add(flow: Flow, xid: u32) -> Vec<u8> {
    let mut actions = Vec::with_capacity(32);
    actions.extend(SET_FIELD.to_be_bytes());
    actions.extend(16u16.to_be_bytes());
    actions.extend(ETH_DST.to_be_bytes());
    actions.extend(flow.mac.octets());
    actions.extend([0, 0]);
    actions.extend(OUTPUT.to_be_bytes());
    actions.extend(16u16.to_be_bytes());
    actions.extend(NORMAL.to_be_bytes());
    actions.extend([0; 8]);
    let mut instruction = Vec::with_capacity(40);
    instruction.extend(APPLY_ACTIONS.to_be_bytes());
    instruction.extend(40u16.to_be_bytes());
    instruction.extend([0; 4]);
    instruction.extend(actions);
    flow_mod(COOKIE, ADD, (0, PRIORITY), &match_of(flow), &instruction, xid)
}

/// Adds the flow that switches every packet as usual, with the priority and cookie that the switch itself gives it: it is not ours, and
/// nobody who removes our flows is to remove it.
pub fn add_normal(xid: u32) -> Vec<u8> {
    flow_mod(0, ADD, (0, 0), &encode_match(&[]), &normal_instruction(), xid)
}

fn normal_instruction() -> Vec<u8> {
    let mut instruction = Vec::with_capacity(24);
    instruction.extend(APPLY_ACTIONS.to_be_bytes());
    instruction.extend(24u16.to_be_bytes());
    instruction.extend([0; 4]);
    instruction.extend(OUTPUT.to_be_bytes());
    instruction.extend(16u16.to_be_bytes());
    instruction.extend(NORMAL.to_be_bytes());
    instruction.extend([0; 8]);
    instruction
}

/// Deletes exactly one flow with our cookie.
pub fn delete(seen: &SeenFlow, xid: u32) -> Vec<u8> {
    let matched = match (seen.matched.0.is_empty(), seen.flow) {
        (true, Some(flow)) => match_of(flow),
        _ => seen.matched.0.to_vec(),
    };
    flow_mod(COOKIE, DELETE_STRICT, (seen.table, seen.priority), &matched, &[], xid)
}

/// Kinds of long answers: flows, and their sum.
const FLOWS: u8 = 1;
const AGGREGATE: u8 = 2;
/// All tables.
const ALL_TABLES: u8 = 0xff;

/// The packet is in the message, not in a buffer of the switch.
const NO_BUFFER: u32 = u32::MAX;
/// The packet has come in through no port.
const CONTROLLER: u32 = 0xffff_fffd;

/// Sends a frame out of a port. `None` if the frame is too long for a message.
pub fn packet_out(port: u32, frame: &[u8], xid: u32) -> Option<Vec<u8>> {
    let mut body = Vec::with_capacity(32 + frame.len());
    body.extend(NO_BUFFER.to_be_bytes());
    body.extend(CONTROLLER.to_be_bytes());
    // One action of 16 bytes.
    body.extend(16u16.to_be_bytes());
    body.extend([0; 6]);
    body.extend(OUTPUT.to_be_bytes());
    body.extend(16u16.to_be_bytes());
    body.extend(port.to_be_bytes());
    body.extend([0; 8]);
    body.extend(frame);
    u16::try_from(HEADER + body.len()).ok().map(|_| message(kind::PACKET_OUT, xid, &body))
}

/// Asks for the flows with our cookie, in all tables.
pub fn ask(xid: u32) -> Vec<u8> {
    request(FLOWS, ALL_TABLES, ANY, (COOKIE, u64::MAX), xid)
}

/// Asks for the flows of the first table that switch packets as usual, whoever made them.
pub fn ask_normal(xid: u32) -> Vec<u8> {
    request(FLOWS, 0, NORMAL.to_be_bytes(), (0, 0), xid)
}

/// Asks how many flows there are, whoever made them.
pub fn ask_count(xid: u32) -> Vec<u8> {
    request(AGGREGATE, ALL_TABLES, ANY, (0, 0), xid)
}

fn request(kind: u8, table: u8, out_port: [u8; 4], cookie: (u64, u64), xid: u32) -> Vec<u8> {
    let mut body = vec![0, kind, 0, 0, 0, 0, 0, 0, table, 0, 0, 0];
    body.extend([out_port, ANY].concat());
    body.extend([0; 4]);
    body.extend(cookie.0.to_be_bytes());
    body.extend(cookie.1.to_be_bytes());
    body.extend(encode_match(&[]));
    message(kind::MULTIPART_REQUEST, xid, &body)
}

/// Reads one part of the answer to [`ask_normal`]: whether a flow in it matches every packet and does nothing else with it, and whether
/// more parts follow.
pub fn has_normal(body: &[u8]) -> Result<(bool, bool), Garbled> {
    let mut found = false;
    let more = entries(body, |entry| {
        let length = usize::from(half(entry, 50).ok_or(Garbled("flow"))?);
        let instructions = entry.get(48 + length.next_multiple_of(8)..).ok_or(Garbled("flow"))?;
        found |= length == 4 && instructions == normal_instruction();
        Ok(())
    })?;
    Ok((found, more))
}

/// Reads the answer to [`ask_count`].
pub fn count(body: &[u8]) -> Result<u32, Garbled> {
    match body {
        [0, AGGREGATE, ..] => word(body, 24).ok_or(Garbled("count of flows")),
        _ => Err(Garbled("count of flows")),
    }
}

/// What the other side said does not make sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {0} in its answer is cut short or contradicts itself")]
pub struct Garbled(pub &'static str);

/// Reads one part of the answer into `flows`; whether more parts follow.
pub fn take(body: &[u8], flows: &mut BTreeSet<SeenFlow>) -> Result<bool, Garbled> {
    entries(body, |entry| {
        flows.extend(flow(entry)?);
        Ok(())
    })
}

/// Walks along the flows of one part of an answer; whether more parts follow.
fn entries(body: &[u8], mut each: impl FnMut(&[u8]) -> Result<(), Garbled>) -> Result<bool, Garbled> {
    let garbled = Garbled("list of flows");
    let more = match body {
        [0, FLOWS, _, flags, _, _, _, _, ..] => flags & 1 != 0,
        _ => return Err(garbled),
    };
    let mut rest = body.get(8..).unwrap_or_default();
    while !rest.is_empty() {
        let length = usize::from(half(rest, 0).ok_or(garbled)?);
        let entry = rest.get(..length).filter(|entry| entry.len() >= 56).ok_or(garbled)?;
        each(entry)?;
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(more)
}

/// Reads one flow; nothing if its cookie is not ours after all.
fn flow(entry: &[u8]) -> Result<Option<SeenFlow>, Garbled> {
    let garbled = Garbled("flow");
    let cookie = entry.get(24..32).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes).ok_or(garbled)?;
    if cookie != COOKIE {
        return Ok(None);
    }
    let table = *entry.get(2).ok_or(garbled)?;
    let priority = half(entry, 12).ok_or(garbled)?;
    let timeouts = (half(entry, 14), half(entry, 16));
    let length = usize::from(half(entry, 50).ok_or(garbled)?);
    let padded = length.next_multiple_of(8);
    let matched = entry.get(48..48 + padded).ok_or(garbled)?;
    let fields = matched.get(4..length).ok_or(garbled)?;
    let instructions = entry.get(48 + padded..).ok_or(garbled)?;
    let lasting = timeouts == (Some(0), Some(0));
    let flow = read_match(fields).zip(read_actions(instructions)).filter(|_| lasting);
    let flow = flow.map(|((in_port, family), mac)| Flow { in_port, family, mac });
    Ok(Some(SeenFlow { flow, table, priority, matched: Matched(matched.into()) }))
}

/// The port and family of a match that asks for nothing else.
fn read_match(mut fields: &[u8]) -> Option<(u32, Family)> {
    let (mut in_port, mut family) = (None, None);
    while !fields.is_empty() {
        let header = word(fields, 0)?;
        let value = fields.get(4..4 + (header & 0xff) as usize)?;
        match header {
            IN_PORT => in_port = Some(word(value, 0)?),
            ETH_TYPE => family = Family::BOTH.into_iter().find(|f| Some(ethertype(*f)) == half(value, 0)),
            _ => return None,
        }
        fields = fields.get(4 + value.len()..)?;
    }
    in_port.zip(family)
}

/// The address that actions give to a packet before it is switched as usual, if that is all they do.
fn read_actions(instructions: &[u8]) -> Option<MacAddr> {
    if half(instructions, 0)? != APPLY_ACTIONS || usize::from(half(instructions, 2)?) != instructions.len() {
        return None;
    }
    let actions = instructions.get(8..)?;
    let (set, output) = (actions.get(..16)?, actions.get(16..)?);
    let sets = half(set, 0)? == SET_FIELD && half(set, 2)? == 16 && word(set, 4)? == ETH_DST;
    let normal = output.len() == 16 && half(output, 0)? == OUTPUT && word(output, 4)? == NORMAL;
    let mac = set.get(8..14)?.try_into().ok().map(MacAddr)?;
    (sets && normal).then_some(mac)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// The type and code of a refusal, in words where it is one to be expected.
pub fn refusal(body: &[u8]) -> String {
    match (half(body, 0), half(body, 2)) {
        (Some(0), _) => "the bridge does not allow OpenFlow 1.3; add OpenFlow13 to its protocols".into(),
        (Some(1), Some(5)) => "no permission".into(),
        (Some(5), Some(1)) => "the flow table is full".into(),
        (Some(kind), Some(code)) => format!("refused with error {kind}, code {code}"),
        _ => "refused".into(),
    }
}

#[cfg(test)]
mod tests;
