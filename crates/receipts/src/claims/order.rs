//! The order of calls: where the transcript shows one call's result before another call, the first must have gone out first. Calls
//! that are made together, before any of their results, have no order, nor have those of two conversations. Equal calls (same
//! tool, arguments and result) cannot be told from one another, so nothing is said of their order among themselves.

use std::collections::HashMap;

use super::{
    compare::ComparableClaim,
    matching::{Earlier, Match, Matcher, order_of_calls},
};

/// For each claim that is out of order, the claim whose result the transcript shows before it, and whose call went out later.
pub(super) fn out_of_order(
    matcher: &Matcher<'_>,
    claims: &[ComparableClaim<'_>],
    matches: &[Match],
) -> HashMap<usize, usize> {
    let mut found = HashMap::new();
    let mut earlier = Earlier::default();
    for n in order_of_calls(claims) {
        let before = earlier.before(&claims[n]);
        let Some(receipt) = matches[n].genuine() else { continue };
        let started = matcher.candidates[receipt].found.receipt.started_at;
        if let Some((latest, first)) = before
            && started < latest
        {
            found.insert(n, first);
        }
        earlier.note(n, &claims[n], started);
    }
    found
}

/// How many genuine claims equal another in tool, arguments and result.
pub(super) fn equal_claims(claims: &[ComparableClaim<'_>], matches: &[Match]) -> usize {
    let mut groups: HashMap<(Option<&str>, &[_]), Vec<usize>> = HashMap::new();
    for (n, claim) in claims.iter().enumerate().filter(|(n, _)| matches[*n].genuine().is_some()) {
        groups.entry((claim.claim.tool.as_deref(), &claim.readings)).or_default().push(n);
    }
    let mut equal = 0;
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let mut by_arguments: HashMap<Option<String>, usize> = HashMap::new();
        for n in group {
            let form = claims[n].arguments.as_ref().map(credence_protocol::receipt::Exact::canonical);
            *by_arguments.entry(form).or_default() += 1;
        }
        equal += by_arguments.into_values().filter(|count| *count > 1).sum::<usize>();
    }
    equal
}
