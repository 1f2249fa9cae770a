//! The body for whole conversations with a server that sends anything.

use std::time::Instant;

use ovsdb::AnyCondition;
use ovsdb::session::{Action, CloseReason, LockMode, Session, SessionConfig};

use crate::ovsdb_update::model;

/// The server's messages, one per line; the first one is borrowed, the second one owned, and so on. A line that begins with a letter is
/// another event: `c` the connection breaks, `t` time passes, `s` a transaction is submitted, `l` a lock is requested, `x` stolen, `u`
/// released, `n` the condition excludes all ports, `a` it includes all of them.
pub fn session(data: &[u8]) {
    converse(data);
}

/// Runs a conversation; returns whether the session was ever synced, and the messages that it sent.
fn converse(data: &[u8]) -> (bool, Vec<String>) {
    let mut now = Instant::now();
    let config = SessionConfig::new(vec!["unix:/nowhere".parse().expect("a remote")]);
    let mut session = Session::new(config, model(), now, 1);
    let (mut synced, mut sent) = (false, Vec::new());
    act(&mut session, now, &mut sent);
    let mut given = false;
    for line in data.split(|byte| *byte == b'\n').take(256) {
        match line.first() {
            Some(b'c') => session.handle_close(now, CloseReason::Eof),
            Some(b't') => {
                now = session.next_timeout().unwrap_or(now).max(now);
                session.handle_timeout(now);
            }
            Some(b's') => drop(session.submit(now, "[]".to_owned())),
            Some(b'l') => session.lock(now, "fuzz", LockMode::Wait),
            Some(b'x') => session.lock(now, "fuzz", LockMode::Steal),
            Some(b'u') => session.unlock(now, "fuzz"),
            Some(b'n') => drop(session.set_condition(now, "Port", AnyCondition::None)),
            Some(b'a') => drop(session.set_condition(now, "Port", AnyCondition::All)),
            _ => {
                match given {
                    false => session.handle_message(now, line),
                    true => session.handle_message(now, line.to_vec()),
                }
                given = !given;
            }
        }
        act(&mut session, now, &mut sent);
        synced |= session.is_synced();
    }
    let _ = session.status();
    (synced, sent)
}

/// Performs the session's actions; connecting always succeeds.
fn act(session: &mut Session, now: Instant, sent: &mut Vec<String>) {
    while let Some(action) = session.poll_action() {
        match action {
            Action::Dial(_) => session.handle_open(now),
            Action::Send(text) | Action::Transact(text) => sent.push(text),
            Action::Close(_) => {}
        }
    }
    while session.poll_event().is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A corpus whose conversations end at once would find nothing.
    #[test]
    fn the_corpus_has_whole_conversations() {
        let all = ["monitor_cond_since", "monitor_cond_change", "lock", "steal", "unlock", "transact"];
        for (seed, methods) in [
            ("whole", &["transact", "lock"][..]),
            ("canceled", &[]),
            ("old_server", &[]),
            ("wishes", &all),
            ("wishes_lent", &all),
        ] {
            let path = format!("{}/../corpus/session/{seed}", env!("CARGO_MANIFEST_DIR"));
            let (synced, sent) = converse(&std::fs::read(path).unwrap());
            let sent = sent.join("\n");
            assert!(synced, "{seed} was never in sync; sent:\n{sent}");
            for method in methods {
                assert!(sent.contains(&format!(r#""method":"{method}""#)), "{seed}: no {method} in\n{sent}");
            }
        }
    }
}
