//! A body for the files that agents are configured with.

use node::bgp::config::Config;
use node::ini::Ini;

/// An INI file: whatever it says, it is read or refused with its place, and so is what the BGP agent makes of it.
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
}
