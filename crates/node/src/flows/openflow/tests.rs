//! Tests of the encoding, by hand-made answers of a switch.

use proptest::prelude::*;

use super::*;

/// Cookie, table, priority, match, instructions.
type Entry = (u64, u8, u16, Vec<u8>, Vec<u8>);

/// The answer of a switch that holds what a message of ours added, or another match and other instructions.
fn answer(entries: &[Entry], more: bool) -> Vec<u8> {
    let mut body = vec![0, 1, 0, u8::from(more), 0, 0, 0, 0];
    for (cookie, table, priority, matched, instructions) in entries {
        let length = u16::try_from(48 + matched.len() + instructions.len()).unwrap();
        body.extend(length.to_be_bytes());
        body.extend([*table, 0]);
        body.extend([0; 8]);
        body.extend(priority.to_be_bytes());
        body.extend([0; 10]);
        body.extend(cookie.to_be_bytes());
        body.extend([0; 16]);
        body.extend(matched);
        body.extend(instructions);
    }
    body
}

fn parts_of(message: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let body = &message[HEADER..];
    let padded = usize::from(half(body, 42).unwrap()).next_multiple_of(8);
    (body[40..40 + padded].to_vec(), body[40 + padded..].to_vec())
}

#[test]
fn a_packet_goes_out_of_one_port() {
    let bytes = packet_out(7, &[0xaa, 0xbb], 9).unwrap();
    let expected = [
        [4, 13, 0, 42, 0, 0, 0, 9].as_slice(),
        // No buffer, from the controller, 16 bytes of actions.
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, 0, 16, 0, 0, 0, 0, 0, 0],
        // Output to port 7.
        &[0, 0, 0, 16, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xaa, 0xbb],
    ];
    assert_eq!(bytes, expected.concat());
    assert_eq!(packet_out(7, &vec![0; 65_535 - 40], 9).unwrap().len(), 65_535);
    assert_eq!(packet_out(7, &vec![0; 65_536 - 40], 9), None);
}

fn any_flow() -> impl Strategy<Value = Flow> {
    (any::<u32>(), any::<bool>(), any::<[u8; 6]>()).prop_map(|(in_port, v6, mac)| Flow {
        in_port,
        family: if v6 { Family::V6 } else { Family::V4 },
        mac: MacAddr(mac),
    })
}

proptest! {
    #[test]
    fn what_was_added_is_read_back(flows in proptest::collection::vec(any_flow(), 0..5), more: bool) {
        let entries: Vec<_> = flows
            .iter()
            .map(|flow| {
                let (matched, instructions) = parts_of(&add(*flow, 1));
                (COOKIE, 0, PRIORITY, matched, instructions)
            })
            .collect();
        let mut read = BTreeSet::new();
        prop_assert_eq!(take(&answer(&entries, more), &mut read), Ok(more));
        let wanted: BTreeSet<Flow> = flows.into_iter().collect();
        let got: BTreeSet<Flow> = read.iter().filter_map(|seen| seen.flow).collect();
        prop_assert_eq!(got, wanted);
        for seen in &read {
            // The match that was read deletes what the match that is made anew would.
            let fresh = SeenFlow::plain(seen.flow.unwrap());
            prop_assert_eq!(delete(seen, 1), delete(&fresh, 1));
        }
    }

    #[test]
    fn no_answer_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200), at: usize, to: u8) {
        let _ = take(&body, &mut BTreeSet::new());
        let (matched, instructions) = parts_of(&add(Flow { in_port: 5, family: Family::V4, mac: MacAddr([2; 6]) }, 1));
        let mut near = answer(&[(COOKIE, 0, PRIORITY, matched, instructions)], false);
        let place = at % near.len();
        near[place] = to;
        let _ = take(&near, &mut BTreeSet::new());
        let _ = take(&near[..place], &mut BTreeSet::new());
        let _ = refusal(&body);
    }
}

#[test]
fn other_matches_and_actions_are_kept_as_bytes() {
    let (matched, instructions) =
        parts_of(&add(Flow { in_port: 5, family: Family::V4, mac: MacAddr([2; 6]) }, 1));
    let vlan = encode_match(&[0x80, 0, 0x0c, 2, 0x10, 100]);
    let entries = [
        (COOKIE, 7, 1, vlan.clone(), instructions.clone()),
        (COOKIE, 0, PRIORITY, matched.clone(), Vec::new()),
        (0x1234, 0, PRIORITY, matched, instructions),
    ];
    let mut read = BTreeSet::new();
    assert_eq!(take(&answer(&entries, false), &mut read), Ok(false));
    assert_eq!(read.len(), 2, "a foreign cookie is not taken");
    assert!(read.iter().all(|seen| seen.flow.is_none()));
    let seen = read.iter().find(|seen| seen.table == 7).unwrap();
    let message = delete(seen, 1);
    assert_eq!(message[HEADER + 40..], vlan);
    assert_eq!((message[HEADER + 16], message[HEADER + 17]), (7, DELETE_STRICT));
}

#[test]
fn the_first_message_tells_which_versions_are_spoken() {
    let ours = hello(1);
    let header = Header::decode(ours[..HEADER].try_into().unwrap()).unwrap();
    assert_eq!((header.version, header.kind, header.body, header.xid), (VERSION, kind::HELLO, 8, 1));
    assert!(speaks_ours(header, &ours[HEADER..]));
    assert!(speaks_ours(Header { version: 6, ..header }, &[0, 1, 0, 8, 0, 0, 0, 0b111_0010]));
    assert!(!speaks_ours(Header { version: 6, ..header }, &[0, 1, 0, 8, 0, 0, 0, 0b110_0000]));
    assert!(!speaks_ours(Header { version: 1, ..header }, &[]));
    assert!(Header::decode([4, 0, 0, 7, 0, 0, 0, 0]).is_none(), "shorter than itself");
}
