//! Clients, each a thread with one open connection, which send the requests of one list until it is empty.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use ovsdb::Uuid;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::monotonic;

/// The time limit of one answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The requests, and how to send them.
#[derive(Deserialize)]
pub(crate) struct Run {
    /// The server's address, such as `127.0.0.1:9696`.
    address: String,
    /// The number of concurrent clients.
    clients: usize,
    /// The number of requests that all clients together start per second. Without it, each client sends its next request after an answer.
    rate: Option<f64>,
    /// Wait until the Northbound has the ports that the answers name, and report the times.
    #[serde(default)]
    pub(crate) see: bool,
    /// Whether to return the bodies of the answers.
    #[serde(default)]
    bodies: bool,
    /// The method, path and body of each request.
    requests: Vec<(String, String, Option<String>)>,
}

/// The result of one request.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Answer {
    /// The status; 0 if there was no answer.
    status: u16,
    /// The times of the request and of the answer, in nanoseconds.
    sent: i64,
    got: i64,
    /// The ids of the objects in the answer, unless bodies are requested.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_text")]
    pub(crate) ids: Vec<Uuid>,
    /// The time at which the last of them was seen in the Northbound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seen: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
}

fn as_text<S: Serializer>(ids: &[Uuid], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(ToString::to_string))
}

/// Sends all requests. Returns the seconds from the first request to the last answer, and the answers in the order of the requests.
pub(crate) fn run(run: &Run) -> Result<(f64, Vec<Answer>)> {
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    let parts = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..run.clients.max(1)).map(|_| scope.spawn(|| client(run, &next, begin))).collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>>>()
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut answers = vec![Answer::default(); run.requests.len()];
    for (at, answer) in parts.into_iter().flatten() {
        answers[at] = answer;
    }
    Ok((seconds, answers))
}

fn client(run: &Run, next: &AtomicUsize, begin: Instant) -> Result<Vec<(usize, Answer)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = None;
        let mut answers = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = run.requests.get(at) else { return Ok(answers) };
            if let Some(rate) = run.rate {
                let due = Duration::from_secs_f64(at as f64 / rate);
                tokio::time::sleep(due.saturating_sub(begin.elapsed())).await;
            }
            let sent = monotonic()?;
            let asked = tokio::time::timeout(PATIENCE, ask(&mut connection, &run.address, request)).await;
            let got = monotonic()?;
            let answer = match asked {
                Ok(Ok((status, body))) => answer(status, sent, got, &body, run.bodies),
                // Some measurements kill the server, so a lost connection is a result.
                Ok(Err(_)) | Err(_) => {
                    connection = None;
                    Answer { sent, got, ..Answer::default() }
                }
            };
            answers.push((at, answer));
        }
    })
}

async fn ask(
    connection: &mut Option<SendRequest<Full<Bytes>>>,
    address: &str,
    (method, path, body): &(String, String, Option<String>),
) -> Result<(u16, Bytes)> {
    if connection.as_ref().is_none_or(SendRequest::is_closed) {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        *connection = Some(sender);
    }
    let sender = connection.as_mut().context("connected above")?;
    sender.ready().await?;
    let request = hyper::Request::builder()
        .method(method.as_str())
        .uri(path)
        .header(HOST, address)
        .header("X-Auth-Token", "bench")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.clone().unwrap_or_default())))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let closes = response.headers().get(CONNECTION).is_some_and(|value| value == "close");
    let body = response.into_body().collect().await?.to_bytes();
    if closes {
        // The peer closes it after this answer, but hyper may notice only after the next request.
        *connection = None;
    }
    Ok((status, body))
}

fn answer(status: u16, sent: i64, got: i64, body: &[u8], keep: bool) -> Answer {
    let mut answer = Answer { status, sent, got, ..Answer::default() };
    if keep {
        answer.body = serde_json::from_slice(body).ok();
    } else if status == 201 {
        answer.ids = ids(body);
    }
    answer
}

/// The ids in an answer to a create: of the one object under the noun, or of each in a list.
fn ids(body: &[u8]) -> Vec<Uuid> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let made = value.as_object().and_then(|object| object.values().next());
    let id = |object: &Value| object["id"].as_str()?.parse().ok();
    match made {
        Some(Value::Array(all)) => all.iter().filter_map(id).collect(),
        Some(one) => id(one).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_and_of_many() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(ids(format!(r#"{{"port":{{"name":"x","id":"{a}"}}}}"#).as_bytes()), [a]);
        assert_eq!(ids(format!(r#"{{"ports":[{{"id":"{a}"}},{{"id":"{b}"}}]}}"#).as_bytes()), [a, b]);
        assert!(ids(b"no json").is_empty());
    }
}
