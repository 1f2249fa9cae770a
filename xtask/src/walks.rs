//! Checks the walks through the code in ARCHITECTURE.md: each row of a table with the columns `step`, `file` and `function` must name a
//! file that exists and has the function.

use std::path::Path;

/// The first line of a walk's table.
const HEAD: &str = "| step | file | function |";

/// A hop of a walk.
#[derive(Debug, PartialEq, Eq)]
struct Hop<'t> {
    file: &'t str,
    function: &'t str,
}

/// The errors in the walks of one page.
pub(crate) fn problems(root: &Path, page: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows(text) {
        let page = page.display();
        let Some(Hop { file, function }) = hop(row) else {
            problems.push(format!("{page}: `{row}` does not name a file and a function"));
            continue;
        };
        match std::fs::read_to_string(root.join(file)) {
            Err(_) => problems.push(format!("{page}: {file} does not exist")),
            Ok(source) if !has_function(&source, function) => {
                problems.push(format!("{page}: {file} has no function {function}"));
            }
            Ok(_) => {}
        }
    }
    problems
}

/// The rows of all walks.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let is_row = inside && line.starts_with('|') && !line.starts_with("|---");
        inside = *line == HEAD || inside && line.starts_with('|');
        is_row
    })
}

/// The last two cells of a row, both in code.
fn hop(row: &str) -> Option<Hop<'_>> {
    let mut cells = row.trim_end_matches('|').rsplit('|').map(|cell| {
        let cell = cell.trim();
        cell.strip_prefix('`')?.strip_suffix('`')
    });
    let (function, file) = (cells.next()??, cells.next()??);
    Some(Hop { file, function })
}

/// Whether a source outside of its tests has a function of this name.
fn has_function(source: &str, name: &str) -> bool {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    source.match_indices(&format!("fn {name}")).any(|(at, found)| {
        let rest = &source[at + found.len()..];
        rest.starts_with(['(', '<'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;

    #[test]
    fn a_hop_that_leads_nowhere_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("a.rs"),
            "fn read() {}\nfn put<T>() {}\n#[cfg(test)]\nmod tests {\n fn only() {}\n}\n",
        )
        .unwrap();
        let text = "| step | file | function |\n|---|---|---|\n| reads | `a.rs` | `read` |\n| puts | `a.rs` | `put` |\n\
                    | part of a name | `a.rs` | `rea` |\n| a test | `a.rs` | `only` |\n| x | `b.rs` | `read` |\n| y | `a.rs` | read |\n\n\
                    | other | table |\n|---|---|\n| z | `c.rs` |\n";
        let problems = problems(dir.path(), Path::new("P.md"), text);
        assert_eq!(
            problems,
            [
                "P.md: a.rs has no function rea",
                "P.md: a.rs has no function only",
                "P.md: b.rs does not exist",
                "P.md: `| y | `a.rs` | read |` does not name a file and a function",
            ]
        );
    }

    #[test]
    fn the_three_walks_are_true() {
        let page = Path::new("ARCHITECTURE.md");
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        assert_eq!(text.matches(HEAD).count(), 3);
        assert!(rows(&text).count() >= 40);
        assert_eq!(problems(root(), page, &text), [] as [String; 0]);
    }
}
