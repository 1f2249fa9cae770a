//! The media types that a client accepts. Octavia answers with JSON only, and with 406 if a client does not accept that.

use axum::http::{HeaderMap, header};
use serde_json::json;

use crate::http::answer::Answer;

/// The most specific media range that matches JSON decides, according to RFC 9110.
const RANGES: [&str; 3] = ["application/json", "application/*", "*/*"];

/// Refuses a request whose client does not accept JSON.
pub(super) fn check(headers: &HeaderMap, request_id: &str) -> Option<Answer> {
    if accepts_json(headers) {
        return None;
    }
    let error = json!({
        "status": 406,
        "title": "Not Acceptable",
        "detail": "Only content type application/json is accepted.",
        "request_id": request_id,
    });
    Some(Answer::json(406, &json!({"errors": [error]})))
}

/// Whether the client accepts JSON. A missing, empty or malformed header accepts everything.
fn accepts_json(headers: &HeaderMap) -> bool {
    let mut weights = [None; RANGES.len()];
    let mut names_ranges = false;
    for value in headers.get_all(header::ACCEPT) {
        let Ok(text) = value.to_str() else { return true };
        for range in text.split(',').map(str::trim).filter(|range| !range.is_empty()) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            if !name.contains('/') {
                return true;
            }
            names_ranges = true;
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            let Ok(weight) = weight.map_or(Ok(1.0), str::parse::<f32>) else { return true };
            if let Some(at) = RANGES.iter().position(|known| *known == name) {
                weights[at] = Some(weight);
            }
        }
    }
    !names_ranges || weights.into_iter().flatten().next().is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_clients_that_take_json_are_answered() {
        for (accept, expected) in [
            ("", true),
            (" , ", true),
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/*;q=0.1", true),
            ("*/*", true),
            ("text/html, */*;q=0.8", true),
            ("nonsense", true),
            ("text/html;q=x", true),
            ("text/html", false),
            ("text/html, application/xml;q=0.9", false),
            ("application/json;q=0", false),
            ("application/json;q=0, */*", false),
            ("*/*;q=0, application/json", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(accepts_json(&headers), expected, "{accept:?}");
            assert_eq!(check(&headers, "req-1").is_none(), expected, "{accept:?}");
        }
        assert!(accepts_json(&HeaderMap::new()));
    }
}
