//! From the command line to a run: target, consent, options, journal; and from the run to the ledger.

use std::{fmt::Write as _, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use axum::Router;
use credence_pipeline::query;
use credence_protocol::{EntityId, Uuid};
use credence_sandbox::{
    Threat,
    consent::{ConsentCheck, Loopback, LoopbackOnly, is_this_machine},
    report::{Comparison, ONLY},
    runner::{
        Preview, RunOptions, RunOutput,
        journal::{self, Header, Line},
        plan::Plan,
        preview,
    },
    score,
    sensor::{
        listener::Listener,
        mount::{self, Mount},
    },
    suite::Suite,
    target::{
        TargetSpec, Transport, command_digest,
        http::HttpTemplate,
        state_folder,
        wire::{Credential, WireSettings},
    },
};
use credence_server::probing::{self, FinishedRun};
use serde_json::{Value, json};
use url::Url;

use super::{
    Done,
    args::{DEFAULT_DEADLINE, DEFAULT_RATE, ProbeArgs, TOKENS},
    journal_folder,
};
use crate::{
    home::{Home, now},
    output::{self, Output},
};

/// Who reads a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Who typed it.
    Operator,
    /// Who gets the report: arguments and queries, which may hold a secret, are left out.
    Owner,
}

/// A run that is ready to begin.
pub struct Setup {
    pub spec: TargetSpec,
    pub wire: WireSettings,
    pub options: RunOptions,
    /// The target as it is recorded.
    pub address: String,
    /// Scheme, host and port; nothing for a process.
    origin: Option<String>,
    pub journal: PathBuf,
    agent: Option<EntityId>,
}

impl Setup {
    pub fn of(home: &Home, args: &ProbeArgs, suite: &Suite) -> anyhow::Result<Self> {
        let (agent, alias) = registered(home, args)?;
        let is_process = !args.command.is_empty();
        ensure!(!is_process || args.transport == Transport::Mcp, "a command is a tool server: add --transport mcp");
        let url = match (&args.target, alias) {
            _ if is_process => String::new(),
            (Some(url), _) => url.clone(),
            (None, Some(alias)) => alias,
            (None, None) => bail!("the agent has no https alias: name its address with --target"),
        };
        let spec = spec(args, &url)?;
        let (address, origin) = if is_process {
            // The arguments may hold a token.
            let program = args.command.first().map(PathBuf::from).unwrap_or_default();
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (format!("process:{name}"), None)
        } else {
            let parsed = spec.parsed_url().map_err(|why| anyhow!("--target: {why}"))?;
            let recorded = spec.recorded_url().map_err(|why| anyhow!("--target: {why}"))?;
            (recorded, Some(parsed.origin().ascii_serialization()))
        };
        let journal = match &args.journal {
            Some(path) => path.clone(),
            None => journal_folder(home)?.join(format!("probe-{}.jsonl", Uuid::now_v7())),
        };
        let header = earlier_part(args, &journal)?;
        let options = options(args, suite, header.as_ref())?;
        let wire = wire(home, args)?;
        Ok(Self { spec, wire, options, address, origin, journal, agent })
    }

    /// Whose consent the run needs.
    pub fn consent(&self, home: &Home, args: &ProbeArgs) -> anyhow::Result<Box<dyn ConsentCheck>> {
        let Some(agent) = &self.agent else {
            let local = self.spec.parsed_url().is_ok_and(|url| is_this_machine(&url));
            if args.allow_loopback && local {
                return Ok(Box::new(LoopbackOnly));
            }
            let origin = self.origin.as_deref().unwrap_or_default();
            bail!(
                "nobody agreed to a run against {origin}, so nothing is sent: name the registered agent whose owner proved control of it \
                 (`credence agent prove-domain`), or allow a target on this machine with --allow-loopback"
            );
        };
        let reader = home.reader()?;
        let view = reader.view()?;
        let key =
            home.signer()?.context("the authority's key is not here: it makes the challenge that is looked for")?;
        let loopback = if args.allow_loopback { Loopback::Allow } else { Loopback::Refuse };
        let consent = probing::consent_of(&*view, agent, &key.public(), loopback, now())?;
        let url = self.spec.parsed_url().map_err(anyhow::Error::msg)?;
        // A target on this machine without the flag is refused where its address is looked at.
        if !is_this_machine(&url) {
            consent.permits(&url).map_err(anyhow::Error::msg)?;
        }
        Ok(Box::new(consent))
    }

    /// Fails before anything is sent where the run could not be recorded afterwards.
    pub fn check_recordable(&self, home: &Home, args: &ProbeArgs) -> anyhow::Result<()> {
        if self.agent.is_some() && self.origin.is_some() && !args.no_record {
            let authority = home
                .authority()
                .context("the run could not be recorded, so nothing was sent (--no-record leaves it out)")?;
            authority.flush()?;
        }
        Ok(())
    }

    /// Records the run in the ledger, where it is of a registered agent. Gives the entry.
    pub fn record(&self, home: &Home, args: &ProbeArgs, output: &RunOutput) -> anyhow::Result<Option<u64>> {
        let (Some(agent), Some(origin)) = (&self.agent, &self.origin) else { return Ok(None) };
        if args.no_record {
            return Ok(None);
        }
        let finished = FinishedRun { agent, origin, output, now: now() };
        let record = finished.record().map_err(anyhow::Error::msg)?;
        let kept =
            || format!("the run is in {}, and could not be recorded: repeat it with --resume", self.journal.display());
        let authority = home.authority().with_context(kept)?;
        let admitted = authority.record_probe(record).with_context(kept)?;
        authority.score_now()?;
        authority.flush()?;
        Ok(Some(admitted.seq))
    }

    pub fn transcripts(&self, output: &RunOutput) -> anyhow::Result<Vec<Value>> {
        let Some(path) = &output.transcript else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        // A torn last line is of a trial that was not recorded.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// The command that makes this run again, for those who may see it.
    pub fn command(&self, args: &ProbeArgs, audience: Audience) -> String {
        let mut words = vec!["credence".to_owned(), "probe".to_owned()];
        words.extend(args.agent.clone());
        let mut say = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([flag.to_owned(), value]);
            }
        };
        if args.command.is_empty() {
            // A query may hold a secret.
            let url = if audience == Audience::Operator { &self.spec.url } else { &self.address };
            say("--target", Some(url.clone()));
        }
        say("--transport", Some(args.transport.to_string()));
        say("--seed", Some(self.options.seed.to_string()));
        say("--model", args.model.clone());
        say("--body", args.body.clone());
        say("--answer", args.answer.clone());
        say("--token-header", args.token_header.clone());
        say("--deadline", (args.deadline != DEFAULT_DEADLINE).then(|| args.deadline.to_string()));
        say("--rate", (args.rate.get() != DEFAULT_RATE).then(|| args.rate.to_string()));
        say("--listen", args.listen.map(|address| address.to_string()));
        say("--listener-url", args.listener_url.clone());
        say("--probes", args.probes.as_ref().map(|folder| folder.display().to_string()));
        for (flag, given) in [("--mount", args.mount), ("--allow-loopback", args.allow_loopback)] {
            words.extend(given.then(|| flag.to_owned()));
        }
        // A finding that is tried again needs no ten trials.
        words.extend(["--no-benchmarks", "--no-record", "--trials", "1"].map(str::to_owned));
        let mut command = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        if let Some(program) = args.command.first() {
            // `--only` has to stand before a tool server's command: it is put in place of this mark.
            let _ = write!(command, " {ONLY} -- {}", quoted(program));
            match audience {
                Audience::Operator => args.command[1..].iter().for_each(|word| {
                    let _ = write!(command, " {}", quoted(word));
                }),
                // Its arguments may hold a token.
                Audience::Owner if args.command.len() > 1 => command.push_str(" (and its arguments)"),
                Audience::Owner => {}
            }
        } else if audience == Audience::Owner {
            // Who reads the report has tokens of their own, and has to know that the run had some.
            let named = TOKENS.into_iter().zip(["YOUR_TOKEN", "ANOTHER_USERS_TOKEN"]);
            let used = self.wire.credentials.iter().zip(named).filter(|(credential, _)| credential.is_some());
            let variables: String = used.map(|(_, (variable, value))| format!("{variable}={value} ")).collect();
            command.insert_str(0, &variables);
        }
        command
    }

    /// What would be done.
    pub fn dry_run(&self, out: &Output, args: &ProbeArgs, suite: &Suite) -> Done {
        let plan = Plan::new(suite, args.transport, &self.options);
        let seconds = plan.duration(args.rate.get()).as_secs();
        let listener = args.listener_url.as_deref().map(|url| url.trim_end_matches('/'));
        let previews = preview(suite, &plan, &self.options, listener, self.options.trials as usize);
        let families = suite.families().filter(|found| previews.iter().any(|one| one.family == found.family.id));
        let families: Vec<Value> = families
            .map(|found| {
                let id = &found.family.id;
                let sends: Vec<_> = previews.iter().filter(|one| one.family == *id).collect();
                json!({ "family": id, "title": found.family.title, "probes": found.family.probes.len(), "sends": sends })
            })
            .collect();
        let shown = json!({
            "target": self.address, "transport": args.transport, "seed": self.options.seed, "suite": suite.digest(),
            "requests": plan.requests(), "seconds": seconds, "plan": plan, "families": families,
        });
        out.show(&shown, || {
            let rows = plan.threats.iter().flat_map(|threat| {
                threat.families.iter().map(|family| {
                    let needs: Vec<String> = family.needs.iter().map(ToString::to_string).collect();
                    vec![threat.threat.to_string(), family.family.clone(), family.requests.to_string(), needs.join(", ")]
                })
            });
            let mut text = output::table(&["threat", "family", "requests", "needs"], &["requests"], rows);
            for found in suite.families() {
                let of_family: Vec<_> = previews.iter().filter(|one| one.family == found.family.id).collect();
                // The control, and the first attack.
                for (n, sends) in of_family.iter().take(2).enumerate() {
                    if n == 0 {
                        let _ = write!(text, "\n\n{}: {}", found.family.id, found.family.title);
                    }
                    previewed(&mut text, sends);
                }
            }
            for dropped in &plan.dropped {
                let _ = write!(text, "\n{} is left out: {}", dropped.tag, dropped.why);
            }
            let _ = write!(
                text,
                "\n\nAbout {} requests ({} of them to see what the target can do, {} for the benchmarks), at {} a second at least {} s. \
                 These are the texts of a run with --seed {}: the control and first attack of each family, cut after {} characters. --json \
                 has all of them, whole. {}\nNothing was sent to {}.",
                plan.requests(),
                plan.check_requests,
                plan.benchmark_requests,
                args.rate,
                seconds,
                self.options.seed,
                SHOWN_CHARACTERS,
                if listener.is_some() { "" } else { "https://listener.example stands for our listener, whose port is not known yet." },
                self.address
            );
            text
        })?;
        Ok(std::process::ExitCode::SUCCESS)
    }
}

/// Characters of a text that a dry run shows to people.
const SHOWN_CHARACTERS: usize = 600;

fn previewed(text: &mut String, sends: &Preview) {
    let cut = |message: &str| {
        let kept: String = message.trim().chars().take(SHOWN_CHARACTERS).collect();
        kept.replace('\n', "\n          ")
    };
    let _ = match &sends.probe {
        Some(probe) => write!(text, "\n  attack  {probe}:{}", sends.variant),
        None => write!(text, "\n  control"),
    };
    for message in &sends.messages {
        let _ = write!(text, "\n  sends   {}", cut(message));
    }
    if let Some(page) = &sends.page {
        let _ = write!(text, "\n  page    {}", cut(page));
    }
    for tool in &sends.tools {
        let _ = write!(text, "\n  tool    {}: {}", tool.name, cut(&tool.description));
        for answer in &tool.answers {
            let _ = write!(text, "\n  answers {}", cut(answer));
        }
    }
}

/// The agent that is named, and its first https alias.
fn registered(home: &Home, args: &ProbeArgs) -> anyhow::Result<(Option<EntityId>, Option<String>)> {
    let Some(name) = &args.agent else { return Ok((None, None)) };
    let reader = home.reader()?;
    let view = reader.view()?;
    let id = reader.agent(&*view, name)?;
    let aliases = query::agent(&*view, &id)?.aliases;
    let https = aliases.iter().map(ToString::to_string).find(|alias| alias.starts_with("https://"));
    Ok((Some(id), https))
}

fn spec(args: &ProbeArgs, url: &str) -> anyhow::Result<TargetSpec> {
    ensure!(
        args.transport == Transport::Http || (args.body.is_none() && args.answer.is_none()),
        "--body and --answer belong to --transport http"
    );
    let mut http = HttpTemplate::default();
    if let Some(body) = &args.body {
        http.body = serde_json::from_str(body).context("--body is not JSON")?;
    }
    http.answer = args.answer.clone();
    Ok(TargetSpec { model: args.model.clone(), http, ..TargetSpec::new(args.transport, url) })
}

/// The header of the run that is to be continued.
fn earlier_part(args: &ProbeArgs, journal: &std::path::Path) -> anyhow::Result<Option<Header>> {
    let exists = std::fs::metadata(journal).is_ok_and(|file| file.len() > 0);
    match (exists, args.resume) {
        (true, true) => Ok(Some(journal::read(journal)?.0)),
        (true, false) => {
            bail!("{} is there already: --resume continues its run, another --journal begins one", journal.display())
        }
        (false, true) => bail!("there is no run to resume in {}", journal.display()),
        (false, false) => Ok(None),
    }
}

fn options(args: &ProbeArgs, suite: &Suite, earlier: Option<&Header>) -> anyhow::Result<RunOptions> {
    for only in &args.only {
        let name = only.split(':').next().unwrap_or_default();
        let known = suite
            .families()
            .any(|found| found.family.id == name || found.family.probes.iter().any(|probe| probe.id == name));
        ensure!(known, "--only: there is no family or probe '{name}'");
        if let Some((_, spelling)) = only.split_once(':') {
            let parsed: Result<credence_sandbox::variant::Variant, _> = spelling.parse();
            parsed.map_err(|why| anyhow!("--only: {why}"))?;
        }
    }
    let seed =
        args.seed.or(earlier.map(|header| header.seed)).unwrap_or_else(|| (Uuid::now_v7().as_u128() as u64) >> 32);
    let threats = if args.threats.is_empty() { Threat::ALL.to_vec() } else { args.threats.clone() };
    Ok(RunOptions {
        seed,
        threats,
        only: args.only.clone(),
        trials: args.trials,
        budget: args.budget,
        time_limit: args.time_limit.map(Duration::from_secs),
        in_flight: usize::from(args.in_flight),
        benchmarks: !args.no_benchmarks,
        reliability_spread: Duration::from_secs(args.spread),
        tight: args.stop_width,
        command: (!args.command.is_empty()).then(|| command_digest(&args.command)),
        ..RunOptions::default()
    })
}

/// Who asks, for the User-Agent.
fn contact(home: &Home, args: &ProbeArgs) -> anyhow::Result<Option<Url>> {
    if args.contact.is_some() || !home.config_file().exists() {
        return Ok(args.contact.clone());
    }
    let settings = home.settings(&home.config()?.serve, &[])?;
    Ok(Url::parse(&settings.public_url).ok())
}

fn wire(home: &Home, args: &ProbeArgs) -> anyhow::Result<WireSettings> {
    let credential = |variable: &str| -> anyhow::Result<Option<Credential>> {
        let Ok(token) = std::env::var(variable) else { return Ok(None) };
        let made = match &args.token_header {
            Some(name) => Credential::header(name, &token),
            None => Credential::bearer(&token),
        };
        made.map(Some).map_err(|why| anyhow!("{variable}: {why}"))
    };
    Ok(WireSettings {
        allow_loopback: args.allow_loopback,
        rate: args.rate,
        in_flight: usize::from(args.in_flight),
        deadline: Duration::from_secs(args.deadline),
        credentials: [credential(TOKENS[0])?, credential(TOKENS[1])?],
        contact: contact(home, args)?,
        locks: Some(state_folder()),
        ..WireSettings::default()
    })
}

/// Our side of the run: the listener, and the honey tools on it.
pub struct Listening {
    pub listener: Option<Listener>,
    pub mount: Option<Mount>,
}

impl Listening {
    pub async fn start(args: &ProbeArgs, suite: &Suite, setup: &Setup) -> anyhow::Result<Self> {
        let local = args.allow_loopback || setup.origin.is_none();
        let bind = match args.listen {
            Some(address) => address,
            None if local => SocketAddr::from(([127, 0, 0, 1], 0)),
            None => return Ok(Self { listener: None, mount: None }),
        };
        let mount = args.mount.then(|| Mount::new(suite));
        let routes = mount.as_ref().map_or_else(Router::new, Mount::routes);
        let base = args.listener_url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        let listener = Listener::start(bind, base, routes).await.with_context(|| format!("cannot listen on {bind}"))?;
        Ok(Self { listener: Some(listener), mount })
    }

    /// Where the honey tools are served.
    pub fn mounted(&self) -> Option<String> {
        let listener = self.listener.as_ref().filter(|_| self.mount.is_some())?;
        Some(format!("{}{}", listener.base(), mount::PATH))
    }
}

/// Two runs side by side, with what makes them hard to compare.
pub fn comparison((header, lines): (Header, Vec<Line>), output: &RunOutput) -> Comparison {
    let now = &output.result;
    let differs = [
        ("the suite", header.suite != now.suite),
        ("the target", header.target != now.target),
        ("the transport", header.transport != now.transport),
    ];
    let caveats = differs.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| format!("{what} differs"));
    Comparison::of(&score::latest_trials(&lines), &output.trials, caveats.collect())
}

/// Why nothing was sent, or the target could not be spoken to.
pub fn refused(why: &str, args: &ProbeArgs) -> anyhow::Error {
    if why.contains("not public") && !args.allow_loopback {
        return anyhow!(
            "{why}: --allow-loopback permits a target on this machine, and no other private address is ever probed"
        );
    }
    anyhow!("{why}")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,%+[]".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
