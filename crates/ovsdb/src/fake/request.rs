//! The methods of the protocol.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::constraint::is_id;
use super::host::{Host, Peer};
use super::monitor::{Monitor, Version};
use super::refusal::Refusal;
use crate::model::Str;

/// A reply: a result, or an error in the form of the real server.
type Answer = Result<Value, Value>;

impl Host {
    /// Answers a request, now or (a transaction that waits) later.
    pub(super) fn request(
        &mut self,
        peer: Peer,
        id: &RawValue,
        method: &str,
        params: Vec<Value>,
        now_ms: u64,
    ) {
        let refused = |refusal: Refusal| refusal.to_json();
        let answer = match method {
            "transact" => match self.database(&params) {
                Ok(database) => {
                    let ops = params.into_iter().skip(1).collect();
                    return self.submit(peer, id, database, ops, now_ms);
                }
                Err(refusal) => Err(refused(refusal)),
            },
            "monitor" => self.monitor(peer, &params, Version::V1).map_err(refused),
            "monitor_cond" => self.monitor(peer, &params, Version::V2).map_err(refused),
            "monitor_cond_since" => self.monitor(peer, &params, Version::V3).map_err(refused),
            "monitor_cond_change" => self.monitor_change(peer, &params).map_err(refused),
            "monitor_cancel" => self.monitor_cancel(peer, &params),
            "get_schema" => match self.database(&params) {
                Ok(database) => Ok(self.databases.get(&database).map_or(Value::Null, |db| db.schema.clone())),
                Err(refusal) => Err(refused(refusal)),
            },
            "list_dbs" => Ok(self.databases.keys().map(|name| Value::from(name.as_str())).collect()),
            "get_server_id" => Ok(self.id.to_string().into()),
            "lock" => self.lock(peer, &params, false).map_err(refused),
            "steal" => self.lock(peer, &params, true).map_err(refused),
            "unlock" => self.unlock(peer, &params).map_err(refused),
            "set_db_change_aware" => self.change_aware(peer, &params).map_err(refused),
            "convert" => self.convert_request(&params).map_err(refused),
            "echo" => Ok(params.into()),
            _ => Err("unknown method".into()),
        };
        self.reply(peer, id, answer);
    }

    /// The database that a request begins with.
    fn database(&self, params: &[Value]) -> Result<Str, Refusal> {
        let Some(Value::String(name)) = params.first() else {
            return Err(Refusal::syntax("request params must begin with <db-name>"));
        };
        match self.databases.get_key_value(name.as_str()) {
            Some((name, _)) => Ok(name.clone()),
            None => {
                Err(Refusal::new("unknown database", format!("request specifies unknown database {name}")))
            }
        }
    }

    fn monitor(&mut self, peer: Peer, params: &[Value], version: Version) -> Result<Value, Refusal> {
        let name = self.database(params)?;
        let (Some(db), Some(session)) = (self.databases.get(&name), self.sessions.get_mut(&peer)) else {
            return Err(Refusal::syntax("invalid parameters"));
        };
        if let Some(id) = params.get(1)
            && session.monitors.iter().any(|monitor| monitor.id == *id)
        {
            return Err(Refusal::syntax("duplicate monitor ID"));
        }
        let monitor = Monitor::parse(db, params, version)?;
        let reply = monitor.reply(db, params)?;
        session.monitors.push(monitor);
        Ok(reply)
    }

    fn monitor_change(&mut self, peer: Peer, params: &[Value]) -> Result<Value, Refusal> {
        let [old, new, requests] = params else { return Err(Refusal::syntax("invalid parameters")) };
        let monitors = self.sessions.get_mut(&peer).map(|session| &mut session.monitors);
        let Some(monitor) = monitors.into_iter().flatten().find(|monitor| monitor.id == *old) else {
            return Err(Refusal::syntax("unknown monitor session"));
        };
        let Some(db) = self.databases.get(&monitor.database) else {
            return Err(Refusal::syntax("unknown monitor session"));
        };
        if let Some((method, params)) = monitor.change(db, new, requests)? {
            self.notify(peer, method, &params);
        }
        Ok(json!({}))
    }

    fn monitor_cancel(&mut self, peer: Peer, params: &[Value]) -> Answer {
        let ([id], Some(session)) = (params, self.sessions.get_mut(&peer)) else {
            return Err("invalid parameters".into());
        };
        let Some(at) = session.monitors.iter().position(|monitor| monitor.id == *id) else {
            return Err("unknown monitor".into());
        };
        session.monitors.remove(at);
        Ok(json!({}))
    }

    fn lock(&mut self, peer: Peer, params: &[Value], steal: bool) -> Result<Value, Refusal> {
        let name = lock_name(params)?;
        if self.locks.wants(name, peer) {
            return Err(Refusal::syntax("must issue \"unlock\" before a new \"lock\" or \"steal\""));
        }
        if !steal {
            return Ok(json!({"locked": self.locks.lock(name, peer)}));
        }
        if let Some(victim) = self.locks.steal(name, peer) {
            self.notify(victim, "stolen", &json!([name]));
        }
        Ok(json!({"locked": true}))
    }

    fn unlock(&mut self, peer: Peer, params: &[Value]) -> Result<Value, Refusal> {
        let name = lock_name(params)?;
        if !self.locks.wants(name, peer) {
            return Err(Refusal::syntax("\"unlock\" without \"lock\" or \"steal\""));
        }
        if let Some(owner) = self.locks.unlock(name, peer) {
            self.notify(owner, "locked", &json!([name]));
        }
        Ok(json!({}))
    }

    fn change_aware(&mut self, peer: Peer, params: &[Value]) -> Result<Value, Refusal> {
        let ([Value::Bool(aware)], Some(session)) = (params, self.sessions.get_mut(&peer)) else {
            return Err(Refusal::syntax("true or false parameter expected"));
        };
        session.change_aware = *aware;
        Ok(json!({}))
    }

    fn convert_request(&mut self, params: &[Value]) -> Result<Value, Refusal> {
        let name = self.database(params)?;
        let [_, schema] = params else { return Err(Refusal::syntax("array expected")) };
        if name.starts_with('_') {
            return Err(Refusal::new("not allowed", "This database is reserved."));
        }
        self.convert(&name, schema.clone())?;
        Ok(json!({}))
    }
}

fn lock_name(params: &[Value]) -> Result<&str, Refusal> {
    match params {
        [Value::String(name)] if is_id(name) => Ok(name),
        _ => Err(Refusal::syntax("request params must be <id>")),
    }
}
