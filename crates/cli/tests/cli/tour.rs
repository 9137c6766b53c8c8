//! The README's tour, run as printed: `$` lines are commands, what follows is what they must print. `[..]` stands for
//! anything on one line.

use std::{fs, process::Command};

use credence_testing::{Shell, binary, project_root};

struct Step {
    command: String,
    expected: Vec<String>,
}

fn steps(markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in markdown.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            line if inside => match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
                (Some(command), ..) => steps.push(Step { command: command.to_owned(), expected: Vec::new() }),
                (None, Some(more), Some(step)) if step.expected.is_empty() && step.command.ends_with('\\') => {
                    step.command += "\n";
                    step.command += more;
                }
                (None, _, Some(step)) => step.expected.push(line.to_owned()),
                (None, _, None) => {}
            },
            _ => {}
        }
    }
    steps
}

fn matches(expected: &str, actual: &str) -> bool {
    let mut rest = actual;
    let mut parts = expected.split("[..]");
    let first = parts.next().unwrap_or_default();
    let Some(tail) = rest.strip_prefix(first) else { return false };
    rest = tail;
    let mut last_was_open = false;
    for part in parts {
        last_was_open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || last_was_open
}

/// The service that the tour starts, ended also where the tour is.
struct Service(std::path::PathBuf);

impl Drop for Service {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(&self.0) {
            let end = format!("kill {} 2>/dev/null", pid.trim());
            let _ = Command::new("sh").args(["-c", &end]).status();
        }
    }
}

#[test]
fn the_readme_tour_runs_as_printed() {
    let steps = steps(&fs::read_to_string(project_root().join("README.md")).unwrap());
    assert!(steps.len() >= 8, "{} steps found", steps.len());
    let shell = Shell::new();
    let _service = Service(shell.path("serve.pid"));
    let folder = std::path::Path::new(binary()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    for Step { command, expected } in steps {
        let ran = Command::new("sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(shell.folder.path())
            .env("PATH", &path)
            .env("NO_COLOR", "1")
            .env_remove("CREDENCE_DATA")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&ran.stdout);
        let actual: Vec<&str> = stdout.lines().collect();
        let same =
            actual.len() == expected.len() && expected.iter().zip(&actual).all(|(e, a)| matches(e, a.trim_end()));
        assert!(same, "$ {command}\nexpected:\n{}\nactual:\n{stdout}", expected.join("\n"));
    }
}

#[test]
fn wildcards_match_within_a_line_only_what_they_should() {
    assert!(matches("a[..]c", "abc") && matches("[..]", "") && matches("x [..]", "x y") && matches("plain", "plain"));
    assert!(!matches("a[..]c", "abd") && !matches("plain", "plainer") && !matches("x[..]y", "xz"));
}
