//! What an agent says its tools returned, compared with the receipts: executed, altered, or never happened.
//!
//! One receipt backs one claim. Claims find their receipts in this order, each step for all claims before the next: by the
//! receipt that a claim names; by tool, arguments and result; by tool and arguments, the result being another; by tool and
//! result, the arguments being others. What then has no receipt never happened, as far as the receipts that are kept can say.
//!
//! - `compare`: one claim against one receipt; `names`: how clients spell the name of a tool;
//! - `matching`: which receipt backs which claim; `differences`: which parts differ.

mod compare;
mod differences;
mod matching;
mod names;

use credence_protocol::{Decision, EntityId, SecretKey, Timestamp, Uuid, receipt::View};
use serde::Serialize;

use crate::{
    Archive, Error, Filter, FoundReceipt,
    transcript::{Claim, Transcript},
};
use compare::{Candidate, ComparableClaim};
use differences::{argument_differences, result_differences};
use matching::{Match, Matcher};
use names::{NameMatch, compare_names};

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
}

impl ClaimReport {
    /// How many claims came to `status`.
    pub fn count(&self, status: ClaimStatus) -> usize {
        self.claims.iter().filter(|claim| claim.status == status).count()
    }

    /// Whether every claimed result was shown to be what a tool gave.
    pub fn is_clean(&self) -> bool {
        use ClaimStatus::{Altered, NeverHappened, Unknown, Unproven};
        [Altered, NeverHappened, Unknown, Unproven].iter().all(|status| self.count(*status) == 0)
    }
}

/// How claims are checked.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// The receipts that can back a claim.
    pub filter: Filter,
    /// Tools that run without a guard: what is claimed of them is not checked.
    pub ignored_tools: Vec<String>,
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
    let CheckOptions { filter, ignored_tools, proofs } = options;
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
    let gone = archive.remains()?.into_iter().filter(|(source, _, remains)| {
        filter.server.as_ref().is_none_or(|server| *server == archive.sources[*source].server)
            && filter.since.is_none_or(|since| since <= remains.until)
    });
    let gone_before = gone.map(|(_, _, remains)| remains.until).max();
    // Where receipts cannot be read, nothing can be said of what has none.
    let incomplete = gone_before.is_some() || !problems.is_empty();
    let claims: Vec<&Claim> = transcript
        .claims
        .iter()
        .filter(|claim| {
            !claim
                .tool
                .as_ref()
                .is_some_and(|tool| ignored_tools.iter().any(|name| compare_names(tool, name, "") != NameMatch::Other))
        })
        .collect();
    let claims: Vec<ComparableClaim<'_>> = claims.into_iter().map(ComparableClaim::of).collect();
    let mut matcher = Matcher::new(candidates, key);
    let matches = matcher.match_all(&claims);
    let mut report = ClaimReport {
        claims: Vec::with_capacity(claims.len()),
        unclaimed: Vec::new(),
        receipts: matcher.candidates.len(),
        gone_before,
        problems,
    };
    for (claim, matched) in claims.iter().zip(matches) {
        report.claims.push(finding(archive, &matcher, claim, matched, incomplete, *proofs));
    }
    let unclaimed = matcher.candidates.iter().filter(|one| !one.claimed);
    if archive.sources.is_empty() {
        report.problems.push("no guard has written any receipts".to_owned());
    }
    report.unclaimed = unclaimed.map(|one| reference(archive, &one.found)).collect();
    Ok(report)
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

fn finding(
    archive: &Archive,
    matcher: &Matcher<'_>,
    comparable: &ComparableClaim<'_>,
    matched: Match,
    gone: bool,
    proofs: bool,
) -> ClaimFinding {
    let claim = comparable.claim;
    let mut finding = ClaimFinding {
        at: claim.at.clone(),
        tool: claim.tool.clone(),
        call: claim.call.clone(),
        status: ClaimStatus::NeverHappened,
        receipt: None,
        differs: Vec::new(),
        remark: None,
    };
    let (n, status) = match matched {
        Match::Executed(n, view) => {
            if matches!(view, View::Letters | View::Joined) {
                finding.remark = Some("equal but for white space".to_owned());
            }
            (n, ClaimStatus::Executed)
        }
        Match::Failed(n) => {
            finding.remark = Some("the wording of the error is the client's, and was not compared".to_owned());
            (n, ClaimStatus::Failed)
        }
        Match::OtherResult(n) => {
            let parts = archive.parts(&matcher.candidates[n].found);
            finding.differs = result_differences(&matcher.candidates[n], &parts, comparable);
            (n, ClaimStatus::Altered)
        }
        Match::OtherArguments(n) => {
            let parts = archive.parts(&matcher.candidates[n].found);
            finding.differs = argument_differences(&matcher.candidates[n], &parts, comparable);
            (n, ClaimStatus::Altered)
        }
        Match::OtherName(n) => {
            let receipt = &matcher.candidates[n].found.receipt;
            finding.differs = vec![format!("the tool: '{}' was called, of server '{}'", receipt.tool, receipt.server)];
            (n, ClaimStatus::Altered)
        }
        Match::Repeated => {
            finding.status = ClaimStatus::Repeated;
            return finding;
        }
        Match::NoResult => {
            finding.status = ClaimStatus::NoResult;
            return finding;
        }
        Match::Nothing { gave_up } => {
            if gone || gave_up {
                finding.status = ClaimStatus::Unknown;
            }
            finding.remark = remark_on_no_receipt(matcher, comparable, gone, gave_up);
            return finding;
        }
    };
    let found = &matcher.candidates[n].found;
    let mut reference = reference(archive, found);
    finding.status = status;
    match archive.proof(found).and_then(|(proof, log)| Ok((proof.verify(&log)?, proof))) {
        Ok((checkpoint, proof)) => {
            reference.seq = Some(proof.seq);
            reference.checkpoint_size = Some(checkpoint.size);
            reference.proof = proofs.then(|| proof.to_text());
        }
        Err(error) => {
            finding.status = ClaimStatus::Unproven;
            finding.remark = Some(format!("its receipt cannot be proved: {error}"));
        }
    }
    finding.receipt = Some(reference);
    finding
}

fn remark_on_no_receipt(
    matcher: &Matcher<'_>,
    claim: &ComparableClaim<'_>,
    gone: bool,
    gave_up: bool,
) -> Option<String> {
    if gave_up {
        return Some(
            "there are too many receipts to compare with: narrow them with --since, --session or --server".to_owned(),
        );
    }
    if gone {
        return Some("no receipt of it is here, and some were let go or cannot be read".to_owned());
    }
    let tool = claim.claim.tool.as_ref()?;
    let seen = matcher.candidates.iter().any(|one| claim.name_match(&one.found.receipt) != NameMatch::Other);
    (!seen).then(|| {
        format!("no call of '{tool}' went through a guard: if it runs elsewhere, leave it out with --ignore-tool")
    })
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
