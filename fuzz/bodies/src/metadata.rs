//! Bodies for the metadata proxy: what VMs send, and what the agent sends.

use std::net::{IpAddr, Ipv4Addr};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use metadata_proxy::control::Message;
use metadata_proxy::identity::{IdentityTable, Instance};
use metadata_proxy::request::{self, SharedSecret};

/// The headers of a request to Nova, all of which are the proxy's own or named by it.
const ALLOWED: [&str; 8] = [
    "x-forwarded-for",
    "x-instance-id",
    "x-tenant-id",
    "x-instance-id-signature",
    "accept-encoding",
    "accept",
    "content-type",
    "user-agent",
];

/// The head of a request: its target passes byte for byte or is refused, and none of its headers names the source.
pub fn metadata_request(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut words = lines.next().unwrap_or_default().splitn(2, |byte| *byte == b' ');
    let (method, uri) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if let (Ok(method), Ok(uri)) = (Method::from_bytes(method), Uri::try_from(uri)) {
        match request::target(&method, &uri) {
            Ok(target) => {
                let text = target.as_str();
                assert!(text.starts_with('/') && !text.bytes().any(|byte| byte <= b' '));
                assert_eq!(Some(text), uri.path_and_query().map(|target| target.as_str()));
            }
            Err(status) => assert!(status.is_client_error()),
        }
    }
    let mut headers = HeaderMap::new();
    for line in lines {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(parts.next().unwrap_or_default());
        let value = HeaderValue::from_bytes(parts.next().unwrap_or_default());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let source = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 5));
    let instance = Instance { id: "i".into(), project: "p".into() };
    let sent = request::headers(&headers, source, &instance, &SharedSecret::new("s".into()));
    let sent = sent.expect("the ids are plain");
    for name in sent.keys() {
        assert!(ALLOWED.contains(&name.as_str()) && sent.get_all(name).iter().count() == 1, "{name}");
    }
    for (name, value) in [("x-forwarded-for", "10.0.1.5"), ("x-instance-id", "i"), ("x-tenant-id", "p")] {
        assert_eq!(sent[name], value);
    }
    for name in request::answered(&headers).keys() {
        assert!(!name.as_str().starts_with("x-") && name != "set-cookie", "{name}");
    }
}

/// A message between agent and proxy: it is printed as it was read, and ports cut into pieces are the same ports.
pub fn metadata_control(data: &[u8]) {
    let Ok(message) = serde_json::from_slice::<Message>(data) else { return };
    let printed = serde_json::to_vec(&message).expect("a message is printed");
    assert_eq!(serde_json::from_slice::<Message>(&printed).expect("and read again"), message);
    let Message::Ports { network, ports, .. } = message else { return };
    let mut pieces = Vec::new();
    for message in Message::ports(network, &ports) {
        let Message::Ports { ports, .. } = message else { panic!("another message") };
        pieces.extend(ports);
    }
    let is_sane = |id: &str| id.len() <= 1024;
    let kept = ports.into_iter().filter(|port| is_sane(&port.instance) && is_sane(&port.project));
    let (whole, cut) = (IdentityTable::new(kept), IdentityTable::new(pieces));
    assert_eq!(whole.is_empty(), cut.is_empty());
}
