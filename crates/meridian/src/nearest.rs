//! Finds the known name that is most similar to an unknown one, for "did you mean" hints.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The most similar known name, if one is similar enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            let other = candidate.to_lowercase();
            // A prefix counts as similar: `dump Port` means Port_Binding.
            let prefix = lower.len() >= 3 && (other.starts_with(&lower) || lower.starts_with(&other));
            let score = strsim::jaro_winkler(&lower, &other) + if prefix { 0.1 } else { 0.0 };
            // Jaro-Winkler alone finds `address` similar to `addresses` and to `ports`. The bound on edits excludes such nonsense.
            let edits = strsim::osa_distance(&lower, &other);
            let close = edits <= (lower.chars().count().max(other.chars().count()) / 3).max(1) || prefix;
            (candidate, if close { score } else { 0.0 })
        })
        .filter(|(_, score)| *score >= 0.7)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _)| candidate)
}

/// The hint `; did you mean ...?`, or an empty string.
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
