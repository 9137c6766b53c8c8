//! Which receipt backs which claim.
//!
//! Claims are matched in the order of their calls, and each takes the earliest receipt that is not before those of results it
//! comes after: so equal calls keep their order as far as they can, and the search goes on where it ended. Salted commitments
//! cannot be looked up, so only arguments have an index (by fingerprint); comparisons are counted and bounded.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use credence_protocol::{SecretKey, Timestamp, Uuid, receipt::CallOutcome, receipt::View};

use super::{
    compare::{Candidate, ComparableClaim, Compared},
    names::{NameMatch, Names, Resolved},
};
use crate::{parts::fingerprint, transcript::ClaimedResult};

/// Comparisons beyond which no more are made; what then has no receipt is unknown.
const MAX_COMPARISONS: u64 = 20_000_000;
/// Comparisons with the results of calls with other arguments: they tell only that a claim that nothing backs is an altered one.
const MAX_OTHER_ARGUMENTS: u64 = 1_000_000;

/// What was found for a claim: the number of the receipt, and how it compares.
#[derive(Clone, Copy)]
pub(super) enum Match {
    Executed(usize, View),
    Failed(usize),
    OtherResult(usize),
    OtherArguments(usize),
    OtherName(usize),
    Repeated,
    NoResult(Option<usize>),
    Nothing { gave_up: bool },
}

impl Match {
    /// The receipt of a claim that is as it was told.
    pub fn genuine(self) -> Option<usize> {
        match self {
            Match::Executed(n, _) | Match::Failed(n) => Some(n),
            _ => None,
        }
    }

    /// The receipt behind the claim.
    pub fn receipt(self) -> Option<usize> {
        match self {
            Match::OtherResult(n) | Match::OtherArguments(n) | Match::OtherName(n) => Some(n),
            Match::NoResult(n) => n,
            other => other.genuine(),
        }
    }
}

/// Receipts in the order of time, of which some are taken.
#[derive(Default)]
struct Run {
    members: Vec<usize>,
    /// For each member, the next one that may be free; itself while it is.
    next: Vec<usize>,
}

impl Run {
    fn push(&mut self, n: usize) {
        self.next.push(self.next.len());
        self.members.push(n);
    }

    /// The first position from `from` on whose receipt is not taken.
    fn free(&mut self, from: usize, candidates: &[Candidate]) -> Option<usize> {
        let mut at = from;
        while at < self.members.len() && (self.next[at] != at || candidates[self.members[at]].claimed) {
            self.next[at] = self.next[at].max(at + 1);
            at = self.next[at];
        }
        // The next search for the same comes here at once.
        let mut behind = from;
        while behind < at {
            behind = std::mem::replace(&mut self.next[behind], at);
        }
        (at < self.members.len()).then_some(at)
    }
}

/// Times of receipts whose results a claim comes after.
#[derive(Default)]
pub(super) struct Earlier {
    conversation: usize,
    /// By the moment of the result in the transcript: when its call went out, and the claim.
    waiting: BinaryHeap<Reverse<(usize, Timestamp, usize)>>,
    latest: Option<(Timestamp, usize)>,
}

impl Earlier {
    /// The latest call whose result comes before this claim's call, and its claim. Claims are asked in the order of calls.
    pub fn before(&mut self, claim: &ComparableClaim<'_>) -> Option<(Timestamp, usize)> {
        let order = claim.claim.order;
        if self.conversation != order.conversation {
            *self = Self { conversation: order.conversation, ..Self::default() };
        }
        while let Some(Reverse((answered, started, n))) = self.waiting.peek().copied() {
            if answered >= order.called {
                break;
            }
            self.waiting.pop();
            if self.latest.is_none_or(|(latest, _)| started > latest) {
                self.latest = Some((started, n));
            }
        }
        self.latest
    }

    /// Notes claim `n`, whose call went out then.
    pub fn note(&mut self, n: usize, claim: &ComparableClaim<'_>, started: Timestamp) {
        self.waiting.push(Reverse((claim.claim.order.answered, started, n)));
    }
}

/// Finds the receipt behind each claim.
pub(super) struct Matcher<'k> {
    pub candidates: Vec<Candidate>,
    names: Names,
    resolved: HashMap<(Option<String>, Option<String>), usize>,
    resolutions: Vec<Resolved>,
    by_call: HashMap<Uuid, usize>,
    by_print: HashMap<String, Run>,
    by_kind: Vec<Run>,
    all: Run,
    /// Comparisons of a claim with a receipt so far.
    pub comparisons: u64,
    other_arguments: u64,
    key: &'k SecretKey,
}

impl<'k> Matcher<'k> {
    /// `candidates` in the order of time.
    pub fn new(candidates: Vec<Candidate>, names: Names, key: &'k SecretKey) -> Self {
        let mut matcher = Self {
            names,
            resolved: HashMap::new(),
            resolutions: Vec::new(),
            by_call: HashMap::new(),
            by_print: HashMap::new(),
            by_kind: Vec::new(),
            all: Run::default(),
            comparisons: 0,
            other_arguments: 0,
            key,
            candidates,
        };
        matcher.by_kind.resize_with(matcher.names.len(), Run::default);
        for (n, one) in matcher.candidates.iter().enumerate() {
            matcher.by_call.insert(one.found.receipt.call, n);
            matcher.by_print.entry(one.private.print.clone()).or_default().push(n);
            matcher.by_kind[one.kind].push(n);
            matcher.all.push(n);
        }
        matcher
    }

    /// What the name in a claim stands for.
    pub fn resolve(&mut self, claim: &ComparableClaim<'_>) -> usize {
        let name = (claim.claim.tool.clone(), claim.claim.server.clone());
        if let Some(number) = self.resolved.get(&name) {
            return *number;
        }
        let resolved = match &name.0 {
            Some(tool) => self.names.resolve(tool, name.1.as_deref()),
            None => Resolved::anything(self.names.len()),
        };
        self.resolutions.push(resolved);
        self.resolved.insert(name, self.resolutions.len() - 1);
        self.resolutions.len() - 1
    }

    /// A resolution by its number.
    pub fn resolution(&self, number: usize) -> &Resolved {
        &self.resolutions[number]
    }

    /// What was found for each claim.
    pub fn match_all(&mut self, claims: &[ComparableClaim<'_>]) -> Vec<Match> {
        let mut outcomes: Vec<Option<Match>> = claims.iter().map(|_| None).collect();
        let mut seen: HashSet<(&str, [u8; 32])> = HashSet::new();
        for (n, claim) in claims.iter().enumerate() {
            if matches!(claim.claim.result, ClaimedResult::Nothing) {
                continue;
            }
            // JSON-RPC counts from the beginning in every session: the same number is not the same call.
            let identity = claim.identity().filter(|(call, _)| call.parse::<f64>().is_err());
            outcomes[n] = match identity {
                Some(identity) if !seen.insert(identity) => Some(Match::Repeated),
                _ => self.by_receipt(claim),
            };
        }
        let in_order = order_of_calls(claims);
        let mut earlier = Earlier::default();
        let told = |n: &usize| !matches!(claims[*n].claim.result, ClaimedResult::Nothing);
        for n in in_order.iter().copied().filter(told) {
            let after = earlier.before(&claims[n]).map(|(after, _)| after);
            if outcomes[n].is_none() {
                outcomes[n] = self.by_everything(&claims[n], after);
            }
            if let Some(receipt) = outcomes[n].and_then(Match::genuine) {
                earlier.note(n, &claims[n], self.candidates[receipt].found.receipt.started_at);
            }
        }
        let steps: [fn(&mut Self, &ComparableClaim<'_>) -> Option<Match>; 3] =
            [Self::by_arguments, Self::by_result, Self::by_other_name];
        for step in steps {
            for n in in_order.iter().copied().filter(told) {
                if outcomes[n].is_none() {
                    outcomes[n] = step(self, &claims[n]);
                }
            }
        }
        for n in in_order.iter().copied().filter(|n| !told(n)) {
            outcomes[n] = Some(Match::NoResult(self.without_result(&claims[n])));
        }
        // What was not compared may be genuine.
        let gave_up = self.comparisons > MAX_COMPARISONS;
        outcomes.into_iter().map(|one| one.unwrap_or(Match::Nothing { gave_up })).collect()
    }

    fn take(&mut self, n: usize, outcome: Match) -> Option<Match> {
        self.candidates[n].claimed = true;
        Some(outcome)
    }

    fn names_tool(&mut self, claim: &ComparableClaim<'_>, n: usize) -> NameMatch {
        let resolved = self.resolve(claim);
        self.resolutions[resolved].with(self.candidates[n].kind)
    }

    /// By the receipt that the claim names.
    fn by_receipt(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        let call: Uuid = claim.claim.receipt.as_deref()?.parse().ok()?;
        let n = self.by_call.get(&call).copied().filter(|n| !self.candidates[*n].claimed)?;
        if self.names_tool(claim, n) != NameMatch::Same {
            return None;
        }
        self.comparisons += 1;
        let outcome = match (self.candidates[n].arguments_match(claim), self.candidates[n].result(claim)) {
            (true, Some(outcome)) => outcome.at(n),
            (true, None) => Match::OtherResult(n),
            (false, _) => Match::OtherArguments(n),
        };
        self.take(n, outcome)
    }

    /// The first receipt not yet claimed, of these arguments and of a tool so named, that `fits`; those from `after` on first.
    fn with_arguments<T>(
        &mut self,
        claim: &ComparableClaim<'_>,
        name: NameMatch,
        after: Option<Timestamp>,
        mut fits: impl FnMut(usize, &Candidate) -> Option<T>,
    ) -> Option<T> {
        let print = data_encoding::BASE64URL_NOPAD.encode(&fingerprint(self.key, claim.arguments.as_ref()));
        let resolved = self.resolve(claim);
        let Self { by_print, candidates, resolutions, comparisons, .. } = self;
        let run = by_print.get_mut(&print)?;
        let started = |n: &usize| candidates[*n].found.receipt.started_at;
        let begin = after.map_or(0, |after| run.members.partition_point(|n| started(n) < after));
        for (from, to) in [(begin, run.members.len()), (0, begin)] {
            let mut at = from;
            while let Some(free) = run.free(at, candidates).filter(|free| *free < to) {
                at = free + 1;
                let one = &candidates[run.members[free]];
                if resolutions[resolved].with(one.kind) != name {
                    continue;
                }
                *comparisons += 1;
                if *comparisons > MAX_COMPARISONS {
                    return None;
                }
                if one.arguments_match(claim)
                    && let Some(found) = fits(run.members[free], one)
                {
                    return Some(found);
                }
            }
        }
        None
    }

    fn by_everything(&mut self, claim: &ComparableClaim<'_>, after: Option<Timestamp>) -> Option<Match> {
        if claim.claim.tool.is_none() && claim.claim.arguments.is_none() {
            return None;
        }
        let (n, found) = self.with_arguments(claim, NameMatch::Same, after, |n, one| Some((n, one.result(claim)?)))?;
        self.take(n, found.at(n))
    }

    fn by_arguments(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        // A result of no call in the transcript says nothing of arguments.
        claim.claim.tool.as_ref()?;
        let answered = |n: usize, one: &Candidate| (one.found.receipt.outcome != CallOutcome::Unanswered).then_some(n);
        let n = self
            .with_arguments(claim, NameMatch::Same, None, answered)
            .or_else(|| self.with_arguments(claim, NameMatch::Same, None, |n, _| Some(n)))?;
        self.take(n, Match::OtherResult(n))
    }

    /// The call that a transcript shows without a result.
    fn without_result(&mut self, claim: &ComparableClaim<'_>) -> Option<usize> {
        claim.claim.tool.as_ref()?;
        let unanswered =
            |n: usize, one: &Candidate| (one.found.receipt.outcome == CallOutcome::Unanswered).then_some(n);
        let n = self
            .with_arguments(claim, NameMatch::Same, None, unanswered)
            .or_else(|| self.with_arguments(claim, NameMatch::Same, None, |n, _| Some(n)))?;
        self.candidates[n].claimed = true;
        Some(n)
    }

    /// The same arguments and result, under the tool's name with another server's, or something else, in front of it.
    fn by_other_name(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        let fits = |n: usize, one: &Candidate| one.result(claim).map(|_| n);
        let n = self.with_arguments(claim, NameMatch::OtherServer, None, fits)?;
        self.take(n, Match::OtherName(n))
    }

    /// The same result of a call with other arguments; of any call where the transcript shows none.
    fn by_result(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        // Nearly empty results are alike by chance.
        if !claim.readings.iter().flatten().any(|(_, form)| form.len() >= 8) {
            return None;
        }
        let no_call = claim.claim.tool.is_none();
        let resolved = self.resolve(claim);
        let kinds: Vec<usize> = self.resolutions[resolved].same().collect();
        let Self { by_kind, all, candidates, comparisons, other_arguments, .. } = self;
        let mut runs: Vec<&mut Run> = if no_call {
            vec![all]
        } else {
            by_kind.iter_mut().enumerate().filter(|(kind, _)| kinds.contains(kind)).map(|(_, run)| run).collect()
        };
        let mut found = None;
        'runs: for run in &mut runs {
            let mut at = 0;
            while let Some(free) = run.free(at, candidates) {
                at = free + 1;
                let (spent, most) = if no_call {
                    (&mut *comparisons, MAX_COMPARISONS)
                } else {
                    (&mut *other_arguments, MAX_OTHER_ARGUMENTS)
                };
                *spent += 1;
                if *spent > most {
                    break 'runs;
                }
                let n = run.members[free];
                if let Some(Compared::Equal(view)) = candidates[n].result(claim)
                    && (!matches!(view, View::Letters | View::Joined) || no_call)
                {
                    found = Some((n, view));
                    break 'runs;
                }
            }
        }
        let (n, view) = found?;
        self.take(n, if no_call { Match::Executed(n, view) } else { Match::OtherArguments(n) })
    }
}

/// The numbers of the claims, in the order of their calls, conversation by conversation.
pub(super) fn order_of_calls(claims: &[ComparableClaim<'_>]) -> Vec<usize> {
    let mut in_order: Vec<usize> = (0..claims.len()).collect();
    in_order.sort_by_key(|n| (claims[*n].claim.order.conversation, claims[*n].claim.order.called));
    in_order
}
