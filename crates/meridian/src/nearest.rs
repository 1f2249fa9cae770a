//! Which known name somebody may have meant.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The known name that is nearest to one that is not known, if any is near at all.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            let other = candidate.to_lowercase();
            // The beginning of a name counts as near: `dump Port` for Port_Binding.
            let prefix = lower.len() >= 3 && (other.starts_with(&lower) || lower.starts_with(&other));
            let score = strsim::jaro_winkler(&lower, &other) + if prefix { 0.1 } else { 0.0 };
            // Jaro alone finds `address` near `addresses` and `ports`; a bound on the edits keeps nonsense out.
            let edits = strsim::osa_distance(&lower, &other);
            let close = edits <= (lower.chars().count().max(other.chars().count()) / 3).max(1) || prefix;
            (candidate, if close { score } else { 0.0 })
        })
        .filter(|(_, score)| *score >= 0.7)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _)| candidate)
}

/// `; did you mean ...?`, or nothing.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_named() {
        let known = ["name", "ports", "external_ids", "Port_Binding", "Chassis"];
        for (asked, expected) in [
            ("nmae", Some("name")),
            ("port", Some("ports")),
            ("externalids", Some("external_ids")),
            ("port_bindings", Some("Port_Binding")),
            ("chasis", Some("Chassis")),
            ("Port_B", Some("Port_Binding")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(asked, known), expected, "{asked}");
        }
        assert_eq!(hint("nmae", known), "; did you mean `name`?");
    }
}
