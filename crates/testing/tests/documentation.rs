//! The documentation against the tree: links lead somewhere, the README stays one screen for each reader, and
//! the architecture pages name only files and functions that exist.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use credence_testing::project_root;

/// Lines of the README: what it is and what to type; everything else is a link.
const MOST_README_LINES: usize = 150;
/// Lines of `docs/architecture.md`.
const MOST_ARCHITECTURE_LINES: usize = 250;

/// Markdown files, by their path from the root.
fn pages() -> Vec<PathBuf> {
    let root = project_root();
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into();
    for folder in ["docs", "docs/adr"] {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().file_name());
        let markdown = files.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "md"));
        pages.extend(markdown.map(|name| Path::new(folder).join(name)));
    }
    pages
}

fn text_of(page: impl AsRef<Path>) -> String {
    fs::read_to_string(project_root().join(page)).unwrap()
}

/// The parts of `text` between backticks, outside of code blocks.
fn in_backticks(text: &str) -> Vec<String> {
    let mut inside = false;
    let prose: Vec<&str> = text
        .lines()
        .filter(|line| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
        .collect();
    prose.join("\n").split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The anchor of a heading: lower case, without punctuation, dashes for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let root = project_root();
    let mut seen = 0;
    for page in pages() {
        let text = text_of(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(root.join(&target).exists(), "{}: a link to {link}, which is not there", page.display());
            if !section.is_empty() {
                let headings = text_of(&target);
                let mut headings = headings.lines().filter(|line| line.starts_with('#'));
                let there = headings.any(|line| anchor(line.trim_start_matches('#').trim()) == section);
                assert!(there, "{}: {link} names a section that is not there", page.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} links");
}

#[test]
fn the_readme_stays_short() {
    let readme = text_of("README.md");
    assert!(readme.lines().count() <= MOST_README_LINES, "{} lines", readme.lines().count());
    assert!(!readme.contains("[..]"), "wildcards are for docs/tour.md");
    for command in ["scripts/demo", "scripts/test"] {
        assert!(readme.contains(command), "the README does not name {command}");
    }
}

/// All Rust sources below `crates/`, with their text.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    collect(&project_root().join("crates"), &mut found);
    found
}

/// Whether `text` holds `word` as a whole word after one of these keywords.
fn defines(text: &str, keywords: &[&str], word: &str) -> bool {
    // Most files do not have the word at all.
    text.contains(word)
        && keywords.iter().any(|keyword| {
            let wanted = format!("{keyword} {word}");
            let mut rests = text.match_indices(&wanted).map(|(at, found)| &text[at + found.len()..]);
            rests.any(|rest| rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_'))
        })
}

const ITEMS: [&str; 6] = ["fn", "struct", "enum", "trait", "const", "type"];

/// Whether a file is the module `name`, or is in it: `name.rs`, a folder `name`, or the crate `name`.
fn is_of_module(path: &Path, name: &str) -> bool {
    path.file_stem().is_some_and(|stem| stem == name) || path.iter().any(|part| part == name)
}

/// Whether `text` has methods of the type `name`, or is where it is declared.
fn is_of_type(text: &str, name: &str) -> bool {
    defines(text, &["impl", "for", "struct", "enum", "trait", "impl<'a>", "impl<T>"], name)
}

/// Whether `outer::inner` exists: an item in a module, a method of a type, or a module in a crate.
fn exists(sources: &[(PathBuf, String)], outer: &str, inner: &str) -> bool {
    let mut candidates =
        sources.iter().filter(|(path, text)| is_of_module(path, inner) || defines(text, &ITEMS, inner));
    candidates.any(|(path, text)| match outer.starts_with(char::is_uppercase) {
        true => is_of_type(text, outer),
        false => is_of_module(path, outer),
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
}

/// A path of the tree, from the root or from `crates/`; not a route of the service, which starts with a slash.
fn as_path(text: &str) -> Option<[PathBuf; 2]> {
    let looks = text.contains('/') && !text.contains(' ') && !text.starts_with('/') && !text.contains("//");
    let root = project_root();
    looks.then(|| [root.join(text), root.join("crates").join(text)])
}

#[test]
fn the_architecture_pages_name_what_exists() {
    let page = text_of("docs/architecture.md");
    assert!(page.lines().count() <= MOST_ARCHITECTURE_LINES, "{} lines", page.lines().count());
    let page = page + &text_of("docs/architecture-outside.md");
    let sources = sources();
    let mut wrong = Vec::new();
    let (mut paths, mut names) = (0, 0);
    for word in in_backticks(&page) {
        if let Some(places) = as_path(&word).filter(|_| word != "uts/1") {
            paths += 1;
            if !places.iter().any(|place| place.exists()) {
                wrong.push(format!("no file {word}"));
            }
        } else if word.contains("::") && is_name(&word) {
            names += 1;
            let parts: Vec<&str> = word.split("::").collect();
            if !parts.windows(2).all(|pair| exists(&sources, pair[0], pair[1])) {
                wrong.push(format!("no item {word}"));
            }
        }
    }
    assert!(paths > 80 && names > 50, "{paths} paths and {names} names were found: does the page still use backticks?");
    assert!(wrong.is_empty(), "the architecture pages name what is not there:\n{}", wrong.join("\n"));
}

/// In the tables of the walk a row is `| functions | file | what |`: each function is in that file.
#[test]
fn functions_are_in_the_file_beside_them() {
    let page = text_of("docs/architecture.md");
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (functions, file) = (in_backticks(cells[1]), cells[2].trim_matches('`'));
        if !file.ends_with(".rs") || !functions.iter().all(|name| name.contains("::")) {
            continue;
        }
        rows += 1;
        let text = text_of(Path::new("crates").join(file));
        for function in functions {
            let name = function.rsplit("::").next().unwrap();
            assert!(defines(&text, &["fn"], name), "{function} is not in {file}");
        }
    }
    assert!(rows > 40, "{rows} rows");
}

#[test]
fn what_is_not_there_is_found_out() {
    let sources =
        vec![(PathBuf::from("crates/pipeline/src/score.rs"), "impl Scorer {\n fn wake(&self) {}\n}".to_owned())];
    assert!(
        exists(&sources, "score", "wake")
            && exists(&sources, "Scorer", "wake")
            && exists(&sources, "pipeline", "score")
    );
    assert!(
        !exists(&sources, "score", "wak") && !exists(&sources, "Other", "wake") && !exists(&sources, "query", "wake")
    );
    assert_eq!(in_backticks("a `b::c` d\n```\n`x`\n```\n`e/f.rs`"), ["b::c", "e/f.rs"]);
}
