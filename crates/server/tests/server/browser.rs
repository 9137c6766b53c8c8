//! The dashboard in a real browser: every page, at two widths, in two colours, with and without scripts, and what people do
//! there. The program is `tests/browser/walk.mjs`; here are the services that it looks at.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use credence_testing::{Service, Shell, project_root, signal, within};
use serde_json::Value;

/// After so long it hangs; it takes a minute and a half on two cores.
const DEADLINE: Duration = Duration::from_secs(900);

/// How long it may take to end where it is told to.
const GRACE: Duration = Duration::from_secs(20);

/// The walk asks for more in a second than one reader does: on a quick machine it would be turned away.
const UNHURRIED: [(&str, &str); 2] = [("requests_per_second", "0"), ("new_answers_per_second", "0")];

/// Whether `scripts/browser` was run; if not, that is said. `scripts/test` runs it.
fn installed() -> bool {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    if cache.is_some_and(|cache| cache.join("credence/browser/stamp").exists()) {
        return true;
    }
    assert!(std::env::var_os("BROWSER_TESTS").is_none(), "the browser's driver is missing: run scripts/browser");
    eprintln!("SKIPPED: the browser's driver is not installed (scripts/browser installs it)");
    false
}

/// A demo, ended with the test.
struct Demo {
    child: Child,
    said: Value,
}

impl Demo {
    fn start(shell: &Shell) -> Self {
        let log = File::create(shell.path("log.txt")).unwrap();
        let mut command = shell.command(&["serve", "--demo", "--json", "--listen", "127.0.0.1:0"]);
        command.envs(UNHURRIED.map(|(name, value)| (format!("CREDENCE_{}", name.to_uppercase()), value)));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{line}{}", fs::read_to_string(shell.path("log.txt")).unwrap()));
        Self { child, said }
    }

    fn text(&self, name: &str) -> &str {
        self.said[name].as_str().unwrap_or_else(|| panic!("no {name}: {}", self.said))
    }
}

impl Drop for Demo {
    /// In order, so that its folder goes.
    fn drop(&mut self) {
        if !signal("TERM", self.child.id()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Whether `command` succeeded in time. What it prints goes to a file: nobody has to read while it writes.
fn succeeds(mut command: Command, printed: File) -> bool {
    let also = printed.try_clone().unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(printed).stderr(also).spawn().unwrap();
    if let Some(status) = within(DEADLINE, || child.try_wait().unwrap()) {
        return status.success();
    }
    // Told to end, the program closes its browser.
    signal("TERM", child.id());
    if within(GRACE, || child.try_wait().unwrap()).is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    false
}

#[test]
fn the_dashboard_works_in_a_browser() -> Result<(), String> {
    if !installed() {
        return Ok(());
    }
    let shell = Shell::new();
    let demo = Demo::start(&shell);
    let unhurried = UNHURRIED.map(|(name, value)| format!("{name}={value}"));
    let authority = Service::fresh(&unhurried.each_ref().map(String::as_str));
    // Where somebody wants to have the pictures: those in the README are made so.
    let pictures = std::env::var_os("BROWSER_PICTURES").map_or_else(|| shell.path("pictures"), PathBuf::from);
    let program = fs::canonicalize(project_root().join("crates/server/tests/browser/walk.mjs")).unwrap();
    let mut command = Command::new("node");
    command
        .arg(program)
        .arg(&pictures)
        .env("DEMO_URL", demo.text("url"))
        .env("DEMO_TOKEN", demo.text("token"))
        .env("AUTHORITY_URL", &authority.url)
        .env("AUTHORITY_TOKEN", authority.token.trim());
    let printed = shell.path("walk.txt");
    let success = succeeds(command, File::create(&printed).unwrap());
    let said = fs::read_to_string(printed).unwrap();
    let wrong: Vec<&str> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
    let logs = format!("{}{}", fs::read_to_string(shell.path("log.txt")).unwrap(), authority.log());
    let shown: Vec<&str> = logs.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).collect();
    // Returned, not panicked: no backtrace is to stand after what went wrong.
    if !success {
        let last = said.lines().last().unwrap_or_default();
        eprintln!("{}\n{}", shown.join("\n"), wrong.join("\n"));
        return Err(format!("the walk failed or did not end in {DEADLINE:?}, the last line was {last:?}"));
    }
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() > 300, "too little was looked at:\n{said}");
    for name in ["agents", "agent"] {
        assert!(fs::metadata(pictures.join(format!("{name}.png"))).unwrap().len() > 10_000);
    }
    Ok(())
}
