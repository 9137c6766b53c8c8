//! JSON Schemas (draft 2020-12) of the documents that come from outside, as text: whoever checks them brings a validator.

/// HCS-25's `outputVerificationSummary`, with Credence's `canaries`.
pub const OUTPUT_VERIFICATION_SUMMARY: &str = include_str!("../schemas/output-verification-summary.json");
/// Who an agent is, in its own words.
pub const IDENTITY: &str = include_str!("../schemas/identity.json");
/// A claim an agent stands by.
pub const CONTRACT: &str = include_str!("../schemas/contract.json");
/// What a contract came to, by a verifier.
pub const VERIFICATION: &str = include_str!("../schemas/verification.json");
/// A contract disputed.
pub const CHALLENGE: &str = include_str!("../schemas/challenge.json");
/// What a challenge came to.
pub const RESOLUTION: &str = include_str!("../schemas/resolution.json");
/// What one agent says of another.
pub const REVIEW: &str = include_str!("../schemas/review.json");
/// An agent's reputation, as published.
pub const REPUTATION_SCORE: &str = include_str!("../schemas/reputation-score.json");
/// An output-verification window of an agent, as a provider submits it.
pub const SUMMARY: &str = include_str!("../schemas/summary.json");

/// Every schema with its name.
pub const ALL: [(&str, &str); 9] = [
    ("output-verification-summary", OUTPUT_VERIFICATION_SUMMARY),
    ("summary", SUMMARY),
    ("identity", IDENTITY),
    ("contract", CONTRACT),
    ("verification", VERIFICATION),
    ("challenge", CHALLENGE),
    ("resolution", RESOLUTION),
    ("review", REVIEW),
    ("reputation-score", REPUTATION_SCORE),
];
