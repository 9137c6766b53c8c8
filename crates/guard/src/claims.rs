//! What an agent says its tools gave it, held against the receipts: executed, altered, or never happened.
//!
//! One receipt backs one claim. Claims find their receipts in this order, each step for all claims before the next: by the
//! receipt that a claim names; by tool, arguments and result; by tool and arguments, the result being another; by tool and
//! result, the arguments being others. What then has no receipt never happened, as far as the receipts that are kept can say.

use std::collections::HashMap;

use credence_protocol::{
    EntityId, SecretKey, Timestamp, Uuid,
    receipt::{CallOutcome, Exact, Reading, Receipt, View, Views, forms_of_error, readings_of_text},
};
use serde::Serialize;

use crate::{
    Error,
    look::{digest, digests, fingerprint, leaves},
    reading::{Archive, Filter, Found},
    receipts::{Parts, Private},
    transcript::{Claim, Said, Transcript},
};

/// Comparisons beyond which no more are made for claims that nothing was found for.
const MAX_COMPARISONS: u64 = 20_000_000;
/// Differences that are named.
const MAX_DIFFERENCES: usize = 8;

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The call happened, and gave this.
    Executed,
    /// The call happened and failed, as is claimed; how clients put that into words is not compared.
    Failed,
    /// The call happened, and the claim says something else of it.
    Altered,
    /// No call that happened is behind it.
    NeverHappened,
    /// There is no receipt, and receipts from the time it may be of are gone.
    Unknown,
    /// There is a receipt, and it cannot be proved.
    Unproven,
    /// The same claim stands further up in the transcript.
    Repeated,
    /// The transcript shows a call and no result.
    NoResult,
}

/// The receipt behind a claim.
#[derive(Debug, Clone, Serialize)]
pub struct Backing {
    /// The call.
    pub call: Uuid,
    /// When it happened.
    pub at: Timestamp,
    /// The server, and the guard's place.
    pub guard: String,
    /// The tool, as the guard knows it.
    pub tool: String,
    /// The agent that called, as the guard knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// In which session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The log and the entry.
    pub log: String,
    /// The entry in that log; none while it is in the journal alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The entries under the signed checkpoint that the proof leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_size: Option<u64>,
    /// What was thought of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<credence_protocol::Decision>,
    /// The proof, as a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// What was found out about one claim.
#[derive(Debug, Clone, Serialize)]
pub struct Judgement {
    /// Where the claim stands.
    pub at: String,
    /// The tool, as the transcript calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The transcript's own id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What became of it.
    pub status: Status,
    /// The receipt behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Backing>,
    /// What differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// What else is to be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Everything found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Claim by claim, in the order of the transcript.
    pub claims: Vec<Judgement>,
    /// Receipts that no claim is backed by, in order of time.
    pub unclaimed: Vec<Backing>,
    /// Receipts that were looked at.
    pub receipts: usize,
    /// Receipts before this time are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_before: Option<Timestamp>,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Report {
    /// How many claims came to `status`.
    pub fn count(&self, status: Status) -> usize {
        self.claims.iter().filter(|claim| claim.status == status).count()
    }

    /// Whether every claimed result was shown to be what a tool gave.
    pub fn is_clean(&self) -> bool {
        use Status::{Altered, NeverHappened, Unknown, Unproven};
        [Altered, NeverHappened, Unknown, Unproven].iter().all(|status| self.count(*status) == 0)
    }
}

/// A receipt among those that claims are held against.
struct Candidate {
    found: Found,
    private: Private,
    claimed: bool,
}

/// A claim, made comparable.
struct Subject<'a> {
    claim: &'a Claim,
    arguments: Option<Exact<'a>>,
    /// There are arguments, and two readers may read them differently.
    unreadable: bool,
    readings: Vec<Reading>,
    /// Of an error that the client put into words of its own.
    readings_of_error: Vec<Reading>,
    /// Parts of the result, to say what differs.
    parts: Vec<(String, String)>,
}

/// Holds the claims of a transcript against the receipts that `filter` takes. `proofs` adds the proof of each.
pub fn check(
    archive: &Archive,
    key: &SecretKey,
    transcript: &Transcript,
    filter: &Filter,
    ignored: &[String],
    proofs: bool,
) -> Result<Report, Error> {
    let (mut problems, mut without_salts) = (Vec::new(), Vec::new());
    let mut candidates = Vec::new();
    archive.visit(
        filter,
        &mut |found, private| {
            match private {
                Some(private) => candidates.push(Candidate { found, private, claimed: false }),
                None => without_salts.push(found.receipt.call),
            }
            Ok(())
        },
        &mut |problem| problems.push(problem),
    )?;
    if let Some(call) = without_salts.first() {
        problems.push(format!("the salts of {} receipts are gone, the first that of call {call}", without_salts.len()));
    }
    candidates.sort_by_key(|one| (one.found.receipt.started_at, one.found.receipt.call));
    // Only what the filter would have taken.
    let gone = archive.kept()?.into_iter().filter(|(source, _, kept)| {
        filter.server.as_ref().is_none_or(|server| *server == archive.sources[*source].server)
            && filter.since.is_none_or(|since| since <= kept.until)
    });
    let gone_before = gone.map(|(_, _, kept)| kept.until).max();
    // Where receipts cannot be read, nothing can be said of what has none.
    let incomplete = gone_before.is_some() || !problems.is_empty();
    let claims: Vec<&Claim> = transcript
        .claims
        .iter()
        .filter(|claim| {
            !claim.tool.as_ref().is_some_and(|tool| ignored.iter().any(|name| named(tool, name, "") != Named::Other))
        })
        .collect();
    let subjects: Vec<Subject<'_>> = claims.iter().map(|claim| Subject::of(claim)).collect();
    let mut matcher = Matcher { candidates, comparisons: 0, by_print: HashMap::new(), key };
    matcher.index();
    let outcomes = matcher.all(&subjects);
    let mut report = Report {
        claims: Vec::with_capacity(subjects.len()),
        unclaimed: Vec::new(),
        receipts: matcher.candidates.len(),
        gone_before,
        problems,
    };
    for (subject, outcome) in subjects.iter().zip(outcomes) {
        report.claims.push(judgement(archive, &matcher, subject, outcome, incomplete, proofs));
    }
    let unclaimed = matcher.candidates.iter().filter(|one| !one.claimed);
    report.unclaimed = unclaimed.map(|one| backing(archive, &one.found)).collect();
    Ok(report)
}

/// What was found for a claim.
enum Outcome {
    Executed(usize, View),
    Failed(usize),
    OtherResult(usize),
    OtherArguments(usize),
    OtherName(usize),
    Repeated,
    NoResult,
    Nothing { gave_up: bool },
}

impl<'a> Subject<'a> {
    fn of(claim: &'a Claim) -> Self {
        let arguments = claim.arguments.as_deref().and_then(|raw| Exact::of(raw).ok());
        let unreadable = claim.arguments.is_some() && arguments.is_none();
        let (readings, parts) = match &claim.result {
            Said::Text(text) => (readings_of_text(text), parts_of_text(text)),
            Said::Items(items) => {
                let list = format!("[{}]", items.iter().map(|item| item.get()).collect::<Vec<_>>().join(","));
                let result = format!("{{\"content\":{list}}}");
                (readings(&list), parts_of_result(&result))
            }
            Said::Json(raw) => (readings(raw.get()), parts_of_result(raw.get())),
            Said::Error(raw) => {
                let forms = Exact::of(raw).map(|error| forms_of_error(&error)).unwrap_or_default();
                (forms.into_iter().map(|form| vec![form]).collect(), Vec::new())
            }
            Said::Nothing => (Vec::new(), Vec::new()),
        };
        let readings_of_error = match &claim.result {
            Said::Text(text) => without_preamble(text).into_iter().flat_map(readings_of_text).collect(),
            _ => Vec::new(),
        };
        Self { claim, arguments, unreadable, readings, readings_of_error, parts }
    }

    fn named(&self, receipt: &Receipt) -> Named {
        let tool = self.claim.tool.as_ref();
        tool.map_or(Named::Same, |claimed| named(claimed, &receipt.tool, &receipt.server))
    }

    fn names(&self, receipt: &Receipt) -> bool {
        self.named(receipt) == Named::Same
    }

    fn same(&self, other: &Subject<'_>) -> bool {
        let form = |subject: &Subject<'_>| subject.arguments.as_ref().map(Exact::canonical);
        self.claim.call.is_some()
            && self.claim.call == other.claim.call
            && self.claim.tool == other.claim.tool
            && self.readings == other.readings
            && form(self) == form(other)
    }
}

/// How a claimed name compares with a tool's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    /// Another tool.
    Other,
    /// A longer name, which is not that of the server and the tool.
    Longer,
    /// The tool, as clients may call it.
    Same,
}

/// Clients put the server's name in front, and some know letters, digits and underscores only.
fn named(claimed: &str, tool: &str, server: &str) -> Named {
    if claimed == tool {
        return Named::Same;
    }
    let plain = |name: &str| {
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect::<String>()
    };
    let (claimed, tool, server) = (plain(claimed), plain(tool), plain(server));
    match claimed.strip_suffix(&tool) {
        Some("") => Named::Same,
        Some(prefix) if !tool.is_empty() && prefix.ends_with('_') => {
            let of_server = prefix.starts_with("mcp_") || prefix.trim_matches('_') == server;
            if of_server { Named::Same } else { Named::Longer }
        }
        _ => Named::Other,
    }
}

fn readings(json: &str) -> Vec<Reading> {
    Exact::parse(json).map(|value| value.readings()).unwrap_or_default()
}

/// What follows `Error: ` and the like, as clients put it before a tool's own words.
fn without_preamble(text: &str) -> Vec<&str> {
    const PREAMBLES: usize = 4;
    let speaks_of_errors = |before: &str| before.to_ascii_lowercase().contains("error");
    let cuts = text.match_indices(": ").take(PREAMBLES).filter(|(at, _)| speaks_of_errors(&text[..*at]));
    cuts.map(|(at, cut)| &text[at + cut.len()..]).collect()
}

fn parts_of_text(text: &str) -> Vec<(String, String)> {
    match Exact::parse(text) {
        Ok(value @ Exact::Object(_)) if value.get("content").is_some() => parts_of_result(text),
        Ok(value @ (Exact::Object(_) | Exact::List(_))) => leaves(&value),
        _ => leaves(&Exact::Text(text.into())),
    }
}

fn parts_of_result(json: &str) -> Vec<(String, String)> {
    Exact::parse(json).map(|value| leaves(&crate::content::judged(&value))).unwrap_or_default()
}

struct Matcher<'k> {
    candidates: Vec<Candidate>,
    by_print: HashMap<String, Vec<usize>>,
    comparisons: u64,
    key: &'k SecretKey,
}

impl Matcher<'_> {
    fn index(&mut self) {
        for (n, one) in self.candidates.iter().enumerate() {
            self.by_print.entry(one.private.print.clone()).or_default().push(n);
        }
    }

    fn all(&mut self, subjects: &[Subject<'_>]) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = subjects.iter().map(|_| None).collect();
        let mut seen: HashMap<&str, Vec<usize>> = HashMap::new();
        for (n, subject) in subjects.iter().enumerate() {
            if matches!(subject.claim.result, Said::Nothing) {
                outcomes[n] = Some(Outcome::NoResult);
                continue;
            }
            // JSON-RPC counts from the beginning in every session: the same number is not the same call.
            if let Some(call) = subject.claim.call.as_deref().filter(|call| call.parse::<f64>().is_err()) {
                let earlier = seen.entry(call).or_default();
                if earlier.iter().any(|first| subjects[*first].same(subject)) {
                    outcomes[n] = Some(Outcome::Repeated);
                    continue;
                }
                earlier.push(n);
            }
        }
        let steps: [fn(&mut Self, &Subject<'_>) -> Option<Outcome>; 5] =
            [Self::by_receipt, Self::by_everything, Self::by_arguments, Self::by_result, Self::by_longer_name];
        for step in steps {
            for (subject, outcome) in subjects.iter().zip(&mut outcomes) {
                if outcome.is_none() {
                    *outcome = step(self, subject);
                }
            }
        }
        let gave_up = self.comparisons >= MAX_COMPARISONS;
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Nothing { gave_up })).collect()
    }

    fn take(&mut self, n: usize, outcome: Outcome) -> Option<Outcome> {
        self.candidates[n].claimed = true;
        Some(outcome)
    }

    fn by_receipt(&mut self, subject: &Subject<'_>) -> Option<Outcome> {
        let call: Uuid = subject.claim.receipt.as_deref()?.parse().ok()?;
        let n = self.candidates.iter().position(|one| !one.claimed && one.found.receipt.call == call)?;
        if !subject.names(&self.candidates[n].found.receipt) {
            return None;
        }
        let outcome = match (self.candidates[n].arguments_match(subject), self.candidates[n].result(subject)) {
            (true, Some(outcome)) => outcome.at(n),
            (true, None) => Outcome::OtherResult(n),
            (false, _) => Outcome::OtherArguments(n),
        };
        self.take(n, outcome)
    }

    /// Receipts not yet claimed that have these arguments.
    fn with_arguments(&self, subject: &Subject<'_>) -> Vec<usize> {
        let print = data_encoding::BASE64URL_NOPAD.encode(&fingerprint(self.key, subject.arguments.as_ref()));
        let known = self.by_print.get(&print).into_iter().flatten().copied();
        known
            .filter(|n| {
                let one = &self.candidates[*n];
                !one.claimed && subject.names(&one.found.receipt) && one.arguments_match(subject)
            })
            .collect()
    }

    fn by_everything(&mut self, subject: &Subject<'_>) -> Option<Outcome> {
        if subject.claim.tool.is_none() && subject.claim.arguments.is_none() {
            return None;
        }
        let (n, found) =
            self.with_arguments(subject).into_iter().find_map(|n| Some((n, self.candidates[n].result(subject)?)))?;
        self.take(n, found.at(n))
    }

    fn by_arguments(&mut self, subject: &Subject<'_>) -> Option<Outcome> {
        // A result of no call in the transcript says nothing of arguments.
        subject.claim.tool.as_ref()?;
        let n = *self.with_arguments(subject).first()?;
        self.take(n, Outcome::OtherResult(n))
    }

    /// The same arguments and result, under a name that is the tool's with something before it.
    fn by_longer_name(&mut self, subject: &Subject<'_>) -> Option<Outcome> {
        let print = data_encoding::BASE64URL_NOPAD.encode(&fingerprint(self.key, subject.arguments.as_ref()));
        let n = self.by_print.get(&print).into_iter().flatten().copied().find(|n| {
            let one = &self.candidates[*n];
            !one.claimed
                && subject.named(&one.found.receipt) == Named::Longer
                && one.arguments_match(subject)
                && one.result(subject).is_some()
        })?;
        self.take(n, Outcome::OtherName(n))
    }

    fn by_result(&mut self, subject: &Subject<'_>) -> Option<Outcome> {
        let no_call = subject.claim.tool.is_none();
        let mut found = None;
        for (n, one) in self.candidates.iter().enumerate() {
            if one.claimed || !subject.names(&one.found.receipt) {
                continue;
            }
            self.comparisons += 1;
            if self.comparisons > MAX_COMPARISONS {
                break;
            }
            // Nearly empty results are alike by chance.
            if let Some(Compared::Equal(view)) = one.result(subject)
                && (!matches!(view, View::Letters | View::Joined) || no_call)
                && subject.readings.iter().flatten().any(|(_, form)| form.len() >= 8)
            {
                found = Some((n, view));
                break;
            }
        }
        let (n, view) = found?;
        self.take(n, if no_call { Outcome::Executed(n, view) } else { Outcome::OtherArguments(n) })
    }
}

/// How a result compares.
enum Compared {
    Equal(View),
    Failed,
}

impl Compared {
    fn at(self, n: usize) -> Outcome {
        match self {
            Compared::Equal(view) => Outcome::Executed(n, view),
            Compared::Failed => Outcome::Failed(n),
        }
    }
}

impl Candidate {
    fn arguments_match(&self, subject: &Subject<'_>) -> bool {
        !subject.unreadable && self.private.salts.arguments(subject.arguments.as_ref()) == self.found.receipt.arguments
    }

    fn result(&self, subject: &Subject<'_>) -> Option<Compared> {
        let receipt = &self.found.receipt;
        let salt = &self.private.salts.result;
        let matching =
            |views: &Option<Views>, claim: &[Reading]| views.as_ref().and_then(|views| views.matching(salt, claim));
        if let Some(view) = matching(&receipt.delivered, &subject.readings) {
            return Some(Compared::Equal(view));
        }
        // A success told as a failure is not what happened.
        let told_as_failure = subject.claim.is_error && receipt.outcome == CallOutcome::Result;
        if let Some(view) = matching(&receipt.result, &subject.readings).filter(|_| !told_as_failure) {
            return Some(Compared::Equal(view));
        }
        if matches!(receipt.outcome, CallOutcome::ToolError | CallOutcome::ProtocolError)
            && let Some(view) = matching(&receipt.result, &subject.readings_of_error)
        {
            return Some(Compared::Equal(view));
        }
        // Clients put the failure of a call into words of their own.
        let failed = matches!(receipt.outcome, CallOutcome::ProtocolError | CallOutcome::Unanswered)
            || (receipt.outcome == CallOutcome::Result && receipt.result.is_none());
        (failed && subject.claim.is_error).then_some(Compared::Failed)
    }
}

fn judgement(
    archive: &Archive,
    matcher: &Matcher<'_>,
    subject: &Subject<'_>,
    outcome: Outcome,
    gone: bool,
    proofs: bool,
) -> Judgement {
    let claim = subject.claim;
    let mut judgement = Judgement {
        at: claim.at.clone(),
        tool: claim.tool.clone(),
        call: claim.call.clone(),
        status: Status::NeverHappened,
        receipt: None,
        differs: Vec::new(),
        remark: None,
    };
    let (n, status) = match outcome {
        Outcome::Executed(n, view) => {
            if matches!(view, View::Letters | View::Joined) {
                judgement.remark = Some("equal but for white space".to_owned());
            }
            (n, Status::Executed)
        }
        Outcome::Failed(n) => {
            judgement.remark = Some("the wording of the error is the client's, and was not compared".to_owned());
            (n, Status::Failed)
        }
        Outcome::OtherResult(n) => {
            let parts = archive.parts(&matcher.candidates[n].found);
            judgement.differs = differences(&matcher.candidates[n], &parts, subject);
            (n, Status::Altered)
        }
        Outcome::OtherArguments(n) => {
            let parts = archive.parts(&matcher.candidates[n].found);
            judgement.differs = argument_differences(&matcher.candidates[n], &parts, subject);
            (n, Status::Altered)
        }
        Outcome::OtherName(n) => {
            let receipt = &matcher.candidates[n].found.receipt;
            judgement.differs =
                vec![format!("the tool: '{}' was called, of server '{}'", receipt.tool, receipt.server)];
            (n, Status::Altered)
        }
        Outcome::Repeated => {
            judgement.status = Status::Repeated;
            return judgement;
        }
        Outcome::NoResult => {
            judgement.status = Status::NoResult;
            return judgement;
        }
        Outcome::Nothing { gave_up } => {
            if gone || gave_up {
                judgement.status = Status::Unknown;
            }
            judgement.remark = nothing_remark(matcher, subject, gone, gave_up);
            return judgement;
        }
    };
    let found = &matcher.candidates[n].found;
    let mut backing = backing(archive, found);
    judgement.status = status;
    match archive.proof(found).and_then(|(proof, log)| Ok((proof.verify(&log)?, proof))) {
        Ok((checkpoint, proof)) => {
            backing.seq = Some(proof.seq);
            backing.checkpoint_size = Some(checkpoint.size);
            backing.proof = proofs.then(|| proof.to_text());
        }
        Err(error) => {
            judgement.status = Status::Unproven;
            judgement.remark = Some(format!("its receipt cannot be proved: {error}"));
        }
    }
    judgement.receipt = Some(backing);
    judgement
}

fn nothing_remark(matcher: &Matcher<'_>, subject: &Subject<'_>, gone: bool, gave_up: bool) -> Option<String> {
    if gave_up {
        return Some(
            "there are too many receipts to compare with: narrow them with --since, --session or --server".to_owned(),
        );
    }
    if gone {
        return Some("no receipt of it is here, and some were let go or cannot be read".to_owned());
    }
    let tool = subject.claim.tool.as_ref()?;
    let seen = matcher.candidates.iter().any(|one| subject.named(&one.found.receipt) != Named::Other);
    (!seen).then(|| {
        format!("no call of '{tool}' went through a guard: if it runs elsewhere, leave it out with --ignore-tool")
    })
}

fn backing(archive: &Archive, found: &Found) -> Backing {
    let source = &archive.sources[found.source];
    Backing {
        call: found.receipt.call,
        at: found.receipt.started_at,
        guard: source.name(),
        tool: found.receipt.tool.clone(),
        agent: found.receipt.agent.clone(),
        session: found.receipt.session.clone(),
        log: found.at.map_or_else(|| source.name(), |(segment, _)| format!("{}/{segment}", source.name())),
        seq: found.at.map(|(_, seq)| seq),
        checkpoint_size: None,
        verdict: found.receipt.verdict,
        proof: None,
    }
}

fn differences(one: &Candidate, parts: &Parts, subject: &Subject<'_>) -> Vec<String> {
    match one.found.receipt.outcome {
        CallOutcome::Unanswered => return vec!["the call was made and never answered".to_owned()],
        CallOutcome::ProtocolError => {
            return vec!["the call failed with an error; the claim shows a result".to_owned()];
        }
        CallOutcome::Result if subject.claim.is_error => {
            return vec!["the call succeeded; the claim calls it an error".to_owned()];
        }
        CallOutcome::ToolError if !subject.claim.is_error => {
            return vec!["the tool reported an error; the claim shows something else".to_owned()];
        }
        _ => {}
    }
    let claimed: Vec<(String, String)> = subject
        .parts
        .iter()
        .map(|(path, form)| (path.clone(), digest(&one.private.salts.result, path, form)))
        .collect();
    if one.found.receipt.outcome == CallOutcome::Result
        && one.found.receipt.unjudged.is_some()
        && parts.result.is_empty()
    {
        return vec!["the result, which the guard could not read in one way".to_owned()];
    }
    let named = compare("result", &parts.result, &claimed);
    if named.is_empty() { vec!["the result".to_owned()] } else { named }
}

fn argument_differences(one: &Candidate, parts: &Parts, subject: &Subject<'_>) -> Vec<String> {
    let claimed =
        subject.arguments.as_ref().map(|value| digests(value, &one.private.salts.arguments)).unwrap_or_default();
    let named = compare("arguments", &parts.arguments, &claimed);
    if named.is_empty() { vec!["the arguments".to_owned()] } else { named }
}

/// Which parts differ, by their digests: what they were is not kept.
fn compare(what: &str, real: &[(String, String)], claimed: &[(String, String)]) -> Vec<String> {
    if real.is_empty() {
        return Vec::new();
    }
    let reals: HashMap<&str, &str> = real.iter().map(|(path, digest)| (path.as_str(), digest.as_str())).collect();
    let claims: HashMap<&str, &str> = claimed.iter().map(|(path, digest)| (path.as_str(), digest.as_str())).collect();
    let name = |path: &str| if path.is_empty() { what.to_owned() } else { format!("{what}: {path}") };
    let mut differs: Vec<String> = Vec::new();
    for (path, digest) in claimed {
        match reals.get(path.as_str()) {
            Some(real) if real == digest => {}
            Some(_) => differs.push(format!("{} has another value", name(path))),
            None => differs.push(format!("{} was not there", name(path))),
        }
    }
    for (path, _) in real {
        if !claims.contains_key(path.as_str()) {
            differs.push(format!("{} is missing", name(path)));
        }
    }
    let more = differs.len().saturating_sub(MAX_DIFFERENCES);
    differs.truncate(MAX_DIFFERENCES);
    if more > 0 {
        differs.push(format!("and {more} more"));
    }
    differs
}
