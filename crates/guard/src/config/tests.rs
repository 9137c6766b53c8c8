use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::Duration,
};

use super::{
    check::{Seen, warnings},
    effective::{Flags, Origin},
    *,
};

fn parse(text: &str) -> Result<GuardConfig, String> {
    GuardConfig::parse(Path::new("/x/guard.toml"), text).map_err(|e| e.to_string())
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn write(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_text_without_quotes_is_named() {
    for text in ["mode = flag\n", "mode = enforce\n", "flags = true-ish\n"] {
        let told = GuardConfig::parse(Path::new("guard.toml"), text).unwrap_err().to_string();
        assert!(told.starts_with("guard.toml, line 1: ") && told.contains("quotes"), "{text}: {told}");
    }
}

#[test]
fn an_empty_file_sets_nothing() {
    let config = parse("").unwrap();
    assert_eq!(GuardConfig { path: None, ..config }, GuardConfig::default());
}

#[test]
fn what_the_documentation_shows_is_valid_and_complete() {
    let page = fs::read_to_string(credence_testing::project_root().join("docs/guard.md")).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let config = parse(example).unwrap();
    let Layer { mode, block_rate, content_injection, canaries, flags, enforce_after } = &config.all;
    let all = [
        mode.is_some(),
        block_rate.is_some(),
        content_injection.is_some(),
        canaries.is_some(),
        flags.is_some(),
        enforce_after.is_some(),
    ];
    assert!(all.iter().all(|set| *set), "every setting is in the example: {config:?}");
    assert!(config.alerts.as_ref().is_some_and(|alerts| alerts.webhook.is_some() && alerts.command.is_some()));
    assert!(config.metrics.is_some() && config.otlp_endpoint.is_some());
    assert!(config.servers.iter().any(|section| !section.tools.is_empty()));
    assert_eq!(warnings(&config, &Seen::new()), [], "it has no rule without effect");
}

#[test]
fn errors_name_file_line_and_the_nearest_key() {
    for (text, expected) in [
        ("mode = \"flag\"\n\nmodus = 1\n", "/x/guard.toml, line 3: there is no setting 'modus': did you mean 'mode'?"),
        (
            "[server.a]\nblock_rat = 0.1",
            "line 2: there is no setting 'block_rat' in [server.\"a\"]: did you mean 'block_rate'?",
        ),
        (
            "[server.a.tool.b]\nmoed = \"flag\"",
            "line 2: there is no setting 'moed' in the tool \"b\": did you mean 'mode'?",
        ),
        ("[quarantine]\nday = 3", "line 2: there is no setting 'day' in [quarantine]: did you mean 'days'?"),
        ("mode = \"enforced\"", "line 1: mode: 'enforced' is none of observe, flag, enforce (did you mean 'enforce'?)"),
        ("mode = 3", "a text in quotes is needed"),
        ("mode = \"flag", "line 1:"),
        ("mode = \"flag\"\nmode = \"flag\"", "line 2:"),
        ("enforce_after = \"7 days\"", "'7 days' is not a time: write a whole number and s, m, h or d, such as \"7d\""),
        ("enforce_after = -1", "a whole number from 1 to"),
        ("enforce_after = \"-1d\"", "is not a time"),
        ("enforce_after = 0", "a whole number from 1 to"),
        ("enforce_after = 1.5", "a time such as \"7d\""),
        ("enforce_after = \"99999999999999999999d\"", "is not a time"),
        ("enforce_after = \"400d\"", "more than 366 days"),
        ("block_rate = 0", "a number above 0 and up to 1"),
        ("block_rate = nan", "a number above 0"),
        ("canaries = 2", "a number from 0 to 1"),
        ("content_injection = \"yes\"", "true or false"),
        ("[server.\"[ab]\"]\nmode = \"flag\"", "line 1: the pattern of servers '[ab]': '[' is not allowed"),
        ("[server.\"\"]\nmode = \"flag\"", "a pattern has 1 to 256 bytes"),
        ("server = 1", "it is a table"),
        ("[server]\nmode = \"flag\"", "settings of all servers stand at the top"),
        ("[alerts]\non = [\"block\"]", "nobody would be told"),
        ("[alerts]\non = [\"blocks\"]\ncommand = [\"x\"]", "a list of some of block, change, lock_out, tampering"),
        ("[alerts]\ncommand = \"notify me\"", "no shell reads it"),
        ("[alerts]\ncommand = [\"./notify\"]", "depends on the working directory"),
        ("[alerts]\ncommand = []", "a list of a program"),
        ("[alerts.webhook]\nurl = \"https://u:p@x.example/\"", "holds no password"),
        ("[alerts.webhook]\nurl = \"https://x.example/?token=1\"", "holds no password, query"),
        ("[alerts.webhook]\nurl = \"ftp://x.example/\"", "an http or https URL"),
        ("[alerts.webhook]\nurl = \"https://x.example/\"\nheader = \"Authorization\"", "header needs env"),
        ("[alerts.webhook]\nurl = \"https://x.example/\"\nenv = \"T\"", "which header is it for"),
        ("[metrics]\nfile = \"/m.prom\"", "must hold {server}"),
        ("[metrics]\nfile = \"m/{server}.prom\"", "a whole path"),
        ("[metrics]\nfile = \"/{server}\"\nsocket = \"/{server}\"", "not both"),
        ("[telemetry]\notlp = \"x\"", "known are otlp_endpoint"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn later_sections_win_tools_before_servers_and_flags_before_all() {
    let config = parse(
        "mode = \"observe\"\nflags = \"log\"\n[server.\"fi*\"]\nmode = \"flag\"\n[server.\"fi*\".tool.\"write_*\"]\nmode = \"enforce\"\nenforce_after = 500\n\
         [server.files]\nmode = \"observe\"\nblock_rate = 0.5\n[server.\"*s\".tool.\"*\"]\nenforce_after = \"2h\"\n",
    )
    .unwrap();
    let none = Flags::default();
    let server = config.effective("files", None, &none);
    assert_eq!(server.mode.value, GuardMode::Observe, "the later of two sections that fit");
    assert_eq!(server.mode.origin, Origin::File("[server.\"files\"]".to_owned(), 9));
    assert_eq!((server.flags.value, server.flags.origin), (FlagAction::Log, Origin::File(String::new(), 2)));
    let tool = config.effective("files", Some("write_file"), &none);
    assert_eq!(tool.mode.value, GuardMode::Enforce, "a tool's section goes before a server's that comes later");
    assert_eq!(tool.enforce_after.value, Some(EnforceAfter::Time(Duration::from_secs(7200))), "later tool section");
    assert_eq!(tool.block_rate.value, Some(0.5));
    assert_eq!(config.effective("git", Some("write_file"), &none).mode.value, GuardMode::Observe);
    assert_eq!(config.effective("git", None, &none).canaries.origin, Origin::Default);
    let flag = Flags { mode: Some(GuardMode::Flag), ..none };
    let flagged = config.effective("files", Some("write_file"), &flag).mode;
    assert_eq!((flagged.value, flagged.origin), (GuardMode::Flag, Origin::Flag("--mode")));
    assert!(config.possible("files", &none).iter().any(|(mode, _)| *mode == GuardMode::Enforce));
    assert!(config.possible("files", &flag).iter().all(|(mode, _)| *mode == GuardMode::Flag));
}

#[test]
fn rules_that_can_never_match_are_told() {
    let config = parse(
        "enforce_after = \"7d\"\n[server.files]\nmode = \"flag\"\n[server.files.tool.read_file]\nflags = \"log\"\n[server.files.tool.\"read_*\"]\nflags = \"silent\"\n\
         [server.\"fil*\"]\nmode = \"observe\"\n[server.gone]\nmode = \"flag\"\n[server.empty]\n[server.files.tool.nope]\nmode = \"flag\"\n",
    )
    .unwrap();
    let seen: Seen = [("files".to_owned(), ["read_file".to_owned()].into()), ("empty".to_owned(), [].into())].into();
    let told: Vec<(usize, String)> = warnings(&config, &seen).into_iter().map(|one| (one.line, one.text)).collect();
    for (line, expected) in [
        (1, "enforce_after has no effect in mode 'flag'"),
        (2, "[server.\"fil*\"] in line 8 fits the same servers, comes later"),
        (4, "\"read_*\" in line 6 fits the same tools, comes later"),
        (10, "[server.\"gone\"] fits no server that a guard has met: empty, files"),
        (12, "[server.\"empty\"] sets nothing"),
        (13, "fits no tool that was called or listed: read_file"),
    ] {
        assert!(told.iter().any(|(at, text)| *at == line && text.contains(expected)), "{line} {expected}: {told:#?}");
    }
    assert_eq!(told.len(), 6, "{told:#?}");
}

#[test]
fn a_file_that_others_can_write_is_not_used() {
    let folder = folder();
    let path = write(folder.path(), "guard.toml", b"mode = \"flag\"\n", 0o600);
    assert!(GuardConfig::load(Some(&path)).unwrap().all.mode.is_some());
    for mode in [0o620, 0o602, 0o666, 0o660] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = GuardConfig::load(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("others can write it") && error.contains("chmod go-w"), "{mode:o}: {error}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    GuardConfig::load(Some(&path)).unwrap();
    for mode in [0o770, 0o707, 0o777] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = GuardConfig::load(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("others can write its folder") && error.contains("chmod go-w"), "{mode:o}: {error}");
    }
}

#[test]
fn a_link_is_as_good_as_what_it_leads_to() {
    let (home, elsewhere) = (folder(), folder());
    let target = write(elsewhere.path(), "mine.toml", b"mode = \"enforce\"\n", 0o600);
    let link = home.path().join("guard.toml");
    symlink(&target, &link).unwrap();
    assert!(GuardConfig::load(Some(&link)).unwrap().all.mode.is_some(), "one's own dotfiles");
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = GuardConfig::load(Some(&link)).unwrap_err().to_string();
    assert!(error.contains("it leads to") && error.contains("others can write its folder"), "{error}");
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(GuardConfig::load(Some(&link)).unwrap_err().to_string().contains("others can write it"));
    fs::remove_file(&target).unwrap();
    assert!(GuardConfig::load(Some(&link)).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn what_belongs_to_another_user_is_not_used() {
    let folder = folder();
    let path = write(folder.path(), "guard.toml", b"mode = \"observe\"\n", 0o600);
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
        return;
    }
    let error = GuardConfig::load(Some(&path)).unwrap_err().to_string();
    assert!(error.contains("belongs to user 12345"), "{error}");
}

#[test]
fn what_is_no_configuration_is_refused_in_words() {
    let folder = folder();
    let load = |path: &Path| GuardConfig::load(Some(path)).unwrap_err().to_string();
    let large = write(folder.path(), "large.toml", &vec![b'#'; 10 * 1024 * 1024], 0o600);
    assert!(load(&large).contains("more than 1 MiB"));
    let bytes = write(folder.path(), "bytes.toml", b"# a\nmode = \"\xff\xfe\"\n", 0o600);
    assert!(load(&bytes).contains("line 2 is not UTF-8"), "{}", load(&bytes));
    assert!(load(folder.path()).contains("it is not a file") || load(folder.path()).contains("others can write"));
    assert!(load(&folder.path().join("missing.toml")).contains("cannot be read"));
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(load(&pipe).contains("it is not a file"), "and it is not waited for");
}

#[test]
fn a_secret_that_others_can_read_is_not_used() {
    let folder = folder();
    let path = write(folder.path(), "token", b"Bearer x\n", 0o600);
    assert_eq!(file::read_secret(&path).unwrap(), "Bearer x");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(file::read_secret(&path).unwrap_err().to_string().contains("chmod 600"));
}

#[test]
fn durations_are_told_in_their_two_largest_units() {
    let words = |seconds| words_of(Duration::from_secs(seconds));
    assert_eq!([words(0), words(59), words(7 * 86_400), words(90_000)], ["0s", "59s", "7d", "1d 1h"]);
}

proptest::proptest! {
    /// Whatever somebody writes, it is read or refused in words; nothing breaks.
    #[test]
    fn no_text_breaks_the_reader(text in "(\\PC|\n){0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_value_breaks_the_reader(key in "(mode|block_rate|server|alerts|enforce_after|metrics)", value in "([-0-9a-z\"\\[\\]{}=., ]{0,30})") {
        let _ = parse(&format!("{key} = {value}"));
    }
}
