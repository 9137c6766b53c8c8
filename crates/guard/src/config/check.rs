//! Rules of `guard.toml` that can never do anything: what `credence guard config check` warns about.

use super::{At, GuardConfig, Layer, ToolSection};
use crate::settings::GuardMode;

/// What guards have met so far: labels, and the tools of each.
pub type Seen = std::collections::BTreeMap<String, std::collections::BTreeSet<String>>;

/// Something that is not wrong and does nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// The line of the file.
    pub line: usize,
    /// What does nothing, and why.
    pub text: String,
}

/// Everything in `config` that can never do anything. `seen` is what guards have met.
pub fn warnings(config: &GuardConfig, seen: &Seen) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |line: usize, text: String| found.push(Warning { line, text });
    wait_without_enforcing(config, &mut warn);
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
        warn(1, format!("alerts go to {} without encryption: use https", webhook.url));
    }
    found.sort_by_key(|warning| warning.line);
    found
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
