//! Responses on the wire.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::lists::{Lists, Pieces, Room};
use crate::resource::{RenderedObject, Reply};
use crate::{Caller, Fault};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// A response before it is sent.
#[derive(Debug)]
pub struct Answer {
    pub(super) status: u16,
    kind: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    /// The part of the limit for large responses that this one uses.
    room: Option<Room>,
}

const JSON: &str = "application/json";

impl Answer {
    pub(super) fn bytes(status: u16, body: impl Into<Bytes>) -> Self {
        Answer { status, kind: JSON, headers: Vec::new(), body: body.into(), room: None }
    }

    pub(super) fn text(status: u16, body: &'static str) -> Self {
        Answer { kind: "text/plain; charset=utf-8", ..Self::bytes(status, body) }
    }

    pub(super) fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::bytes(status, body),
            Err(error) => unreachable!("answers are plain data: {error}"),
        }
    }

    pub(super) fn empty(status: u16) -> Self {
        Self::bytes(status, Bytes::new())
    }

    /// One object under the noun's name.
    pub(super) fn object(status: u16, name: &str, object: &RenderedObject) -> Self {
        let object = object.as_bytes();
        let mut body = Vec::with_capacity(object.len() + name.len() + 8);
        begin(&mut body, name);
        body.extend_from_slice(object);
        body.push(b'}');
        Self::bytes(status, body)
    }

    /// Several objects under the collection's name.
    pub(super) fn objects(status: u16, collection: &str, objects: &[RenderedObject]) -> Self {
        let objects: Vec<&[u8]> = objects.iter().map(RenderedObject::as_bytes).collect();
        Self::bytes(status, listed(collection, &objects.join(&b','), b"}"))
    }

    /// A page with links to its neighbours. `None` omits the key for links.
    pub(super) fn page(collection: &str, items: &[u8], links: Option<&[Value]>) -> Self {
        let Some(links) = links else {
            return Self::bytes(200, listed(collection, items, b"}"));
        };
        let mut body = listed(collection, items, b",");
        write(&mut body, &format!("{collection}_links"));
        body.push(b':');
        write(&mut body, links);
        body.push(b'}');
        Self::bytes(200, body)
    }

    /// The outcome of an action.
    pub(super) fn reply(status: u16, name: &str, reply: Reply, object: Option<&RenderedObject>) -> Self {
        match (reply, object) {
            (Reply::Value(value), _) => Self::json(status, &value),
            (Reply::Object, Some(object)) => Self::object(status, name, object),
            (Reply::Object | Reply::Nothing, _) => Self::empty(status),
        }
    }

    /// 401, in Keystone's format: clients expect it from the middleware in front of the API.
    pub(super) fn unauthorized(challenge: &str) -> Self {
        let message = "The request you have made requires authentication.";
        let body = json!({"error": {"code": 401, "title": "Unauthorized", "message": message}});
        Self::json(401, &body).with(header::WWW_AUTHENTICATE, challenge)
    }

    pub(super) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Reserves memory for the response, if it is large.
    pub(super) fn held(self, lists: &Lists, caller: &Caller) -> Result<Self, Fault> {
        let room = lists.hold(caller, self.body.len())?;
        Ok(Answer { room, ..self })
    }

    pub(super) fn into_response(self, id: &str) -> Response {
        let mut response = Response::new(match self.room {
            _ if self.body.is_empty() => Body::empty(),
            Some(room) => Body::new(Pieces::new(self.body, room)),
            None => Body::from(self.body),
        });
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(REQUEST_ID, id);
        }
        headers.extend(self.headers);
        response
    }
}

fn begin(body: &mut Vec<u8>, name: &str) {
    body.push(b'{');
    write(body, name);
    body.push(b':');
}

fn write(body: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    if let Err(error) = serde_json::to_writer(body, value) {
        unreachable!("answers are plain data: {error}");
    }
}

/// A JSON list of rendered objects, up to and including `end`.
fn listed(collection: &str, objects: &[u8], end: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(objects.len() + collection.len() + 128);
    begin(&mut body, collection);
    body.push(b'[');
    body.extend_from_slice(objects);
    body.push(b']');
    body.extend_from_slice(end);
    body
}
