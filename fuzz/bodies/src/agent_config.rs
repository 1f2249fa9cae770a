//! A body for the configuration files of agents.

use node::bgp::config::Config;
use node::ini::Ini;
use node::metadata;

/// An INI file: it is parsed or rejected with the position of the error, and so are the configurations of the BGP agent and of the
/// metadata agent in it.
pub fn oslo_ini(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut ini = Ini::default();
    if let Err(error) = ini.read("f", &text) {
        assert!(error.place.line >= 1 && error.place.line <= text.lines().count());
    }
    for entry in &ini.entries {
        assert!(!entry.section.is_empty() && !entry.name.is_empty());
        assert!(!entry.name.chars().any(|c| c == '-' || c == '\n'));
    }
    if let Err(error) = Config::from_ini(&ini) {
        assert!(!error.problems.is_empty());
    }
    if let Err(error) = metadata::config::Config::from_ini(&ini) {
        assert!(!error.0.is_empty());
    }
}
