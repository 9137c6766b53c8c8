//! Numbers for an operator in Prometheus' text form, in a file or on a Unix socket. Off unless `[metrics]` is in `guard.toml`.
//!
//! Tools beyond the first [`MAX_TOOLS`] are counted together as `other`, so that a server with ever new names does not fill anybody's memory.

use std::{
    collections::HashSet,
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use credence_protocol::{Decision, receipt::Receipt};
use credence_receipts::folder;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{Error, alerts::AlertCounts, config::MetricsConfig, warn};

/// Tools with numbers of their own.
pub const MAX_TOOLS: usize = 200;
/// Seconds that a guard may add to a message.
const SECONDS: [f64; 10] = [0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.02, 0.1, 1.0];
/// How long a client of the socket may take to ask.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    server: String,
    place: String,
    tool: String,
    verdict: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    server: String,
    place: String,
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    server: String,
    place: String,
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    server: String,
    place: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabels {
    server: String,
    place: String,
}

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// What is looked up when the numbers are written.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Records that are in the journal alone.
    pub in_journal: usize,
    /// What became of alerts.
    pub alerts: AlertCounts,
    /// Bytes of results that are kept for somebody to look at.
    pub quarantine_bytes: u64,
    /// The guard is switched off.
    pub off: bool,
    /// It withholds what is blocked.
    pub enforcing: bool,
    /// The guard ends.
    pub ended: bool,
}

/// What is counted.
pub struct Metrics {
    server: String,
    /// The guard's own folder and number: two guards of one server count apart.
    place: String,
    registry: Registry,
    tools: Mutex<HashSet<String>>,
    calls: Family<CallLabels, Counter>,
    withheld: Family<ToolLabels, Counter>,
    unjudged: Family<ToolLabels, Counter>,
    added: Family<DirectionLabels, Histogram, fn() -> Histogram>,
    alerts: Family<OutcomeLabels, Gauge>,
    changes: Family<ServerLabels, Counter>,
    in_journal: Family<ServerLabels, Gauge>,
    quarantine: Family<ServerLabels, Gauge>,
    off: Family<ServerLabels, Gauge>,
    enforcing: Family<ServerLabels, Gauge>,
    up: Family<ServerLabels, Gauge>,
}

impl Metrics {
    /// The numbers of the guard of the server with this label, in this place (`files/1`).
    pub fn new(server: &str, place: &str) -> Self {
        let mut registry = Registry::with_prefix("credence_guard");
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let metrics = Self {
            server: server.to_owned(),
            place: place.to_owned(),
            registry: Registry::default(),
            tools: Mutex::default(),
            calls: Family::default(),
            withheld: Family::default(),
            unjudged: Family::default(),
            added: Family::new_with_constructor(histogram),
            alerts: Family::default(),
            changes: Family::default(),
            in_journal: Family::default(),
            quarantine: Family::default(),
            off: Family::default(),
            enforcing: Family::default(),
            up: Family::default(),
        };
        let r = &mut registry;
        r.register("calls", "Calls of tools, by verdict", metrics.calls.clone());
        r.register("withheld", "Results that the client did not get", metrics.withheld.clone());
        r.register("unjudged", "Results without a verdict", metrics.unjudged.clone());
        r.register("added_seconds", "Time that the guard added to a message", metrics.added.clone());
        r.register("alerts", "Alerts since the guard started, by what became of them", metrics.alerts.clone());
        r.register("changes", "Times a tool or server was found to have changed", metrics.changes.clone());
        r.register("journal_records", "Receipts in the journal and not in the ledger yet", metrics.in_journal.clone());
        r.register("quarantine_bytes", "Results kept for somebody to look at, in bytes", metrics.quarantine.clone());
        r.register("switched_off", "1 while the guard is switched off", metrics.off.clone());
        r.register("up", "1 while the guard runs, 0 in what it leaves", metrics.up.clone());
        r.register("enforcing", "1 while results can be withheld", metrics.enforcing.clone());
        Self { registry, ..metrics }
    }

    fn labels(&self) -> ServerLabels {
        ServerLabels { server: self.server.clone(), place: self.place.clone() }
    }

    fn tool(&self, tool: &str) -> String {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.contains(tool) || tools.len() < MAX_TOOLS && tools.insert(tool.to_owned()) {
            return tool.to_owned();
        }
        "other".to_owned()
    }

    /// Counts a call.
    pub fn call(&self, receipt: &Receipt, withheld: bool) {
        let ServerLabels { server, place } = self.labels();
        let tool = self.tool(&receipt.tool);
        let verdict = match receipt.verdict {
            Some(Decision::Accept) => "accept",
            Some(Decision::Flag) => "flag",
            Some(Decision::Block) => "block",
            None => "none",
        };
        let labels = ToolLabels { server: server.clone(), place: place.clone(), tool: tool.clone() };
        self.calls.get_or_create(&CallLabels { server, place, tool, verdict }).inc();
        if withheld {
            self.withheld.get_or_create(&labels).inc();
        }
        if receipt.verdict.is_none() {
            self.unjudged.get_or_create(&labels).inc();
        }
    }

    /// How long a message was in the guard.
    pub fn added(&self, direction: Direction, time: Duration) {
        let direction = match direction {
            Direction::ToServer => "to_server",
            Direction::ToClient => "to_client",
        };
        let ServerLabels { server, place } = self.labels();
        let labels = DirectionLabels { server, place, direction };
        self.added.get_or_create(&labels).observe(time.as_secs_f64());
    }

    /// Counts a change.
    pub fn changed(&self) {
        self.changes.get_or_create(&self.labels()).inc();
    }

    /// All of it as text.
    pub fn text(&self, now: &Snapshot) -> String {
        let gauge = |family: &Family<ServerLabels, Gauge>, value: u64| {
            family.get_or_create(&self.labels()).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        gauge(&self.in_journal, now.in_journal as u64);
        gauge(&self.quarantine, now.quarantine_bytes);
        gauge(&self.off, u64::from(now.off));
        gauge(&self.enforcing, u64::from(now.enforcing));
        gauge(&self.up, u64::from(!now.ended));
        let AlertCounts { sent, failed, dropped, suppressed, .. } = &now.alerts;
        for (outcome, count) in [("sent", sent), ("failed", failed), ("dropped", dropped), ("suppressed", suppressed)] {
            let ServerLabels { server, place } = self.labels();
            let labels = OutcomeLabels { server, place, outcome };
            self.alerts.get_or_create(&labels).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            warn("the metrics cannot be written as text");
        }
        as_prometheus_text(&text)
    }
}

/// OpenMetrics as Prometheus' older text form, which every collector reads. There a counter is described under the name of its samples,
/// and nothing marks the end.
fn as_prometheus_text(openmetrics: &str) -> String {
    let counters: HashSet<&str> =
        openmetrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(openmetrics.len() + 64);
    for line in openmetrics.lines().filter(|line| *line != "# EOF") {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|mark| Some((mark, line.strip_prefix(mark)?)));
        match described.and_then(|(mark, rest)| Some((mark, rest.split_once(' ')?))) {
            Some((mark, (name, rest))) if counters.contains(name) => {
                text.push_str(&format!("{mark}{name}_total {rest}\n"));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// The path of one guard: `{server}` is its folder's name, `{place}` its number, which is added to the name where the path has none.
pub fn path_of(path: &str, server: &str, place: u32) -> PathBuf {
    let name = match path.contains("{place}") || place == 1 {
        true => server.to_owned(),
        false => format!("{server}-{place}"),
    };
    PathBuf::from(path.replace("{server}", &name).replace("{place}", &place.to_string()))
}

/// Where the numbers go.
pub enum Sink {
    /// A file that is replaced; whether that failed and was told.
    File(PathBuf, AtomicBool),
    /// A socket; the thread answers.
    Socket(PathBuf),
}

impl Sink {
    /// Opens the file or socket of one guard. `text` gives the numbers whenever somebody asks at the socket; `None` ends it.
    pub fn open(
        config: &MetricsConfig,
        server: &str,
        place: u32,
        text: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    ) -> Result<Self, Error> {
        match config {
            MetricsConfig::File(path) => Ok(Self::File(path_of(path, server, place), AtomicBool::new(false))),
            MetricsConfig::Socket(path) => {
                let path = path_of(path, server, place);
                let listener = listen(&path)?;
                let spawned = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
                    for stream in listener.incoming().flatten() {
                        let Some(text) = text() else { return };
                        answer(stream, &text);
                    }
                });
                spawned.map_err(|e| Error::Io("metrics".into(), e))?;
                Ok(Self::Socket(path))
            }
        }
    }

    /// Replaces the file.
    pub fn write(&self, text: &dyn Fn() -> String) {
        let Self::File(path, told) = self else { return };
        match write_file(path, text()) {
            Ok(()) => told.store(false, Relaxed),
            // Once, not every few seconds.
            Err(error) if !told.swap(true, Relaxed) => warn(&format!("the metrics cannot be written: {error}")),
            Err(_) => {}
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Self::Socket(path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

fn write_file(path: &Path, text: String) -> Result<(), Error> {
    folder::replace_file(path, text.as_bytes())?;
    // A collector runs as another user.
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(|e| Error::Io(path.to_owned(), e))
}

/// Listens; takes the place of a socket that nobody answers at.
fn listen(path: &Path) -> Result<UnixListener, Error> {
    let io = |e| Error::Io(path.to_owned(), e);
    match UnixListener::bind(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(Error::Content(format!("metrics: {} is in use by another process", path.display())));
            }
            fs::remove_file(path).map_err(io)?;
            UnixListener::bind(path).map_err(io)
        }
        bound => bound.map_err(io),
    }
}

/// Answers any request with the numbers, as HTTP.
fn answer(mut stream: std::os::unix::net::UnixStream, text: &str) {
    let _ = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    let mut asked = Vec::new();
    let mut part = [0; 1024];
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") && asked.len() < 16 * 1024 {
        match stream.read(&mut part) {
            Ok(read) if read > 0 => asked.extend_from_slice(&part[..read]),
            _ => break,
        }
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ever_new_names_of_tools_are_counted_together() {
        let metrics = Metrics::new("s", "s/1");
        let names: HashSet<String> = (0..1000).map(|n| metrics.tool(&format!("t{n}"))).collect();
        assert_eq!(names.len(), MAX_TOOLS + 1);
        assert!(names.contains("other"));
    }

    #[test]
    fn every_guard_has_a_path_of_its_own() {
        let path = |text: &str, place| path_of(text, "files", place).display().to_string();
        assert_eq!(path("/m/{server}.prom", 1), "/m/files.prom");
        assert_eq!(path("/m/{server}.prom", 2), "/m/files-2.prom");
        assert_eq!(path("/m/{server}.{place}.prom", 2), "/m/files.2.prom");
    }
}
