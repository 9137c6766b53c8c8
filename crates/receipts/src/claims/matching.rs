//! Which receipt backs which claim.

use std::collections::HashMap;

use credence_protocol::{SecretKey, Uuid, receipt::View};

use super::{
    compare::{Candidate, ComparableClaim, Compared},
    names::NameMatch,
};
use crate::{parts::fingerprint, transcript::ClaimedResult};

/// Comparisons beyond which no more are made for claims that nothing was found for.
const MAX_COMPARISONS: u64 = 20_000_000;

/// What was found for a claim: the number of the receipt, and how it compares.
pub(super) enum Match {
    Executed(usize, View),
    Failed(usize),
    OtherResult(usize),
    OtherArguments(usize),
    OtherName(usize),
    Repeated,
    NoResult,
    Nothing { gave_up: bool },
}

/// Finds the receipt behind each claim.
pub(super) struct Matcher<'k> {
    pub candidates: Vec<Candidate>,
    by_print: HashMap<String, Vec<usize>>,
    comparisons: u64,
    key: &'k SecretKey,
}

impl<'k> Matcher<'k> {
    pub fn new(candidates: Vec<Candidate>, key: &'k SecretKey) -> Self {
        let mut by_print: HashMap<String, Vec<usize>> = HashMap::new();
        for (n, one) in candidates.iter().enumerate() {
            by_print.entry(one.private.print.clone()).or_default().push(n);
        }
        Self { candidates, by_print, comparisons: 0, key }
    }

    /// What was found for each claim.
    pub fn match_all(&mut self, claims: &[ComparableClaim<'_>]) -> Vec<Match> {
        let mut outcomes: Vec<Option<Match>> = claims.iter().map(|_| None).collect();
        let mut seen: HashMap<&str, Vec<usize>> = HashMap::new();
        for (n, claim) in claims.iter().enumerate() {
            if matches!(claim.claim.result, ClaimedResult::Nothing) {
                outcomes[n] = Some(Match::NoResult);
                continue;
            }
            // JSON-RPC counts from the beginning in every session: the same number is not the same call.
            if let Some(call) = claim.claim.call.as_deref().filter(|call| call.parse::<f64>().is_err()) {
                let earlier = seen.entry(call).or_default();
                if earlier.iter().any(|first| claims[*first].same(claim)) {
                    outcomes[n] = Some(Match::Repeated);
                    continue;
                }
                earlier.push(n);
            }
        }
        let steps: [fn(&mut Self, &ComparableClaim<'_>) -> Option<Match>; 5] =
            [Self::by_receipt, Self::by_everything, Self::by_arguments, Self::by_result, Self::by_longer_name];
        for step in steps {
            for (claim, outcome) in claims.iter().zip(&mut outcomes) {
                if outcome.is_none() {
                    *outcome = step(self, claim);
                }
            }
        }
        let gave_up = self.comparisons >= MAX_COMPARISONS;
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Match::Nothing { gave_up })).collect()
    }

    fn take(&mut self, n: usize, outcome: Match) -> Option<Match> {
        self.candidates[n].claimed = true;
        Some(outcome)
    }

    fn by_receipt(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        let call: Uuid = claim.claim.receipt.as_deref()?.parse().ok()?;
        let n = self.candidates.iter().position(|one| !one.claimed && one.found.receipt.call == call)?;
        if !claim.names(&self.candidates[n].found.receipt) {
            return None;
        }
        let outcome = match (self.candidates[n].arguments_match(claim), self.candidates[n].result(claim)) {
            (true, Some(outcome)) => outcome.at(n),
            (true, None) => Match::OtherResult(n),
            (false, _) => Match::OtherArguments(n),
        };
        self.take(n, outcome)
    }

    /// Receipts not yet claimed that have these arguments.
    fn with_arguments(&self, claim: &ComparableClaim<'_>) -> Vec<usize> {
        let print = data_encoding::BASE64URL_NOPAD.encode(&fingerprint(self.key, claim.arguments.as_ref()));
        let known = self.by_print.get(&print).into_iter().flatten().copied();
        known
            .filter(|n| {
                let one = &self.candidates[*n];
                !one.claimed && claim.names(&one.found.receipt) && one.arguments_match(claim)
            })
            .collect()
    }

    fn by_everything(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        if claim.claim.tool.is_none() && claim.claim.arguments.is_none() {
            return None;
        }
        let (n, found) =
            self.with_arguments(claim).into_iter().find_map(|n| Some((n, self.candidates[n].result(claim)?)))?;
        self.take(n, found.at(n))
    }

    fn by_arguments(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        // A result of no call in the transcript says nothing of arguments.
        claim.claim.tool.as_ref()?;
        let n = *self.with_arguments(claim).first()?;
        self.take(n, Match::OtherResult(n))
    }

    /// The same arguments and result, under a name that is the tool's with something before it.
    fn by_longer_name(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        let print = data_encoding::BASE64URL_NOPAD.encode(&fingerprint(self.key, claim.arguments.as_ref()));
        let n = self.by_print.get(&print).into_iter().flatten().copied().find(|n| {
            let one = &self.candidates[*n];
            !one.claimed
                && claim.name_match(&one.found.receipt) == NameMatch::Longer
                && one.arguments_match(claim)
                && one.result(claim).is_some()
        })?;
        self.take(n, Match::OtherName(n))
    }

    fn by_result(&mut self, claim: &ComparableClaim<'_>) -> Option<Match> {
        let no_call = claim.claim.tool.is_none();
        let mut found = None;
        for (n, one) in self.candidates.iter().enumerate() {
            if one.claimed || !claim.names(&one.found.receipt) {
                continue;
            }
            self.comparisons += 1;
            if self.comparisons > MAX_COMPARISONS {
                break;
            }
            // Nearly empty results are alike by chance.
            if let Some(Compared::Equal(view)) = one.result(claim)
                && (!matches!(view, View::Letters | View::Joined) || no_call)
                && claim.readings.iter().flatten().any(|(_, form)| form.len() >= 8)
            {
                found = Some((n, view));
                break;
            }
        }
        let (n, view) = found?;
        self.take(n, if no_call { Match::Executed(n, view) } else { Match::OtherArguments(n) })
    }
}
