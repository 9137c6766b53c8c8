//! What `guard.toml` says: TOML into types, each value with its line. An unknown key is an error that names the nearest known one.

use std::{path::Path, time::Duration};

use credence_protocol::nearest;
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};
use url::Url;

use super::{
    AlertConfig, AlertKind, At, ConfigError, DEFAULT_ALERTS_PER_MINUTE, EnforceAfter, FlagAction, GuardConfig,
    KeyLines, Layer, MetricsConfig, Quarantine, Reviews, SecretFrom, SecretHeader, ServerSection, ToolSection, Webhook,
    glob::Glob,
};
use crate::{quarantine::reviewer_key::ReviewerPublicKey, settings::GuardMode};

const LAYER_KEYS: [&str; 6] = ["mode", "block_rate", "content_injection", "canaries", "flags", "enforce_after"];
const TOP_KEYS: [&str; 12] = [
    "mode",
    "block_rate",
    "content_injection",
    "canaries",
    "flags",
    "enforce_after",
    "server",
    "quarantine",
    "reviews",
    "alerts",
    "metrics",
    "telemetry",
];
/// Keys of which the line is kept.
const KEYS_WITH_LINES: [&str; 7] = [
    "alerts.command",
    "alerts.webhook.url",
    "alerts.webhook.env",
    "alerts.webhook.file",
    "metrics.file",
    "metrics.socket",
    "reviews.send",
];
/// A wait beyond this is a mistake of units.
const MAX_DAYS: u64 = 366;
/// Bytes and words of a command.
const MAX_COMMAND: usize = 64;

type Member<'t> = (&'t Spanned<DeString<'t>>, &'t Spanned<DeValue<'t>>);

/// Reads the whole file.
pub fn read(path: &Path, text: &str) -> Result<GuardConfig, ConfigError> {
    let file = Source { path, text };
    let parsed = DeTable::parse(text).map_err(|error| {
        let line = file.line(error.span().map_or(0, |span| span.start));
        let why = error.message();
        // `mode = flag`: the parser takes the word for the beginning of `false`.
        let bare_word = why.starts_with("invalid boolean") || why.starts_with("string values must be quoted");
        file.wrong(
            line,
            if bare_word { format!("{why}; a text stands in quotes: mode = \"flag\"") } else { why.to_owned() },
        )
    })?;
    let top = parsed.get_ref();
    let mut config = GuardConfig { path: Some(path.to_owned()), ..GuardConfig::default() };
    for member in file.members(top) {
        match name(member) {
            "server" => config.servers = file.servers(member)?,
            "quarantine" => config.quarantine = file.quarantine(member)?,
            "reviews" => config.reviews = file.reviews(member)?,
            "alerts" => config.alerts = Some(file.alerts(member)?),
            "metrics" => config.metrics = Some(file.metrics(member)?),
            "telemetry" => config.otlp_endpoint = file.telemetry(member)?,
            _ if file.layer(&mut config.all, member)? => {}
            _ => return Err(file.unknown(member, "", &TOP_KEYS)),
        }
    }
    config.lines =
        KeyLines(KEYS_WITH_LINES.iter().filter_map(|key| Some((*key, file.line_of_key(top, key)?))).collect());
    Ok(config)
}

struct Source<'t> {
    path: &'t Path,
    text: &'t str,
}

fn name<'t>(member: Member<'t>) -> &'t str {
    member.0.get_ref()
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn line_of(&self, member: Member<'_>) -> usize {
        self.line(member.0.span().start)
    }

    /// The line of a key, given as `section.key`.
    fn line_of_key(&self, top: &DeTable<'_>, key: &str) -> Option<usize> {
        let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
        let (name, value) = top.iter().find(|(name, _)| name.get_ref() == first)?;
        match rest {
            Some(rest) => self.line_of_key(value.get_ref().as_table()?, rest),
            None => Some(self.line(name.span().start)),
        }
    }

    fn wrong(&self, line: usize, why: String) -> ConfigError {
        ConfigError::Invalid { path: self.path.to_owned(), line, why }
    }

    fn wrong_value(&self, member: Member<'_>, why: impl std::fmt::Display) -> ConfigError {
        self.wrong(self.line_of(member), format!("{}: {why}", name(member)))
    }

    fn unknown(&self, member: Member<'_>, section: &str, known: &[&str]) -> ConfigError {
        let key = name(member);
        let meant = match nearest(key, known.iter().copied()) {
            Some(known) => format!("did you mean '{known}'?"),
            None => format!("known are {}", known.join(", ")),
        };
        let within = if section.is_empty() { String::new() } else { format!(" in {section}") };
        self.wrong(self.line_of(member), format!("there is no setting '{key}'{within}: {meant}"))
    }

    /// The members of a table in the order of the file.
    fn members<'t>(&self, table: &'t DeTable<'t>) -> Vec<Member<'t>> {
        let mut all: Vec<Member<'t>> = table.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        all
    }

    fn table<'t>(&self, member: Member<'t>, written: &str) -> Result<&'t DeTable<'t>, ConfigError> {
        let table = member.1.get_ref().as_table();
        table.ok_or_else(|| self.wrong_value(member, format!("it is a table, written {written}")))
    }

    fn text_of<'t>(&self, member: Member<'t>) -> Result<&'t str, ConfigError> {
        member.1.get_ref().as_str().ok_or_else(|| self.wrong_value(member, "a text in quotes is needed"))
    }

    fn bool_of(&self, member: Member<'_>) -> Result<bool, ConfigError> {
        member.1.get_ref().as_bool().ok_or_else(|| self.wrong_value(member, "true or false is needed"))
    }

    fn count_of(&self, member: Member<'_>, least: u64, most: u64) -> Result<u64, ConfigError> {
        let wrong = || self.wrong_value(member, format!("a whole number from {least} to {most} is needed"));
        let number = member
            .1
            .get_ref()
            .as_integer()
            .and_then(|number| (number.radix() == 10).then(|| number.as_str().parse::<u64>().ok()).flatten());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    }

    fn share_of(&self, member: Member<'_>, zero: bool) -> Result<f64, ConfigError> {
        let value = member.1.get_ref();
        let text = value.as_float().map(|float| float.as_str().to_owned());
        let text = text.or_else(|| value.as_integer().map(|number| number.as_str().to_owned()));
        let number = text.and_then(|text| text.parse::<f64>().ok());
        let fits = |share: &f64| (0.0..=1.0).contains(share) && (zero || *share > 0.0);
        number.filter(fits).ok_or_else(|| {
            let range = if zero { "from 0 to 1" } else { "above 0 and up to 1" };
            self.wrong_value(member, format!("a number {range} is needed, such as 0.01 for one in a hundred"))
        })
    }

    fn one_of<T: Copy>(&self, member: Member<'_>, known: &[(&str, T)]) -> Result<T, ConfigError> {
        let said = self.text_of(member)?;
        known.iter().find(|(name, _)| *name == said).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let meant = nearest(said, names.iter().copied()).map(|one| format!(" (did you mean '{one}'?)"));
            self.wrong_value(member, format!("'{said}' is none of {}{}", names.join(", "), meant.unwrap_or_default()))
        })
    }

    /// Takes in a setting that every section may have; whether it is one.
    fn layer(&self, layer: &mut Layer, member: Member<'_>) -> Result<bool, ConfigError> {
        const MODES: [(&str, GuardMode); 3] =
            [("observe", GuardMode::Observe), ("flag", GuardMode::Flag), ("enforce", GuardMode::Enforce)];
        const FLAGS: [(&str, FlagAction); 3] =
            [("note", FlagAction::Note), ("silent", FlagAction::Silent), ("log", FlagAction::Log)];
        let line = self.line_of(member);
        match name(member) {
            "mode" => layer.mode = Some(At { value: self.one_of(member, &MODES)?, line }),
            "block_rate" => layer.block_rate = Some(At { value: self.share_of(member, false)?, line }),
            "content_injection" => layer.content_injection = Some(At { value: self.bool_of(member)?, line }),
            "canaries" => layer.canaries = Some(At { value: self.share_of(member, true)?, line }),
            "flags" => layer.flags = Some(At { value: self.one_of(member, &FLAGS)?, line }),
            "enforce_after" => layer.enforce_after = Some(At { value: self.enforce_after(member)?, line }),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn enforce_after(&self, member: Member<'_>) -> Result<EnforceAfter, ConfigError> {
        match member.1.get_ref() {
            DeValue::String(text) => {
                let time = duration(text).map_err(|why| self.wrong_value(member, why))?;
                Ok(EnforceAfter::Time(time))
            }
            DeValue::Integer(_) => Ok(EnforceAfter::Calls(self.count_of(member, 1, 1_000_000_000)?)),
            _ => Err(self.wrong_value(member, "a time such as \"7d\", or a number of calls such as 500, is needed")),
        }
    }

    fn glob(&self, member: Member<'_>, what: &str) -> Result<Glob, ConfigError> {
        Glob::new(name(member))
            .map_err(|why| self.wrong(self.line_of(member), format!("the {what} '{}': {why}", name(member))))
    }

    fn servers(&self, member: Member<'_>) -> Result<Vec<ServerSection>, ConfigError> {
        let mut servers = Vec::new();
        for server in self.members(self.table(member, "[server.\"NAME\"]")?) {
            let table = self.table(server, "[server.\"NAME\"]; settings of all servers stand at the top")?;
            let mut section = ServerSection {
                servers: self.glob(server, "pattern of servers")?,
                line: self.line_of(server),
                layer: Layer::default(),
                tools: Vec::new(),
            };
            for inner in self.members(table) {
                if name(inner) == "tool" {
                    section.tools = self.tools(inner)?;
                } else if !self.layer(&mut section.layer, inner)? {
                    let known: Vec<&str> = LAYER_KEYS.into_iter().chain(["tool"]).collect();
                    return Err(self.unknown(inner, &format!("[server.\"{}\"]", section.servers), &known));
                }
            }
            servers.push(section);
        }
        Ok(servers)
    }

    fn tools(&self, member: Member<'_>) -> Result<Vec<ToolSection>, ConfigError> {
        let mut tools = Vec::new();
        for tool in self.members(self.table(member, "[server.\"NAME\".tool.\"TOOL\"]")?) {
            let table = self.table(tool, "[server.\"NAME\".tool.\"TOOL\"]")?;
            let mut section = ToolSection {
                tools: self.glob(tool, "pattern of tools")?,
                line: self.line_of(tool),
                layer: Layer::default(),
            };
            for inner in self.members(table) {
                if !self.layer(&mut section.layer, inner)? {
                    return Err(self.unknown(inner, &format!("the tool \"{}\"", section.tools), &LAYER_KEYS));
                }
            }
            tools.push(section);
        }
        Ok(tools)
    }

    fn quarantine(&self, member: Member<'_>) -> Result<Quarantine, ConfigError> {
        let mut quarantine = Quarantine::default();
        for inner in self.members(self.table(member, "[quarantine]")?) {
            match name(inner) {
                "enabled" => quarantine.enabled = self.bool_of(inner)?,
                "max_mib" => quarantine.max_mib = self.count_of(inner, 1, 1024 * 1024)?,
                "days" => quarantine.days = self.count_of(inner, 1, 3650)?,
                _ => return Err(self.unknown(inner, "[quarantine]", &["enabled", "max_mib", "days"])),
            }
        }
        Ok(quarantine)
    }

    fn reviews(&self, member: Member<'_>) -> Result<Reviews, ConfigError> {
        let mut reviews = Reviews::default();
        for inner in self.members(self.table(member, "[reviews]")?) {
            match name(inner) {
                "send" => reviews.send = self.bool_of(inner)?,
                "report_content" => reviews.report_content = self.bool_of(inner)?,
                "reviewer_key" => {
                    let key = self.text_of(inner)?;
                    key.parse::<ReviewerPublicKey>().map_err(|why| self.wrong_value(inner, why))?;
                    reviews.reviewer_key = Some(key.to_owned());
                }
                _ => return Err(self.unknown(inner, "[reviews]", &["send", "report_content", "reviewer_key"])),
            }
        }
        if reviews.report_content && reviews.reviewer_key.is_none() {
            let why = "report_content needs reviewer_key, the public key that `credence guard reviewer-key` printed: content \
                       leaves only encrypted";
            return Err(self.wrong_value(member, why));
        }
        if reviews.report_content && !reviews.send {
            return Err(self.wrong_value(member, "report_content needs send = true"));
        }
        Ok(reviews)
    }

    fn alerts(&self, member: Member<'_>) -> Result<AlertConfig, ConfigError> {
        let mut alerts = AlertConfig {
            on: AlertKind::ALL.to_vec(),
            webhook: None,
            command: None,
            per_minute: DEFAULT_ALERTS_PER_MINUTE,
        };
        for inner in self.members(self.table(member, "[alerts]")?) {
            match name(inner) {
                "on" => alerts.on = self.kinds(inner)?,
                "webhook" => alerts.webhook = Some(self.webhook(inner)?),
                "command" => alerts.command = Some(self.command(inner)?),
                "per_minute" => {
                    alerts.per_minute = u32::try_from(self.count_of(inner, 1, 6000)?).unwrap_or(u32::MAX);
                }
                _ => return Err(self.unknown(inner, "[alerts]", &["on", "webhook", "command", "per_minute"])),
            }
        }
        if alerts.webhook.is_none() && alerts.command.is_none() {
            return Err(self.wrong_value(member, "nobody would be told: give webhook or command"));
        }
        Ok(alerts)
    }

    fn kinds(&self, member: Member<'_>) -> Result<Vec<AlertKind>, ConfigError> {
        let names = AlertKind::ALL.map(AlertKind::name).join(", ");
        let wrong = || self.wrong_value(member, format!("a list of some of {names} is needed"));
        let list = member.1.get_ref().as_array().ok_or_else(wrong)?;
        let kind = |value: &Spanned<DeValue<'_>>| {
            let said = value.get_ref().as_str()?;
            AlertKind::ALL.into_iter().find(|kind| kind.name() == said)
        };
        let kinds: Option<Vec<AlertKind>> = list.iter().map(kind).collect();
        kinds.filter(|kinds| !kinds.is_empty()).ok_or_else(wrong)
    }

    fn command(&self, member: Member<'_>) -> Result<Vec<String>, ConfigError> {
        let wrong = || {
            let why = "a list of a program and its arguments is needed, such as [\"notify\", \"--urgent\"]; no shell reads it";
            self.wrong_value(member, why)
        };
        let list = member.1.get_ref().as_array().ok_or_else(wrong)?;
        let words: Option<Vec<String>> = list.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect();
        let words = words.filter(|words| (1..=MAX_COMMAND).contains(&words.len())).ok_or_else(wrong)?;
        if words[0].is_empty() || words.iter().any(|word| word.contains('\0')) {
            return Err(wrong());
        }
        if words[0].contains('/') && !Path::new(&words[0]).is_absolute() {
            return Err(self
                .wrong_value(member, format!("'{}' depends on the working directory: give its whole path", words[0])));
        }
        Ok(words)
    }

    fn url(&self, member: Member<'_>, secret: &str) -> Result<Url, ConfigError> {
        let wrong = |why: String| self.wrong_value(member, why);
        let url: Url = self.text_of(member)?.parse().map_err(|e| wrong(format!("it is no URL: {e}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(wrong("an http or https URL is needed".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong(format!("a URL in this file holds no password, query or fragment: {secret}")));
        }
        Ok(url)
    }

    fn webhook(&self, member: Member<'_>) -> Result<Webhook, ConfigError> {
        let (mut url, mut header, mut from) = (None, None, None);
        for inner in self.members(self.table(member, "[alerts.webhook]")?) {
            match name(inner) {
                "url" => url = Some(self.url(inner, "give the secret as a header, from env or file")?),
                "header" => header = Some(self.header_name(inner)?),
                "env" => from = Some((inner, SecretFrom::Environment(self.variable(inner)?))),
                "file" => from = Some((inner, SecretFrom::File(self.path_of(inner)?))),
                _ => return Err(self.unknown(inner, "[alerts.webhook]", &["url", "header", "env", "file"])),
            }
        }
        let url = url.ok_or_else(|| self.wrong_value(member, "url is missing"))?;
        let header = match (header, from) {
            (Some(name), Some((_, from))) => Some(SecretHeader { name, from }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(self.wrong_value(member, "header needs env (a variable) or file, where its value is"));
            }
            (None, Some((inner, _))) => return Err(self.wrong_value(inner, "which header is it for? Give header too")),
        };
        Ok(Webhook { url, header })
    }

    fn header_name(&self, member: Member<'_>) -> Result<String, ConfigError> {
        let said = self.text_of(member)?;
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=64).contains(&said.len()) && said.chars().all(legal) {
            return Ok(said.to_owned());
        }
        Err(self.wrong_value(member, "the name of a header is needed, such as Authorization"))
    }

    fn variable(&self, member: Member<'_>) -> Result<String, ConfigError> {
        let said = self.text_of(member)?;
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if (1..=128).contains(&said.len()) && said.chars().all(legal) {
            return Ok(said.to_owned());
        }
        Err(self.wrong_value(member, "the name of a variable of the environment is needed"))
    }

    fn path_of(&self, member: Member<'_>) -> Result<std::path::PathBuf, ConfigError> {
        let said = Path::new(self.text_of(member)?);
        if said.is_absolute() {
            Ok(said.to_owned())
        } else {
            Err(self.wrong_value(member, "a whole path is needed, from /"))
        }
    }

    fn metrics(&self, member: Member<'_>) -> Result<MetricsConfig, ConfigError> {
        let mut found = None;
        for inner in self.members(self.table(member, "[metrics]")?) {
            let path = || -> Result<String, ConfigError> {
                let path = self.path_of(inner)?.to_string_lossy().into_owned();
                if path.contains("{server}") {
                    return Ok(path);
                }
                Err(self.wrong_value(inner, "the path must hold {server}: every guard writes its own"))
            };
            let one = match name(inner) {
                "file" => MetricsConfig::File(path()?),
                "socket" => MetricsConfig::Socket(path()?),
                _ => return Err(self.unknown(inner, "[metrics]", &["file", "socket"])),
            };
            if found.replace(one).is_some() {
                return Err(self.wrong_value(inner, "give file or socket, not both"));
            }
        }
        found.ok_or_else(|| self.wrong_value(member, "give file or socket"))
    }

    fn telemetry(&self, member: Member<'_>) -> Result<Option<Url>, ConfigError> {
        let mut endpoint = None;
        for inner in self.members(self.table(member, "[telemetry]")?) {
            match name(inner) {
                "otlp_endpoint" => endpoint = Some(self.url(inner, "OTEL_EXPORTER_OTLP_HEADERS holds headers")?),
                _ => return Err(self.unknown(inner, "[telemetry]", &["otlp_endpoint"])),
            }
        }
        Ok(endpoint)
    }
}

/// `90s`, `30m`, `12h`, `7d`: a whole number and a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time: write a whole number and s, m, h or d, such as \"7d\"");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number = &text[..text.len() - unit.len_utf8()];
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let total = number.checked_mul(seconds).filter(|total| *total <= MAX_DAYS * 86_400);
    total.map(Duration::from_secs).ok_or_else(|| format!("'{text}' is more than {MAX_DAYS} days"))
}
