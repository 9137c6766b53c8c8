//! What an agent says its tools returned, compared with the receipts: executed, altered, or never happened.
//!
//! One receipt backs one claim. Claims find their receipts in this order, each step for all claims before the next: by the
//! receipt that a claim names; by tool, arguments and result; by tool and arguments, the result being another; by tool and
//! result, the arguments being others. What then has no receipt never happened, as far as the receipts that are kept can say.
//!
//! - `compare`: one claim against one receipt; `names`: how clients spell the name of a tool; `wording`: how they tell errors;
//! - `matching`: which receipt backs which claim; `order`: whether calls came in the order that is told;
//! - `differences`: which parts differ; `proving`: that the receipts are in their guards' logs.

mod compare;
mod differences;
mod matching;
mod names;
mod order;
mod proving;
mod wording;

use std::collections::BTreeMap;

use credence_protocol::{
    Decision, EntityId, SecretKey, Timestamp, Uuid,
    receipt::{CallOutcome, Receipt, Vantage, View},
};
use serde::Serialize;

use crate::{
    Archive, Error, Filter, FoundReceipt,
    transcript::{Claim, Transcript},
};
use compare::{Candidate, ComparableClaim};
use differences::{argument_differences, result_differences};
use matching::{Match, Matcher};
use names::{Names, is_ignored};
use order::{equal_claims, out_of_order};
use proving::Prover;

/// How a claim compares with the receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimStatus {
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
    /// The call happened and gave this, but before a call whose result the transcript shows first.
    OutOfOrder,
    /// Tools of several servers can have the claimed name: which one is meant cannot be told.
    Ambiguous,
    /// The same claim stands further up in the transcript.
    Repeated,
    /// The transcript shows a call and no result.
    NoResult,
}

/// The receipt behind a claim.
#[derive(Debug, Clone, Serialize)]
pub struct ReceiptReference {
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
    pub verdict: Option<Decision>,
    /// The proof, as a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// What the receipts say about one claim.
#[derive(Debug, Clone, Serialize)]
pub struct ClaimFinding {
    /// Where the claim stands.
    pub at: String,
    /// The tool, as the transcript calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The transcript's own id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// How it compares.
    pub status: ClaimStatus,
    /// The receipt behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptReference>,
    /// What differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// What else is to be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// The transcript shows no result, and the model goes on after the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

/// What the receipts say about a transcript.
#[derive(Debug, Serialize)]
pub struct ClaimReport {
    /// Claim by claim, in the order of the transcript.
    pub claims: Vec<ClaimFinding>,
    /// Receipts that no claim is backed by, in order of time.
    pub unclaimed: Vec<ReceiptReference>,
    /// Receipts that were looked at.
    pub receipts: usize,
    /// Receipts before this time are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_before: Option<Timestamp>,
    /// What could not be read.
    pub problems: Vec<String>,
    /// Claims of tools that the caller left out: nothing is said of them.
    pub ignored: usize,
    /// Claims that equal another in tool, arguments and result: their order among themselves cannot be checked.
    pub equal: usize,
    /// Who could have forged the receipts behind the claims, server by server, in words.
    pub isolation: Vec<String>,
    /// What the check took.
    #[serde(skip)]
    pub work: Work,
}

/// What a check took, in steps that do not depend on the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Claims compared with a receipt.
    pub comparisons: u64,
    /// Segments of receipts opened for proofs.
    pub segments: u64,
}

impl ClaimReport {
    /// How many claims came to `status`.
    pub fn count(&self, status: ClaimStatus) -> usize {
        self.claims.iter().filter(|claim| claim.status == status).count()
    }

    /// Whether every claimed result was shown to be what a tool gave, in its order, and no call lacks a result that the model
    /// went on without.
    pub fn is_clean(&self) -> bool {
        use ClaimStatus::{Executed, Failed, NoResult, Repeated};
        let clean = |claim: &ClaimFinding| match claim.status {
            Executed | Failed | Repeated => true,
            NoResult => !claim.goes_on,
            _ => false,
        };
        self.claims.iter().all(clean)
    }
}

/// How claims are checked.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// The receipts that can back a claim.
    pub filter: Filter,
    /// Tools that run without a guard: what is claimed of them is not checked.
    pub ignored_tools: Vec<String>,
    /// Servers that clients call otherwise than guards do: the client's name, and the guard's.
    pub server_aliases: Vec<(String, String)>,
    /// Whether each receipt comes with its proof.
    pub proofs: bool,
}

/// Compares the claims of a transcript with receipts. `key` is the one that fingerprints arguments: the provider's.
pub fn check(
    archive: &Archive,
    key: &SecretKey,
    transcript: &Transcript,
    options: &CheckOptions,
) -> Result<ClaimReport, Error> {
    let CheckOptions { filter, ignored_tools, server_aliases, proofs } = options;
    let (mut problems, mut without_salts) = (Vec::new(), Vec::new());
    let mut candidates = Vec::new();
    let mut names = Names::new(server_aliases);
    archive.visit(
        filter,
        &mut |found, private| {
            match private {
                Some(private) => {
                    let kind = names.number(&found.receipt.server, &found.receipt.tool);
                    candidates.push(Candidate { found, private, kind, claimed: false });
                }
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
    let gone = archive.remains()?.into_iter().filter(|(source, _, remains)| {
        filter.server.as_ref().is_none_or(|server| *server == archive.sources[*source].server)
            && filter.since.is_none_or(|since| since <= remains.until)
    });
    let gone_before = gone.map(|(_, _, remains)| remains.until).max();
    // Where receipts cannot be read, nothing can be said of what has none.
    let incomplete = gone_before.is_some() || !problems.is_empty();
    let is_ignored = |claim: &&Claim| {
        claim.tool.as_ref().is_some_and(|tool| ignored_tools.iter().any(|ignored| is_ignored(tool, ignored)))
    };
    let ignored = transcript.claims.iter().filter(is_ignored).count();
    let claims: Vec<ComparableClaim<'_>> =
        transcript.claims.iter().filter(|claim| !is_ignored(claim)).map(ComparableClaim::of).collect();
    let mut matcher = Matcher::new(candidates, names, key);
    let matches = matcher.match_all(&claims);
    let reordered = out_of_order(&matcher, &claims, &matches);
    let mut prover = Prover::new(archive);
    let mut backing: Vec<_> =
        matcher.candidates.iter_mut().filter(|one| one.claimed).map(|one| &mut one.found).collect();
    prover.settle(&mut backing)?;
    let mut report = ClaimReport {
        claims: Vec::with_capacity(claims.len()),
        unclaimed: Vec::new(),
        receipts: matcher.candidates.len(),
        gone_before,
        problems,
        ignored,
        equal: equal_claims(&claims, &matches),
        isolation: Vec::new(),
        work: Work::default(),
    };
    let mut findings = Findings { archive, matcher, prover, incomplete, proofs: *proofs };
    for (n, (claim, matched)) in claims.iter().zip(matches).enumerate() {
        let mut finding = findings.finding(claim, matched);
        if let Some(first) = reordered.get(&n).filter(|_| finding.status == ClaimStatus::Executed) {
            finding.status = ClaimStatus::OutOfOrder;
            finding
                .differs
                .push(format!("the order: it ran before the call whose result stands at {}", claims[*first].claim.at));
        }
        report.claims.push(finding);
    }
    let Findings { matcher, prover, .. } = findings;
    report.work = Work { comparisons: matcher.comparisons, segments: prover.opens };
    let backing = matcher.candidates.iter().filter(|one| one.claimed);
    report.isolation = isolation(backing.map(|one| &one.found.receipt));
    let unclaimed = matcher.candidates.iter().filter(|one| !one.claimed);
    if archive.sources.is_empty() {
        report.problems.push("no guard has written any receipts".to_owned());
    }
    report.unclaimed = unclaimed.map(|one| reference(archive, &one.found)).collect();
    Ok(report)
}

/// Who could have forged the receipts behind the claims, server by server.
fn isolation<'r>(backing: impl Iterator<Item = &'r Receipt>) -> Vec<String> {
    let mut counts: BTreeMap<(&str, Option<Vantage>), usize> = BTreeMap::new();
    for receipt in backing {
        *counts.entry((&receipt.server, receipt.vantage)).or_default() += 1;
    }
    let line = |((server, vantage), count): ((&str, Option<Vantage>), usize)| {
        let who = match vantage {
            Some(Vantage::OwnUser) => {
                "by a guard with a user of its own: neither the agent nor the tool server could have forged them"
            }
            Some(Vantage::SameUser) => {
                "by a guard that shares its user with the agent or the tool server: a program of that user could have forged them"
            }
            Some(Vantage::InProcess) => {
                "by a guard inside the agent's own process: the agent's program could have forged them, and they are self-reported"
            }
            Some(Vantage::Reported) => {
                "by a guard that another program told of the call: they cannot be changed later, and that the calls happened is \
                 self-reported"
            }
            None => "by a guard that does not say which users it shares: take them as forgeable",
        };
        let receipts = if count == 1 { "receipt" } else { "receipts" };
        format!("{server}: {count} {receipts} {who}")
    };
    counts.into_iter().map(line).collect()
}

impl Archive {
    /// Compares the claims of a transcript with these receipts.
    pub fn check(
        &self,
        key: &SecretKey,
        transcript: &Transcript,
        options: &CheckOptions,
    ) -> Result<ClaimReport, Error> {
        check(self, key, transcript, options)
    }
}

/// Makes a finding of each claim and its match.
struct Findings<'a, 'k> {
    archive: &'a Archive,
    matcher: Matcher<'k>,
    prover: Prover<'a>,
    /// Receipts are gone, or cannot be read.
    incomplete: bool,
    proofs: bool,
}

impl Findings<'_, '_> {
    fn finding(&mut self, comparable: &ComparableClaim<'_>, matched: Match) -> ClaimFinding {
        let claim = comparable.claim;
        let mut finding = ClaimFinding {
            at: claim.at.clone(),
            tool: claim.tool.clone(),
            call: claim.call.clone(),
            status: ClaimStatus::NeverHappened,
            receipt: None,
            differs: Vec::new(),
            remark: None,
            goes_on: claim.is_followed,
        };
        let call = matched.genuine().map(|n| self.matcher.candidates[n].found.receipt.call);
        // A claim that names its receipt says which tool it means.
        let named = call.is_some() && claim.receipt.as_deref().and_then(|receipt| receipt.parse().ok()) == call;
        let resolved = self.matcher.resolve(comparable);
        let possible = &self.matcher.resolution(resolved).candidates;
        if matched.genuine().is_some() && !possible.is_empty() && !named {
            finding.status = ClaimStatus::Ambiguous;
            finding.remark = Some(format!(
                "the name can be that of {}: say which server is meant with --server",
                possible.join(" or ")
            ));
        } else {
            finding.status = self.status(comparable, matched, &mut finding);
        }
        let Some(n) = matched.receipt() else { return finding };
        let found = &self.matcher.candidates[n].found;
        let mut reference = reference(self.archive, found);
        match self.prover.prove(found, self.proofs) {
            Ok(proved) => {
                reference.seq = Some(proved.seq);
                reference.checkpoint_size = Some(proved.checkpoint_size);
                reference.proof = proved.proof;
            }
            Err(_) if found.at.is_none() && found.receipt.outcome == CallOutcome::Unanswered => {}
            Err(error) => {
                finding.status = ClaimStatus::Unproven;
                finding.remark = Some(format!("its receipt cannot be proved: {error}"));
            }
        }
        finding.receipt = Some(reference);
        finding
    }

    /// What a match means; what is to be said of it goes into `finding`.
    fn status(&mut self, claim: &ComparableClaim<'_>, matched: Match, finding: &mut ClaimFinding) -> ClaimStatus {
        match matched {
            Match::Executed(_, view) => {
                if claim.claim.tool.is_none() {
                    finding.remark =
                        Some("the transcript shows no call of it: it is known by its result alone".to_owned());
                } else if matches!(view, View::Letters | View::Joined) {
                    finding.remark = Some("equal but for white space".to_owned());
                }
                ClaimStatus::Executed
            }
            Match::Failed(n) => {
                let answered = self.matcher.candidates[n].found.receipt.outcome != CallOutcome::Unanswered;
                let why = if answered { "its answer was dropped" } else { "the call was forwarded and no answer came" };
                finding.remark = Some(format!("{why}; the claim says so in the client's words"));
                ClaimStatus::Failed
            }
            Match::OtherResult(n) => {
                let one = &self.matcher.candidates[n];
                finding.differs = result_differences(one, &self.prover.parts(&one.found), claim);
                ClaimStatus::Altered
            }
            Match::OtherArguments(n) => {
                let one = &self.matcher.candidates[n];
                finding.differs = argument_differences(one, &self.prover.parts(&one.found), claim);
                ClaimStatus::Altered
            }
            Match::OtherName(n) => {
                let receipt = &self.matcher.candidates[n].found.receipt;
                finding.differs =
                    vec![format!("the tool: '{}' was called, of server '{}'", receipt.tool, receipt.server)];
                finding.remark =
                    Some("if the client calls the server so, say it with --server-alias NAME=SERVER".to_owned());
                ClaimStatus::Altered
            }
            Match::Repeated => ClaimStatus::Repeated,
            Match::NoResult(n) => {
                finding.remark = Some(self.remark_on_no_result(claim, n));
                ClaimStatus::NoResult
            }
            Match::Nothing { gave_up } => {
                finding.remark = self.remark_on_no_receipt(claim, gave_up);
                if self.incomplete || gave_up { ClaimStatus::Unknown } else { ClaimStatus::NeverHappened }
            }
        }
    }

    fn remark_on_no_result(&self, claim: &ComparableClaim<'_>, receipt: Option<usize>) -> String {
        let outcome = receipt.map(|n| self.matcher.candidates[n].found.receipt.outcome);
        let happened = match outcome {
            None => "no receipt of the call is here",
            Some(CallOutcome::Unanswered) => "the call was forwarded and no answer came",
            Some(_) => "the call was answered, and the transcript does not show it",
        };
        let goes_on = "; the transcript goes on without it: what is said of it there has nothing behind it";
        format!("{happened}{}", if claim.claim.is_followed { goes_on } else { "" })
    }

    fn remark_on_no_receipt(&mut self, claim: &ComparableClaim<'_>, gave_up: bool) -> Option<String> {
        if gave_up {
            let why = "there are too many receipts to compare with: narrow them with --since, --session or --server";
            return Some(why.to_owned());
        }
        if self.incomplete {
            return Some("no receipt of it is here, and some were let go or cannot be read".to_owned());
        }
        let tool = claim.claim.tool.as_ref()?;
        let resolved = self.matcher.resolve(claim);
        (!self.matcher.resolution(resolved).any()).then(|| {
            format!("no call of '{tool}' went through a guard: if it runs elsewhere, leave it out with --ignore-tool")
        })
    }
}

fn reference(archive: &Archive, found: &FoundReceipt) -> ReceiptReference {
    let source = &archive.sources[found.source];
    ReceiptReference {
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
