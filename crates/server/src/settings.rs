//! What an operator can set: `[serve]` in `credence.toml`, `CREDENCE_*`, flags; the later the stronger.

use std::time::Duration;

use credence_protocol::nearest;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The service's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to listen.
    pub listen: String,
    /// Where others reach the service, such as `https://trust.example`; makes the issuer a did:web.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub public_url: String,
    /// Requests a second that one address may make without a token; 0 for no limit.
    pub requests_per_second: u32,
    /// Requests a second that one token may make; 0 for no limit.
    pub token_requests_per_second: u32,
    /// The address of a client is the last one in `X-Forwarded-For`, because a proxy in front sets it.
    pub trust_forwarded_for: bool,
    /// Bytes of a request's body.
    pub max_body_bytes: usize,
    /// Lines of a bulk submission.
    pub max_bulk_lines: usize,
    /// Seconds that a request may take, its body included.
    pub request_seconds: u64,
    /// Seconds that a bulk submission may take.
    pub bulk_seconds: u64,
    /// Seconds that a connection may be idle, or take to send a request's head.
    pub idle_seconds: u64,
    /// Seconds without a byte of a body that was begun.
    pub body_stall_seconds: u64,
    /// Memory for the bodies of requests with a token, in MiB.
    pub max_body_memory_mib: usize,
    /// Requests worked on at once, with a token and as many without; more are told to come back. `admin` has places of its own.
    pub max_in_flight: usize,
    /// Requests of one caller (a token, or an address without one), from the head to the end of a large answer.
    pub max_in_flight_per_caller: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// Of one address, where no proxy stands in front.
    pub max_connections_per_address: usize,
    /// New signed answers a second for one address without a token: each is recorded for good. 0 for no limit.
    pub new_answers_per_second: u32,
    /// The same for all addresses together, of which each has a share. 0 for no limit.
    pub anonymous_answers_per_second: u32,
    /// Clients of the event stream at once.
    pub max_event_clients: usize,
    /// Seconds between snapshots of what the verification engine has learned.
    pub snapshot_seconds: u64,
    /// How tool results are judged: `adaptive` or `fixed`.
    pub verify_mode: VerifyMode,
    /// Namespaces of the verification engine, one for each token that uses it.
    pub max_namespaces: usize,
    /// Memory for what all namespaces together have learned, in MiB.
    pub max_engine_mib: usize,
    /// Prove control of domains on loopback too, over plain HTTP: for trying it out.
    pub allow_loopback_domains: bool,
    /// Seconds over which scheduled probes spread the calls that measure reliability.
    pub probe_spread_seconds: u64,
    /// Ask the crawlers that the operator added about proven links. Nothing is asked without both.
    pub crawl: bool,
    /// Crawlers ask this address instead of each source's own: `https://mirror.example/HOST/PATH`; without secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub crawl_mirror: String,
    /// What is logged: `error`, `warn`, `info` or `debug` (which adds every request).
    pub log: LogLevel,
    /// How: `text` or `json`.
    pub log_format: LogFormat,
    /// Where traces are sent with OTLP over HTTP, such as `http://127.0.0.1:4318`; nowhere when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub otlp_endpoint: String,
}

/// How tool results are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyMode {
    /// Learns from each tool's own traffic.
    Adaptive,
    /// Eight signals with fixed ratios.
    Fixed,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// What an operator must look at.
    Error,
    /// And what may become that.
    Warn,
    /// And what happens.
    Info,
    /// And every request.
    Debug,
}

/// How it is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8420".into(),
            public_url: String::new(),
            requests_per_second: 100,
            token_requests_per_second: 5_000,
            trust_forwarded_for: false,
            max_body_bytes: 4 * 1024 * 1024,
            max_bulk_lines: 100_000,
            request_seconds: 30,
            bulk_seconds: 600,
            idle_seconds: 15,
            body_stall_seconds: 10,
            max_body_memory_mib: 128,
            max_in_flight: 512,
            max_in_flight_per_caller: 128,
            max_connections: 8_192,
            max_connections_per_address: 1_024,
            new_answers_per_second: 20,
            anonymous_answers_per_second: 400,
            max_event_clients: 256,
            snapshot_seconds: 300,
            verify_mode: VerifyMode::Adaptive,
            max_namespaces: 256,
            max_engine_mib: 256,
            allow_loopback_domains: false,
            probe_spread_seconds: 600,
            crawl: true,
            crawl_mirror: String::new(),
            log: LogLevel::Info,
            log_format: LogFormat::Text,
            otlp_endpoint: String::new(),
        }
    }
}

/// The largest that any setting may be: a gibibyte, or more seconds than anyone waits.
const LARGEST: u64 = 1 << 30;

/// Variables of ours that are no settings of the service.
const OTHER_VARIABLES: [&str; 5] =
    ["CREDENCE_DATA", "CREDENCE_LOG_KEY", "CREDENCE_AUTHORITY_KEY", "CREDENCE_TOKEN", "CREDENCE_JUDGE_TOKEN"];

/// A setting that cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct Invalid {
    place: String,
    why: String,
}

fn invalid(place: impl Into<String>, why: impl Into<String>) -> Invalid {
    Invalid { place: place.into(), why: why.into() }
}

impl Settings {
    /// Where others reach a service that listens at `local_url`.
    pub fn base_url<'a>(&'a self, local_url: &'a str) -> &'a str {
        if self.public_url.is_empty() { local_url } else { self.public_url.trim_end_matches('/') }
    }

    /// Every key.
    pub fn keys() -> Vec<String> {
        let set = || "-".to_owned();
        let whole = Self { public_url: set(), otlp_endpoint: set(), crawl_mirror: set(), ..Self::default() };
        Table::try_from(whole).map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }

    /// Merges what the file, the environment and the flags say; the later the stronger. Each `environment` variable that
    /// starts with `CREDENCE_` is looked at; each flag is `KEY=VALUE`.
    pub fn merge(
        file: &Table,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(String, String)],
    ) -> Result<Self, Invalid> {
        let keys = Self::keys();
        let suggest = |name: &str| match nearest(name, keys.iter().map(String::as_str)) {
            Some(known) => format!("did you mean '{known}'?"),
            None => format!("known are {}", keys.join(", ")),
        };
        let mut merged = Table::new();
        for (key, value) in file {
            if !keys.contains(key) {
                return Err(invalid(format!("[serve] {key}"), format!("there is no such setting: {}", suggest(key))));
            }
            merged.insert(key.clone(), value.clone());
            Self::check(&merged).map_err(|why| invalid(format!("[serve] {key}"), why))?;
        }
        for (name, text) in environment {
            let Some(key) = name.strip_prefix("CREDENCE_").map(str::to_lowercase) else { continue };
            // A guard in the same environment has its own; tokens of agents that are probed are named by schedules.
            if key.starts_with("guard_") || key.starts_with("probe_token") {
                continue;
            }
            if OTHER_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            if !keys.contains(&key) {
                let known: Vec<String> = keys.iter().map(|key| format!("CREDENCE_{}", key.to_uppercase())).collect();
                let known = known.iter().map(String::as_str).chain(OTHER_VARIABLES);
                let meant = nearest(&name, known).map_or(String::new(), |known| format!(": did you mean {known}?"));
                return Err(invalid(name, format!("there is no such setting{meant}")));
            }
            set(&mut merged, &key, &text);
            Self::check(&merged).map_err(|why| invalid(name, why))?;
        }
        for (key, text) in flags {
            if !keys.contains(key) {
                return Err(invalid(format!("--set {key}"), format!("there is no such setting: {}", suggest(key))));
            }
            set(&mut merged, key, text);
            Self::check(&merged).map_err(|why| invalid(format!("'{key}' on the command line"), why))?;
        }
        Self::check(&merged).map_err(|why| invalid("settings", why))
    }

    fn check(table: &Table) -> Result<Self, String> {
        let settings: Self = table.clone().try_into().map_err(|e: toml::de::Error| e.message().to_owned())?;
        if !settings.public_url.is_empty() {
            let url = url::Url::parse(&settings.public_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            let bare = |url: &url::Url| {
                url.username().is_empty()
                    && url.password().is_none()
                    && url.fragment().is_none()
                    && url.query().is_none()
            };
            let plain = |url: &url::Url| bare(url) && matches!(url.path(), "" | "/") && url.host_str().is_some();
            if !url.as_ref().is_some_and(plain) {
                return Err(format!("'{}' is not an address such as https://trust.example", settings.public_url));
            }
        }
        let mirror = url::Url::parse(&settings.crawl_mirror);
        let is_mirror = |url: &url::Url| matches!(url.scheme(), "http" | "https") && url.query().is_none();
        if !settings.crawl_mirror.is_empty() && !mirror.is_ok_and(|url| is_mirror(&url)) {
            return Err(format!("'{}' is not an address such as https://mirror.example", settings.crawl_mirror));
        }
        let positive = [
            ("max_body_bytes", settings.max_body_bytes as u64),
            ("max_bulk_lines", settings.max_bulk_lines as u64),
            ("request_seconds", settings.request_seconds),
            ("idle_seconds", settings.idle_seconds),
            ("body_stall_seconds", settings.body_stall_seconds),
            ("max_body_memory_mib", settings.max_body_memory_mib as u64),
            ("max_engine_mib", settings.max_engine_mib as u64),
            ("max_in_flight", settings.max_in_flight as u64),
            ("max_in_flight_per_caller", settings.max_in_flight_per_caller as u64),
            ("max_connections", settings.max_connections as u64),
            ("max_connections_per_address", settings.max_connections_per_address as u64),
            ("max_event_clients", settings.max_event_clients as u64),
            ("bulk_seconds", settings.bulk_seconds),
            ("snapshot_seconds", settings.snapshot_seconds),
            ("max_namespaces", settings.max_namespaces as u64),
        ];
        match positive.iter().find(|(_, value)| !(1..=LARGEST).contains(value)) {
            Some((key, value)) => Err(format!("{key} is {value}: it has to be at least 1 and at most {LARGEST}")),
            None => Ok(settings),
        }
    }

    pub(crate) fn request_time(&self) -> Duration {
        Duration::from_secs(self.request_seconds)
    }
}

/// A value from text: what TOML reads as a number or a truth value is one, where the setting is one.
fn set(table: &mut Table, key: &str, text: &str) {
    let defaults = Table::try_from(Settings::default()).unwrap_or_default();
    let value = match defaults.get(key) {
        Some(Value::Integer(_)) => text.parse().map(Value::Integer).ok(),
        Some(Value::Boolean(_)) => text.parse().map(Value::Boolean).ok(),
        _ => None,
    };
    table.insert(key.to_owned(), value.unwrap_or_else(|| Value::String(text.to_owned())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Settings, Invalid> {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        let flags: Vec<_> = flags.iter().map(pair).collect();
        Settings::merge(&file.parse().unwrap(), environment.iter().map(pair), &flags)
    }

    #[test]
    fn the_later_is_the_stronger() {
        let file = "listen = \"127.0.0.1:1\"\nmax_in_flight = 7\nidle_seconds = 3";
        let environment = [("CREDENCE_LISTEN", "127.0.0.1:2"), ("CREDENCE_MAX_IN_FLIGHT", "8"), ("HOME", "/x")];
        let settings = merge(file, &environment, &[("listen", "127.0.0.1:3")]).unwrap();
        assert_eq!((settings.listen.as_str(), settings.max_in_flight, settings.idle_seconds), ("127.0.0.1:3", 8, 3));
        assert_eq!(merge("", &[], &[]).unwrap(), Settings::default());
    }

    #[test]
    fn what_is_unknown_or_wrong_is_said() {
        let told = |result: Result<Settings, Invalid>| result.unwrap_err().to_string();
        assert!(told(merge("listn = \"x\"", &[], &[])).contains("did you mean 'listen'?"));
        assert!(told(merge("", &[("CREDENCE_LISTN", "x")], &[])).contains("did you mean CREDENCE_LISTEN?"));
        assert!(told(merge("", &[], &[("max_inflight", "1")])).contains("did you mean 'max_in_flight'?"));
        assert!(told(merge("", &[], &[("max_in_flight", "many")])).contains("'max_in_flight'"));
        assert!(told(merge("max_in_flight = 0", &[], &[])).contains("at least 1"));
        assert!(told(merge("", &[("CREDENCE_PUBLIC_URL", "trust.example")], &[])).contains("https://trust.example"));
        assert!(told(merge("verify_mode = \"clever\"", &[], &[])).contains("adaptive"));
        assert!(
            merge(
                "",
                &[
                    ("CREDENCE_DATA", "x"),
                    ("CREDENCE_TOKEN", "y"),
                    ("CREDENCE_GUARD_STATE", "z"),
                    ("CREDENCE_PROBE_TOKEN_BOT", "t")
                ],
                &[]
            )
            .is_ok()
        );
    }

    #[test]
    fn every_setting_is_documented_with_its_default() {
        let page = include_str!("../../../docs/service.md");
        let defaults = Table::try_from(Settings::default()).unwrap();
        for key in Settings::keys() {
            let default = match defaults.get(&key) {
                Some(Value::String(text)) => format!("`{text}`"),
                Some(other) => other.to_string(),
                None => "–".to_owned(),
            };
            assert!(page.contains(&format!("| `{key}` | {default} |")), "{key}: {default}");
        }
    }
}
