//! Checks the claims of the Markdown files. Relative links must resolve, and every `cargo xtask X` or `meridian X` must exist.
//! So must every test that a page names or tells the reader to run ([`trace`]). Samples must equal the package's files,
//! every problem of the agent must be explained ([`problems`]), and the walks through the code must name functions that exist ([`walks`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::CommandFactory;

use crate::command::{cargo, files, root, run, target_dir};
use crate::{problems, trace, walks};

/// The programs whose subcommands are checked.
const PROGRAMS: [&str; 2] = ["cargo xtask", "meridian"];

pub(crate) fn check() -> Result<()> {
    let sources = sources()?;
    let mut problems = problems::problems()?;
    problems.extend(other_samples()?);
    let pages: BTreeSet<String> = files("docs/src/*.md")?.into_iter().collect();
    problems.extend(other_chapters(&std::fs::read_to_string(root().join(SUMMARY))?, &pages));
    let mut mentions: BTreeMap<Mention, PathBuf> = BTreeMap::new();
    for file in files("*.md")?.into_iter().map(PathBuf::from) {
        let text = std::fs::read_to_string(root().join(&file))
            .with_context(|| format!("cannot read {}", file.display()))?;
        problems.extend(broken_links(root(), &file, &text));
        problems.extend(trace::problems(root(), &file, &text));
        problems.extend(walks::problems(root(), &file, &text));
        problems.extend(trace::not_to_run(&file, &text, &sources));
        for mention in find_mentions(&text) {
            mentions.entry(mention).or_insert_with(|| file.clone());
        }
    }
    if mentions.keys().any(|mention| mention.program == "meridian") {
        run(cargo().args(["build", "--quiet", "--package", "meridian"]))?;
    }
    for (mention, file) in &mentions {
        if !exists(mention)? {
            problems.push(format!(
                "{}: `{} {}` does not exist",
                file.display(),
                mention.program,
                mention.words.join(" ")
            ));
        }
    }
    if !problems.is_empty() {
        bail!("the guides are wrong:\n  {}", problems.join("\n  "));
    }
    Ok(())
}

/// Every Rust file of the project.
fn sources() -> Result<Vec<trace::Source>> {
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(root().join(&file));
        text.map(|text| (file.clone(), text)).with_context(|| format!("cannot read {}", file.display()))
    };
    files("*.rs")?.into_iter().map(PathBuf::from).map(read).collect()
}

/// The book's table of contents.
const SUMMARY: &str = "docs/src/SUMMARY.md";

/// Pages that the book does not have, or has twice: mdBook leaves out a page that its table of contents does not name, and all links to it are
/// dead. That the named pages exist is checked like any link.
fn other_chapters(summary: &str, pages: &BTreeSet<String>) -> Vec<String> {
    let chapters: Vec<String> = links(summary).into_iter().map(|link| format!("docs/src/{link}")).collect();
    let count = |page: &String| chapters.iter().filter(|chapter| *chapter == page).count();
    let pages = pages.iter().filter(|page| *page != SUMMARY);
    pages
        .filter_map(|page| match count(page) {
            0 => Some(format!("{page}: the table of contents, {SUMMARY}, does not have it")),
            1 => None,
            count => Some(format!("{page}: the table of contents, {SUMMARY}, has it {count} times")),
        })
        .collect()
}

/// Pages that show a file of the package, with that file: they show all of it, as it is.
const SAMPLES: [(&str, &str); 1] = [("docs/src/bgp.md", "packaging/examples/frr.conf")];

/// Samples that are not those of the package.
fn other_samples() -> Result<Vec<String>> {
    let read = |path: &str| {
        std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
    };
    let mut problems = Vec::new();
    for (page, file) in SAMPLES {
        if !shows(&read(page)?, &read(file)?) {
            problems.push(format!("{page}: no code block is {file}"));
        }
    }
    Ok(problems)
}

/// Whether one of a page's code blocks equals this string.
fn shows(page: &str, text: &str) -> bool {
    page.contains(&format!("```text\n{text}```\n"))
}

/// A subcommand named in a guide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mention {
    program: &'static str,
    words: Vec<String>,
}

/// Whether the command line parser knows the command. For the product, this runs `--help`, which fails for an unknown command. Further
/// words may be arguments, which `--help` ignores.
fn exists(mention: &Mention) -> Result<bool> {
    if mention.program == "cargo xtask" {
        let tasks = crate::Cli::command();
        return Ok(tasks.find_subcommand(&mention.words[0]).is_some());
    }
    let mut meridian = Command::new(target_dir().join("debug/meridian"));
    meridian
        .args(&mention.words)
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(meridian.status().context("cannot run the meridian binary")?.success())
}

/// Every subcommand in code spans and code blocks. Prose is skipped.
fn find_mentions(text: &str) -> BTreeSet<Mention> {
    let mut found = BTreeSet::new();
    for code in code_pieces(text) {
        for program in PROGRAMS {
            for (at, _) in code.match_indices(program) {
                let before = code[..at].chars().next_back();
                let rest = &code[at + program.len()..];
                if before.is_some_and(|c| c.is_alphanumeric() || "-_/.\"".contains(c))
                    || !rest.starts_with(' ')
                {
                    continue;
                }
                let words: Vec<String> =
                    rest[1..].split(' ').take_while(|word| is_subcommand(word)).map(str::to_owned).collect();
                if !words.is_empty() {
                    found.insert(Mention { program, words });
                }
            }
        }
    }
    found
}

fn is_subcommand(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// The lines of fenced blocks and the spans between back-quotes.
fn code_pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            pieces.push(line.split(" #").next().unwrap_or(line));
        } else {
            pieces.extend(line.split('`').skip(1).step_by(2));
        }
    }
    pieces
}

/// Relative links of one file that lead nowhere, a wrong `#heading` included.
fn broken_links(root: &Path, file: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for link in links(text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, heading) =
            link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
        let target = if path.is_empty() {
            file.to_path_buf()
        } else {
            file.parent().unwrap_or(Path::new("")).join(path)
        };
        let full = root.join(&target);
        if !full.exists() {
            problems.push(format!("{}: link to {link}, which is not there", file.display()));
            continue;
        }
        let Some(heading) = heading.filter(|_| target.extension().is_some_and(|e| e == "md")) else {
            continue;
        };
        let known = std::fs::read_to_string(&full).is_ok_and(|text| anchors(&text).contains(heading));
        if !known {
            problems.push(format!("{}: link to {link}, but no such heading", file.display()));
        }
    }
    problems
}

/// The targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for prose in line.split('`').step_by(2) {
            for (at, _) in prose.match_indices("](") {
                if let Some((target, _)) = prose[at + 2..].split_once(')') {
                    found.push(target.split(' ').next().unwrap_or(target));
                }
            }
        }
    }
    found
}

/// The anchors of headings, as GitHub and mdBook generate them.
fn anchors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    '-' | '_' => Some(c),
                    c if c.is_alphanumeric() => Some(c),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_book_once() {
        let summary = "# Summary\n\n[A](a.md)\n\n- [B](b.md)\n  - [B again](b.md)\n";
        let pages = ["docs/src/SUMMARY.md", "docs/src/a.md", "docs/src/b.md", "docs/src/c.md"]
            .map(str::to_owned)
            .into();
        let wrong = other_chapters(summary, &pages);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("docs/src/b.md: ") && wrong[0].ends_with("2 times"), "{wrong:?}");
        assert!(wrong[1].starts_with("docs/src/c.md: "), "{wrong:?}");
    }

    fn mention(program: &'static str, words: &[&str]) -> Mention {
        Mention { program, words: words.iter().map(|w| w.to_string()).collect() }
    }

    #[test]
    fn commands_are_found_in_code_only() {
        let text = "Run `cargo xtask test`, and meridian nonsense is prose.\n```sh\ntarget/debug/meridian skipped\n\
                    $ meridian ovsdb dump --remote unix:x # meridian comment\n```\n`meridian` alone.";
        let found = find_mentions(text);
        let wanted = [mention("cargo xtask", &["test"]), mention("meridian", &["ovsdb", "dump"])];
        assert_eq!(found, wanted.into_iter().collect());
    }

    #[test]
    fn placeholders_and_flags_end_a_command() {
        let found = find_mentions("`cargo xtask fuzz TARGET` `cargo xtask X` `meridian --help`");
        assert_eq!(found, [mention("cargo xtask", &["fuzz"])].into_iter().collect());
    }

    #[test]
    fn samples_are_those_of_the_package() {
        assert!(shows("See:\n```text\na\nb\n```\n", "a\nb\n"));
        assert!(!shows("See:\n```text\na\nb\nc\n```\n", "a\nb\n"));
        assert_eq!(other_samples().unwrap(), [] as [String; 0]);
    }

    #[test]
    fn the_test_that_contributors_are_shown_exists() {
        let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
        assert!(text.contains("cargo nextest run"), "{text}");
        let file = Path::new("CONTRIBUTING.md");
        assert_eq!(trace::not_to_run(file, &text, &sources().unwrap()), [] as [String; 0]);
    }

    #[test]
    fn every_task_is_known_to_itself() {
        assert!(exists(&mention("cargo xtask", &["test"])).unwrap());
        assert!(!exists(&mention("cargo xtask", &["frobnicate"])).unwrap());
    }

    #[test]
    fn broken_links_are_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("docs")).unwrap();
        std::fs::write(dir.path().join("README.md"), "# Top\n## One: a `b`, c\n").unwrap();
        let text = "[a](../README.md) [b](../README.md#one-a-b-c) [c](../README.md#two) [`d`](gone.md) \
                    [e](https://example.org/x) `[f](no)` [g](#here)\n# Here\n";
        std::fs::write(dir.path().join("docs/x.md"), text).unwrap();
        let problems = broken_links(dir.path(), Path::new("docs/x.md"), text);
        assert_eq!(
            problems,
            [
                "docs/x.md: link to ../README.md#two, but no such heading",
                "docs/x.md: link to gone.md, which is not there",
            ]
        );
    }
}
