//! `docs/tour.md`, run as printed: `$` lines are commands, the lines after them are the expected output. `[..]` stands for
//! anything on one line. And the commands in the README: all of them exist, and those that need nothing else are run.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

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

/// Runs a line as a user would type it, with `credence` on the path. Standard error goes to standard output.
fn in_shell(shell: &Shell, line: &str) -> Output {
    let folder = Path::new(binary()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", &format!("{{ {line}\n}} 2>&1")])
        .current_dir(shell.folder.path())
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env_remove("CREDENCE_DATA")
        .output()
        .unwrap()
}

#[test]
fn the_tour_runs_as_printed() {
    let steps = steps(&fs::read_to_string(project_root().join("docs/tour.md")).unwrap());
    assert!(steps.len() >= 8, "{} steps found", steps.len());
    let shell = Shell::new();
    let _service = Service(shell.path("serve.pid"));
    for Step { command, expected } in steps {
        let ran = in_shell(&shell, &command);
        let stdout = String::from_utf8_lossy(&ran.stdout);
        let actual: Vec<&str> = stdout.lines().collect();
        let same =
            actual.len() == expected.len() && expected.iter().zip(&actual).all(|(e, a)| matches(e, a.trim_end()));
        assert!(same, "$ {command}\nexpected:\n{}\nactual:\n{stdout}", expected.join("\n"));
    }
}

/// Subcommands of the README that need no network, no tool server and no file from elsewhere.
const RUN: [&str; 8] = ["init", "source", "keys", "agent", "signal", "explain", "replay", "audit"];

/// The commands in the README's indented blocks, without their comments.
fn readme_commands() -> Vec<String> {
    let readme = fs::read_to_string(project_root().join("README.md")).unwrap();
    let lines =
        readme.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.starts_with("credence "));
    lines.map(|line| line.split("  #").next().unwrap().trim_end().to_owned()).collect()
}

#[test]
fn commands_in_the_readme_exist() {
    let (shell, commands) = (Shell::new(), readme_commands());
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let words = command.split_whitespace().skip(1).take_while(|word| *word != "--" && *word != ">");
        let (flags, plain): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("--"));
        let mut path = vec![plain[0]];
        let mut help = shell.run(&[plain[0], "--help"]);
        assert_eq!(help.code, Some(0), "{command}: {}", help.stderr);
        let listed =
            |help: &str, word: &str| help.lines().any(|line| line.trim_start().starts_with(&format!("{word} ")));
        if let Some(sub) = plain.get(1).filter(|sub| help.stdout.contains("Commands:") && listed(&help.stdout, sub)) {
            path.push(sub);
            help = shell.run(&[&path[..], &["--help"]].concat());
        }
        // The guard runs without a subcommand too, and its `-- <COMMAND>...` is the server's.
        let needs_one = help.stdout.lines().any(|line| line.starts_with("Usage:") && line.ends_with(" <COMMAND>"));
        assert!(!needs_one, "{command}: names no subcommand of `{}`", path.join(" "));
        for flag in flags {
            let known = help.stdout.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == flag);
            assert!(known, "{command}: `credence {}` has no {flag}", path.join(" "));
        }
    }
}

#[test]
fn commands_in_the_readme_run() {
    let shell = Shell::new();
    let runnable = |command: &String| RUN.iter().any(|sub| command.split_whitespace().nth(1) == Some(sub));
    let commands: Vec<String> = readme_commands().into_iter().filter(runnable).collect();
    for sub in RUN {
        assert!(commands.iter().any(|command| command.contains(sub)), "the README does not show {sub}");
    }
    for command in commands {
        let ran = in_shell(&shell, &command);
        assert!(ran.status.success(), "$ {command}\n{}", String::from_utf8_lossy(&ran.stdout));
    }
}

#[test]
fn wildcards_match_within_a_line_only_what_they_should() {
    assert!(matches("a[..]c", "abc") && matches("[..]", "") && matches("x [..]", "x y") && matches("plain", "plain"));
    assert!(!matches("a[..]c", "abd") && !matches("plain", "plainer") && !matches("x[..]y", "xz"));
}
