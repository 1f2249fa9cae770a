//! Checks that the tests in the guides exist: `` [`name`](path/to/file.rs) `` is a test of that name in that file. On pages
//! called `*-trace.md`, which list claims with their tests, every table row must name one. A test that a line with `cargo
//! nextest run` names by its path must exist as well.

use std::path::{Path, PathBuf};

/// The errors in the tests that one page names.
pub(crate) fn problems(root: &Path, file: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let dir = root.join(file).parent().map(Path::to_path_buf).unwrap_or_default();
    for (name, target) in named_tests(text) {
        // A file that is not there is a broken link, which is somebody else's finding.
        let Ok(source) = std::fs::read_to_string(dir.join(target)) else { continue };
        if !is_test(&source, name) {
            problems.push(format!("{}: `{name}` is no test in {target}", file.display()));
        }
    }
    if file.to_string_lossy().ends_with("-trace.md") {
        for row in rows(text).filter(|row| named_tests(row).is_empty()) {
            problems.push(format!("{}: no test is named in `{row}`", file.display()));
        }
    }
    problems
}

/// A Rust file: its path and its content.
pub(crate) type Source = (PathBuf, String);

/// The tests in `cargo nextest run` lines that none of these files has.
pub(crate) fn not_to_run(file: &Path, text: &str, sources: &[Source]) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once("cargo nextest run"));
    let words = lines.flat_map(|(_, rest)| rest.split('`').next().unwrap_or(rest).split_whitespace());
    words
        .filter(|word| word.contains("::") && !sources.iter().any(|source| has(source, word)))
        .map(|word| format!("{}: no test is called {word}", file.display()))
        .collect()
}

/// Whether a file has the test of this path. The folders and the name of the file are its modules, and `tests` is any folder of tests.
fn has((file, text): &Source, path: &str) -> bool {
    let (modules, name) = path.rsplit_once("::").unwrap_or(("", path));
    let file = file.with_extension("");
    let mut modules = modules.split("::").filter(|module| *module != "tests");
    modules.all(|module| file.iter().any(|part| part == module)) && is_test(text, name)
}

/// Links from a name in code to a Rust file: the name and the file.
fn named_tests(text: &str) -> Vec<(&str, &str)> {
    let links = text.match_indices("[`").filter_map(|(at, open)| {
        let (name, rest) = text[at + open.len()..].split_once("`](")?;
        let (target, _) = rest.split_once(')')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
        let is_source = Path::new(target).extension().is_some_and(|extension| extension == "rs");
        (is_name && is_source && !target.contains("://")).then_some((name, target))
    });
    links.collect()
}

/// The rows of tables, without those that head them.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_row = |line: &str| line.starts_with('|');
    let is_rule = |line: &str| is_row(line) && line.chars().all(|c| "|-: ".contains(c));
    let rows: Vec<&str> = lines
        .iter()
        .enumerate()
        .filter(|(at, line)| {
            let heads = lines.get(at + 1).is_some_and(|next| is_rule(next));
            is_row(line) && !is_rule(line) && !heads
        })
        .map(|(_, line)| *line)
        .collect();
    rows.into_iter()
}

/// Whether a file has such a test: a function with a test attribute, or a test of the lab.
fn is_test(source: &str, name: &str) -> bool {
    // The lab's tests are registered with `Test::new`, with their names as strings.
    if source.contains("Test::new") && source.contains(&format!("\"{name}\"")) {
        return true;
    }
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declared = lines.iter().position(|line| {
        let function = line.split_once("fn ").filter(|(before, _)| {
            before.split(' ').all(|word| word.is_empty() || word == "async" || word.starts_with("pub"))
        });
        let rest = function.and_then(|(_, rest)| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(['(', '<']))
    });
    let above = &lines[..declared.unwrap_or_default()];
    let mut marks = above.iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    marks.any(|mark| mark.starts_with("#[test]") || (mark.starts_with("#[") && mark.contains("::test")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
        #[test]\nfn plain() {}\n\
        fn no_test() { plain() }\n\
        #[tokio::test(flavor = \"multi_thread\")]\n// why\nasync fn with_tasks() {}\n\
        proptest! {\n    #[test]\n    fn of_many(x in 0..9) {}\n}\n\
        // fn only_told() {}\n\
        fn tests() -> Vec<Test> {\n    vec![Test::new(\"lab::it_works\", \"it works\", works)]\n}\n\
        fn works(lab: &Lab) {}\n";

    #[test]
    fn tests_are_known_by_their_mark_or_their_list() {
        for name in ["plain", "with_tasks", "of_many", "lab::it_works"] {
            assert!(is_test(SOURCE, name), "{name}");
        }
        for name in ["no_test", "only_told", "tests", "works", "plai", "gone", "lab::gone"] {
            assert!(!is_test(SOURCE, name), "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("docs")).unwrap();
        std::fs::write(dir.path().join("tests.rs"), SOURCE).unwrap();
        let text = "| statement | tests |\n|---|---|\n| one | [`plain`](../tests.rs), [`gone`](../tests.rs) |\n\
                    | two | none yet |\n| three | [`plain`](../away.rs) [`Type`](https://docs.rs/a.rs) |\n\
                    [`no_test`](../tests.rs) in prose, [`a b`](../tests.rs) is no name\n";
        let wrong_names = [
            "docs/x-trace.md: `gone` is no test in ../tests.rs",
            "docs/x-trace.md: `no_test` is no test in ../tests.rs",
        ];
        let page = Path::new("docs/x-trace.md");
        assert_eq!(
            problems(dir.path(), page, text),
            [wrong_names[0], wrong_names[1], "docs/x-trace.md: no test is named in `| two | none yet |`"]
        );
        // Elsewhere tables may speak of other things.
        assert_eq!(problems(dir.path(), Path::new("docs/guide.md"), text).len(), 2);
    }

    #[test]
    fn tests_to_run_are_known_by_their_path() {
        let sources = [(PathBuf::from("crates/a/src/wire/frame.rs"), SOURCE.to_owned())];
        let text = "| run | `cargo nextest run -p a frame::tests::plain` (`frame::gone`) |\n\
                    cargo nextest run wire::frame::of_many frame::gone other::plain some_word\n`frame::away`\n";
        assert_eq!(
            not_to_run(Path::new("x.md"), text, &sources),
            ["x.md: no test is called frame::gone", "x.md: no test is called other::plain"]
        );
    }

    #[test]
    fn the_pages_of_this_project_name_tests_that_exist() {
        let pages: Vec<_> = std::fs::read_dir(crate::command::root().join("docs/src"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with("-trace.md"))
            .collect();
        assert!(pages.contains(&"multihoming-trace.md".to_owned()), "{pages:?}");
        for page in pages {
            let file = Path::new("docs/src").join(page);
            let text = std::fs::read_to_string(crate::command::root().join(&file)).unwrap();
            assert!(!named_tests(&text).is_empty(), "{}", file.display());
            assert_eq!(problems(crate::command::root(), &file, &text), [] as [String; 0]);
        }
    }
}
