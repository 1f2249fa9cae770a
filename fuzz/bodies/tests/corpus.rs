//! Replays the committed corpus, both seeds and past crashes, through every body.

use std::path::{Path, PathBuf};

fn corpus(target: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn no_body_panics_on_its_corpus() {
    for (target, body) in bodies::TARGETS {
        let files = corpus(target);
        assert!(!files.is_empty(), "{target} has no corpus");
        for file in files {
            let data = std::fs::read(&file).unwrap();
            if std::panic::catch_unwind(|| body(&data)).is_err() {
                panic!("{target} panics on {}", file.display());
            }
        }
    }
}

#[test]
fn no_body_panics_on_mutilated_seeds() {
    for (target, body) in bodies::TARGETS {
        for file in corpus(target) {
            let data = std::fs::read(&file).unwrap();
            // Every prefix of a small seed, and a few hundred of a large one.
            for end in (0..data.len()).step_by(data.len() / 300 + 1) {
                body(&data[..end]);
                let mut flipped = data.clone();
                flipped[end] ^= 1 << (end % 8);
                body(&flipped);
            }
        }
    }
}

#[test]
fn every_target_has_a_body_and_every_body_a_target() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz_targets");
    let mut files: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let names: Vec<&str> = bodies::TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(files, names);
    // cargo-fuzz builds only the targets in the manifest.
    assert_eq!(binaries(), names, "[[bin]] in fuzz/Cargo.toml");
}

/// The names of the programs in the manifest of the targets. Each must be built from the file of its name.
fn binaries() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let value = |section: &str, key: &str| -> String {
        let line = section.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key} in {section}")).trim().trim_matches('"').to_owned()
    };
    let mut names = Vec::new();
    for section in text.split("[[bin]]").skip(1) {
        let name = value(section, "name");
        assert_eq!(value(section, "path"), format!("fuzz_targets/{name}.rs"));
        names.push(name);
    }
    names.sort();
    names
}
