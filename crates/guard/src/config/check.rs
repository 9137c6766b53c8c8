//! What `credence guard config check` warns about: rules of `guard.toml` that can never do anything or do what nobody wants, and names
//! of variables, programs and folders that are not there.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    AlertConfig, At, EnforceAfter, GuardConfig, Layer, MetricsConfig, SecretFrom, ToolSection, file::read_secret,
};
use crate::settings::GuardMode;

/// The block rate from which on it is told that this is much.
const HIGH_BLOCK_RATE: f64 = 0.2;

/// What guards have met so far: labels, and the tools of each.
pub type Seen = std::collections::BTreeMap<String, std::collections::BTreeSet<String>>;

/// Something that can be read and does not do what it says.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// The line of the file.
    pub line: usize,
    /// What, and why.
    pub text: String,
}

/// Everything in `config` that can never do anything. `seen` is what guards have met.
pub fn warnings(config: &GuardConfig, seen: &Seen) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |line: usize, text: String| found.push(Warning { line, text });
    wait_without_enforcing(config, &mut warn);
    for layer in layers(config) {
        odd_values(layer, &mut warn);
    }
    if config.reviews.send && !config.quarantine.enabled {
        let text = "send in [reviews] has no effect: nothing waits for review where [quarantine] is not enabled";
        warn(config.lines.of("reviews.send"), text.to_owned());
    }
    for (n, section) in config.servers.iter().enumerate() {
        let name = format!("[server.\"{}\"]", section.servers);
        if section.layer == Layer::default() && section.tools.is_empty() {
            warn(section.line, format!("{name} sets nothing"));
        }
        let later = &config.servers[n + 1..];
        if let Some(by) =
            later.iter().find(|by| by.servers.covers(&section.servers) && replaces(&by.layer, &section.layer))
        {
            let text = format!(
                "{name} has no effect: [server.\"{}\"] in line {} fits the same servers, comes later and sets the same",
                by.servers, by.line
            );
            warn(section.line, text);
        }
        let labels: Vec<&String> = seen.keys().filter(|label| section.servers.matches(label)).collect();
        if labels.is_empty() && !seen.is_empty() {
            let known: Vec<&str> = seen.keys().map(String::as_str).collect();
            warn(section.line, format!("{name} fits no server that a guard has met: {}", known.join(", ")));
        }
        for (t, tool) in section.tools.iter().enumerate() {
            let name = format!("[server.\"{}\".tool.\"{}\"]", section.servers, tool.tools);
            if tool.layer == Layer::default() {
                warn(tool.line, format!("{name} sets nothing"));
            }
            let here = section.tools[t + 1..].iter();
            let elsewhere = later.iter().filter(|by| by.servers.covers(&section.servers)).flat_map(|by| &by.tools);
            let shadows = |by: &&ToolSection| by.tools.covers(&tool.tools) && replaces(&by.layer, &tool.layer);
            if let Some(by) = here.chain(elsewhere).find(shadows) {
                let text = format!(
                    "{name} has no effect: \"{}\" in line {} fits the same tools, comes later and sets the same",
                    by.tools, by.line
                );
                warn(tool.line, text);
            }
            let tools: Vec<&str> = labels.iter().flat_map(|label| &seen[*label]).map(String::as_str).collect();
            if !tools.is_empty() && !tools.iter().any(|one| tool.tools.matches(one)) {
                warn(tool.line, format!("{name} fits no tool that was called or listed: {}", some(&tools)));
            }
        }
    }
    if let Some(alerts) = &config.alerts
        && let Some(webhook) = &alerts.webhook
        && webhook.url.scheme() == "http"
        && !is_loopback(&webhook.url)
    {
        let line = config.lines.of("alerts.webhook.url");
        warn(line, format!("alerts go to {} without encryption: use https", webhook.url));
    }
    found.sort_by_key(|warning| warning.line);
    found
}

/// Variables, files, programs and folders that the file names and that are not there. A guard starts all the same, and does without.
pub fn missing(config: &GuardConfig) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |key: &str, text: String| found.push(Warning { line: config.lines.of(key), text });
    if let Some(AlertConfig { webhook, command, .. }) = &config.alerts {
        match webhook.as_ref().and_then(|webhook| webhook.header.as_ref()).map(|header| &header.from) {
            Some(SecretFrom::Environment(variable)) if env::var_os(variable).is_none() => warn(
                "alerts.webhook.env",
                format!(
                    "the environment here has no {variable}: a guard that a client starts without it sends nothing to the webhook; \
                     file = \"…\" does not depend on the client"
                ),
            ),
            Some(SecretFrom::File(path)) => {
                if let Err(error) = read_secret(path) {
                    warn("alerts.webhook.file", format!("{error}; guards send nothing to the webhook"));
                }
            }
            _ => {}
        }
        if let Some(program) = command.as_ref().and_then(|command| command.first()).filter(|one| !is_program(one)) {
            let place = if program.contains('/') { "is not an executable file" } else { "is not in PATH" };
            warn("alerts.command", format!("the program {program} {place}: no alert is delivered to it"));
        }
    }
    if let Some(metrics) = &config.metrics {
        let (key, path) = match metrics {
            MetricsConfig::File(path) => ("metrics.file", path),
            MetricsConfig::Socket(path) => ("metrics.socket", path),
        };
        let folder = Path::new(path).parent().filter(|folder| !folder.to_string_lossy().contains('{'));
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            warn(key, format!("there is no folder {}: no metrics are written", folder.display()));
        }
    }
    found.sort_by_key(|warning| warning.line);
    found
}

/// Whether a command's first word can be run: a whole path, or a name in `PATH`.
fn is_program(program: &str) -> bool {
    let executable =
        |path: &Path| fs::metadata(path).is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return executable(Path::new(program));
    }
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    folders.iter().any(|folder| executable(&folder.join(program)))
}

fn layers(config: &GuardConfig) -> impl Iterator<Item = &Layer> {
    let tools = config.servers.iter().flat_map(|section| &section.tools).map(|tool| &tool.layer);
    std::iter::once(&config.all).chain(config.servers.iter().map(|section| &section.layer)).chain(tools)
}

/// Values that are allowed, and that few people mean.
fn odd_values(layer: &Layer, warn: &mut dyn FnMut(usize, String)) {
    if let Some(At { value: EnforceAfter::Time(time), line }) = layer.enforce_after
        && time.is_zero()
    {
        warn(line, "enforce_after is no time at all: leave it out, or write how long, such as \"7d\"".to_owned());
    }
    if let Some(At { value, line }) = layer.block_rate.filter(|rate| rate.value >= HIGH_BLOCK_RATE) {
        let share = value * 100.0;
        warn(
            line,
            format!("block_rate = {value}: up to {share:.0} % of the genuine results may be blocked; 0.01 is usual"),
        );
    }
}

/// `enforce_after` where no mode that it meets is `enforce`.
fn wait_without_enforcing(config: &GuardConfig, warn: &mut dyn FnMut(usize, String)) {
    let enforces = |layer: &Layer| layer.mode.is_some_and(|mode| mode.value == GuardMode::Enforce);
    let top = config.all.mode.map_or(GuardMode::default(), |mode| mode.value);
    let tools = |config: &GuardConfig| config.servers.iter().flat_map(|one| one.tools.clone()).collect::<Vec<_>>();
    let anywhere = enforces(&config.all)
        || config.servers.iter().any(|one| enforces(&one.layer))
        || tools(config).iter().any(|one| enforces(&one.layer));
    let mut check = |layer: &Layer, mode: GuardMode, below: bool| {
        if let Some(At { line, .. }) = layer.enforce_after
            && mode != GuardMode::Enforce
            && !below
        {
            warn(line, format!("enforce_after has no effect in mode '{}': it is for mode = \"enforce\"", mode.name()));
        }
    };
    check(&config.all, top, anywhere);
    for section in &config.servers {
        let mode = section.layer.mode.map_or(top, |mode| mode.value);
        check(&section.layer, mode, section.tools.iter().any(|one| enforces(&one.layer)));
        for tool in &section.tools {
            check(&tool.layer, tool.layer.mode.map_or(mode, |mode| mode.value), false);
        }
    }
}

/// Whether everything that `former` sets is set by `later`.
fn replaces(later: &Layer, former: &Layer) -> bool {
    *former != Layer::default()
        && (former.mode.is_none() || later.mode.is_some())
        && (former.block_rate.is_none() || later.block_rate.is_some())
        && (former.content_injection.is_none() || later.content_injection.is_some())
        && (former.canaries.is_none() || later.canaries.is_some())
        && (former.flags.is_none() || later.flags.is_some())
        && (former.enforce_after.is_none() || later.enforce_after.is_some())
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The first few of many names.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 10;
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}
