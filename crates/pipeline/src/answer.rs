//! What leaves: the signed trust-signals response of an agent for a page and a purpose, and its badge (seed 3; DESIGN,
//! *Assessment*).
//!
//! Facts come from the tables, the interpretation from [`credence_engine::assessment`], the signature from
//! [`credence_output`]. Nothing that an entity wrote about itself enters the text.

use credence_engine::{
    assessment::{Extension, Facts, Probes, Rules, Standing},
    universal::Outcome,
};
use std::collections::{BTreeMap, BTreeSet};

use credence_ledger::View;
use credence_output::{
    badge::{self, Claim, ClaimedAssured, Style},
    document::Document,
    response::{self, Fact, Meta},
};
use credence_protocol::{AUTHORITY_SOURCE, Alias, EntityId, ScoreStatus, SecretKey, Timestamp, Uuid, plain_path};
use data_encoding::HEXLOWER;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    Authority, Error, derive, domains, filter, integrity,
    query::{self, AgentRow, CurrentAssured, CurrentScore, Reading, Reputation},
    record::Input,
    reputation,
    summaries::{self, SIGNAL_WINDOW},
    tables,
};

/// Purposes that the protocol names.
pub const WELL_KNOWN: [&str; 3] = ["purchase", "inquiry", HIGH_VALUE];
/// The purpose whose answers hold the shortest.
const HIGH_VALUE: &str = "high-value";
/// How long a badge holds. Short, because a badge is shown where nobody asks whether its agent was revoked since.
const BADGE_SECONDS: i64 = 3600;
/// How long an answer holds: this is how long a revocation takes to reach everyone who keeps answers.
const HOLDS_SECONDS: i64 = 600;
/// How long one for a high-value purpose holds.
const HIGH_VALUE_SECONDS: i64 = 300;
/// Measurements listed at most, the newest ones.
const MAX_MEASUREMENTS: usize = 64;
/// How the tags of identity begin.
const IDENTITY: &str = "identity_";
/// From this value on a source says that an identity holds.
const VERIFIED_FROM: f64 = 50.0;
/// Characters of a page's address.
const MAX_URL: usize = 2048;
/// Characters of a purpose.
const MAX_CONTEXT: usize = 64;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// About whom: an id or an alias.
    pub entity: &'a str,
    /// The page that the asking agent is on.
    pub url: &'a str,
    /// Its purpose.
    pub context: Option<&'a str>,
}

/// A badge.
#[derive(Debug, Clone)]
pub struct Badge {
    /// Whose.
    pub agent: EntityId,
    /// The picture, with its signed claim inside.
    pub svg: String,
    /// SHA-256 of it, in hex.
    pub hash: String,
    /// Until when it can be relied on.
    pub expires: Timestamp,
}

/// A signed answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// About whom.
    pub agent: EntityId,
    /// The document.
    pub document: Document,
    /// Until when it holds.
    pub expires: Timestamp,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// From the ledger and what is made of it.
    #[error(transparent)]
    Pipeline(#[from] Error),
    /// The document could not be made.
    #[error(transparent)]
    Output(#[from] credence_output::Error),
    /// A page that is no page.
    #[error("url: an https address of at most {MAX_URL} characters, none of them control characters")]
    Url,
    /// The page is not the entity's.
    #[error("'{entity}' is not registered for that address: it has {}", if .scopes.is_empty() { "none".to_owned() } else { .scopes.join(", ") })]
    Mismatch {
        /// Who was asked about.
        entity: EntityId,
        /// The addresses it is registered for.
        scopes: Vec<String>,
    },
    /// The newest score event is behind: [`Authority::rescore`] it, then ask again ([`Authority::up_to_date`] does both).
    #[error("the newest score of '{0}' is behind its signals: rescoring is due")]
    Behind(EntityId),
}

impl From<credence_ledger::Error> for Refusal {
    fn from(error: credence_ledger::Error) -> Self {
        Self::Pipeline(error.into())
    }
}

impl Authority {
    /// Makes something that is signed, from a view in which the agent's newest score event is not behind: rescores the agent
    /// where `make` finds that it is.
    ///
    /// `make` is told whether the agent was rescored just now. Then its newest event is taken as it is ([`Answers::on`]): signals
    /// that came since are at most a moment ahead of it, and a stream of them must not keep anyone from an answer.
    pub fn up_to_date<T>(&self, mut make: impl FnMut(&dyn View, bool) -> Result<T, Refusal>) -> Result<T, Refusal> {
        match make(&*self.ledger().view()?, false) {
            Err(Refusal::Behind(agent)) => {
                self.rescore(&agent)?;
                make(&*self.ledger().view()?, true)
            }
            made => made,
        }
    }
}

/// How answers are made.
#[derive(Clone, Copy)]
pub struct Answers<'a> {
    /// How scores are read.
    pub reading: Reading<'a>,
    /// What each purpose asks for.
    pub rules: &'a Rules,
    /// Signs.
    pub key: &'a SecretKey,
    /// The agent was rescored just now: its newest event is taken as it is.
    rescored: bool,
}

impl<'a> Answers<'a> {
    /// Answers that rest on events which are not behind.
    pub fn new(reading: Reading<'a>, rules: &'a Rules, key: &'a SecretKey) -> Self {
        Self { reading, rules, key, rescored: false }
    }

    /// The same for an agent that was rescored just now, or was not.
    pub fn on(self, rescored: bool) -> Self {
        Self { rescored, ..self }
    }

    /// Answers a question at `now`; refused where the newest score event is behind.
    pub fn answer(&self, view: &dyn View, question: Question<'_>, now: Timestamp) -> Result<Answer, Refusal> {
        let Question { entity, url, context } = question;
        let url = checked_url(url)?;
        let context = sent_context(context);
        let purpose = context.map(purpose);
        let agent = query::resolve(view, entity)?;
        let row = query::agent(view, &agent)?;
        if !in_scope(&row.aliases, url) {
            return Err(Refusal::Mismatch { entity: agent, scopes: scopes(&row.aliases) });
        }
        let score = self.up_to_date(view, &agent, now)?;
        let stats = summaries::stats(view, &agent, SIGNAL_WINDOW, now)?;
        // A newcomer's low number means unknown, and a reader would take it for bad; a lapsed one says nothing of now.
        let reputation = query::reputation(view, &agent, now)?.filter(Reputation::counts);
        let standing = match row.revoked {
            Some(_) => Standing::Revoked,
            None => standing(view, &score, &row.aliases, url, now)?,
        };
        let assured = published_assured(&score);
        let facts = Facts {
            standing,
            outcome: published(&score),
            assured: assured.map(|assured| filter::assured_facts(Some(&assured.numbers))).transpose()?,
            sources: score.outcome.rated().map_or(0, |rated| rated.sources),
            score_event: score.seq,
            assured_event: assured.map(|assured| assured.seq),
            certification: score.certification.tier,
            output_quality: stats.signal.quality.zip(stats.signal.stddev).map(|(q, s)| (q, s, stats.signal.checks)),
            reputation: reputation.as_ref().map(|reputation| (reputation.row.score, reputation.row.events)),
            probes: probes(&score.inputs),
            signals: score.inputs.len(),
        };
        let mut assessment = self.rules.assess(&facts, purpose);
        let opinions = opinions(view, &agent, &stats, reputation.as_ref(), now)?;
        // Next to a revocation no number says anything.
        if standing != Standing::Revoked {
            assessment.extensions.extend(opinions);
        }
        let signals = signals(view, &agent, &row, &score, &stats, now)?;
        let seconds = if purpose == Some(HIGH_VALUE) { HIGH_VALUE_SECONDS } else { HOLDS_SECONDS };
        let expires = now.plus_seconds(seconds);
        let meta = Meta {
            response_id: Uuid::new_v4(),
            entity_id: agent.clone(),
            status: standing,
            url: url.to_owned(),
            context: context.map(str::to_owned),
            timestamp: now,
            expires,
        };
        let document = response::sign(&meta, &signals, Some(&assessment), self.key)?;
        Ok(Answer { agent, document, expires })
    }

    /// The badge of an agent: an SVG that carries its signed claim; refused where the newest score event is behind.
    pub fn badge(&self, view: &dyn View, entity: &str, style: Style, now: Timestamp) -> Result<Badge, Refusal> {
        let agent = query::resolve(view, entity)?;
        let current = self.up_to_date(view, &agent, now)?;
        let revoked = current.revoked;
        let score = published(&current).rated().map(|score| (score.score, score.stddev)).filter(|_| !revoked);
        let expires = now.plus_seconds(BADGE_SECONDS);
        let assured = published_assured(&current).filter(|_| !revoked).map(|assured| ClaimedAssured {
            score: assured.numbers.score,
            estimate: assured.numbers.estimate,
            known: assured.numbers.known,
            event: assured.seq,
            formula: assured.formula.clone(),
        });
        let claim = Claim::new(agent.clone(), score, style, now, expires)
            .revoked(revoked)
            .from_event(current.seq)
            .assured(assured);
        let svg = badge::issue(&claim, self.key)?;
        let hash = HEXLOWER.encode(&Sha256::digest(svg.as_bytes()));
        Ok(Badge { agent, svg, hash, expires })
    }

    /// The newest recorded score, which must not be behind.
    fn up_to_date(&self, view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<CurrentScore, Refusal> {
        if !self.rescored && self.reading.is_behind(view, agent, now)? {
            return Err(Refusal::Behind(agent.clone()));
        }
        let score = self.reading.score(view, agent)?;
        integrity::basis(view, &score)?;
        Ok(score)
    }
}

/// A page's address, if it can be one.
pub fn checked_url(url: &str) -> Result<&str, Refusal> {
    if url.chars().count() > MAX_URL || url.chars().any(char::is_control) { Err(Refusal::Url) } else { Ok(url) }
}

/// A context as it was sent, which is how the answer repeats it. One that is too long, or has control characters, is passed over, as
/// the protocol says of contexts that are not known.
pub fn sent_context(context: Option<&str>) -> Option<&str> {
    let plain = |context: &&str| {
        !context.is_empty() && context.chars().count() <= MAX_CONTEXT && !context.chars().any(char::is_control)
    };
    context.filter(plain)
}

/// What a context is assessed as: a purpose that is only spelled otherwise must not get the answer of no purpose.
fn purpose(context: &str) -> &str {
    let folded = context.to_ascii_lowercase().replace(['_', ' '], "-");
    WELL_KNOWN.into_iter().find(|known| *known == folded).unwrap_or(context)
}

/// The addresses among an entity's names.
fn scopes(aliases: &[Alias]) -> Vec<String> {
    let address = |alias: &&Alias| alias.as_str().starts_with("https://") || alias.as_str().starts_with("did:web:");
    aliases.iter().filter(address).map(ToString::to_string).collect()
}

/// The page to ask about where nobody says which: the first address among an entity's names.
pub fn home_page(aliases: &[Alias]) -> Option<String> {
    let (host, path) = aliases.iter().find_map(|alias| scope(alias.as_str()))?;
    Some(format!("https://{host}{path}"))
}

/// A score that is not published is not told either.
pub(crate) fn published(score: &CurrentScore) -> Outcome {
    match &score.outcome {
        Outcome::Rated(score) if score.status == ScoreStatus::Partial => Outcome::Unrated,
        outcome => *outcome,
    }
}

/// The same of the assured score: none where nothing that counts is measured.
pub(crate) fn published_assured(score: &CurrentScore) -> Option<&CurrentAssured> {
    score.assured.as_ref().filter(|assured| assured.numbers.status == ScoreStatus::Published)
}

/// Whether a page belongs to an entity: the same host, and below one of its addresses. An entity that registered no address
/// speaks for no page.
fn in_scope(aliases: &[Alias], url: &str) -> bool {
    let Some((host, path)) = host_and_path(url) else { return false };
    aliases.iter().any(|alias| {
        scope(alias.as_str()).is_some_and(|(their_host, prefix)| {
            let prefix = prefix.trim_end_matches('/');
            their_host == host && path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    })
}

/// The host and path that an alias stands for, if it is an address.
fn scope(alias: &str) -> Option<(String, String)> {
    match alias.strip_prefix("did:web:") {
        Some(rest) => {
            let mut parts = rest.split(':');
            let host = parts.next().unwrap_or_default().replace("%3A", ":").replace("%3a", ":");
            let path: String = parts.map(|part| format!("/{part}")).collect();
            Some((host.to_ascii_lowercase(), path))
        }
        None => host_and_path(alias),
    }
}

/// Of an https address as browsers read it, without query and fragment. What a server might read as climbing out of its path
/// (escaped slashes, escapes of escapes, dots with parameters) is no path.
fn host_and_path(url: &str) -> Option<(String, String)> {
    if url.trim() != url || url.chars().any(|c| c.is_whitespace() || c == '\\') {
        return None;
    }
    let parsed = url::Url::parse(url).ok().filter(|parsed| parsed.scheme() == "https")?;
    // With the dot of the root it is the same host.
    let (host, path) = (parsed.host_str()?, parsed.path());
    let host = host.strip_suffix('.').unwrap_or(host);
    let lower = path.to_ascii_lowercase();
    let tricky = ["%2f", "%5c", "%25", "%2e"].iter().any(|escape| lower.contains(escape))
        || path.split('/').any(|part| part.starts_with(".."));
    let bare = parsed.username().is_empty() && parsed.password().is_none();
    let host = parsed.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    // As aliases are written.
    let path = plain_path(path).ok()?;
    (bare && !tricky).then_some((host, path))
}

/// Verified while a source's word on who owns the page's host is fresh; lapsed when it is old; pending when there is none. A word
/// that names hosts is about those; one that names none is about an agent whose addresses are all on one.
fn standing(
    view: &dyn View,
    score: &CurrentScore,
    aliases: &[Alias],
    url: &str,
    now: Timestamp,
) -> Result<Standing, Refusal> {
    let page = host_and_path(url).map(|(host, _)| host).unwrap_or_default();
    let hosts: BTreeSet<String> =
        aliases.iter().filter_map(|alias| scope(alias.as_str())).map(|(host, _)| host).collect();
    let mut standing = Standing::Pending;
    for input in score.inputs.iter().filter(|input| input.tag.as_str() == domains::TAG && input.value >= 50.0) {
        let body = query::record(view, input.seq)?;
        let at = match domains::hosts_in(&body["evidence"]) {
            // Nobody proves in the future.
            Some(proved) => {
                let found = proved.into_iter().find(|one| one.host == page).map(|one| one.at);
                found.zip(observed_at(&body)).map(|(at, observed)| at.min(observed))
            }
            None if hosts.len() == 1 => observed_at(&body),
            None => None,
        };
        match at {
            Some(at) if now <= at.plus_seconds(domains::HOLDS_SECONDS) => return Ok(Standing::Verified),
            Some(_) => standing = Standing::Lapsed,
            None => {}
        }
    }
    Ok(standing)
}

fn observed_at(body: &Value) -> Option<Timestamp> {
    body["observed_at"].as_str().and_then(|text| text.parse().ok())
}

/// What reviewers whose word weighs anything say within the window, 0..=1, and how many they are.
fn ratings(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Option<(f64, usize)>, Refusal> {
    let reviews = query::reviews(view, agent, now)?;
    let weight: f64 = reviews.iter().map(|(_, row)| row.weight).sum();
    let sum: f64 = reviews.iter().map(|(_, row)| row.weight * row.rating).sum();
    Ok((weight > 0.0).then(|| (sum / weight, reviews.len())))
}

fn probes(inputs: &[Input]) -> Option<Probes> {
    let under_attack = inputs.iter().filter(|input| input.tag.as_str().starts_with("asi"));
    Probes::of(under_attack.map(|input| (input.tag.as_str(), input.value)))
}

/// What the authority makes of facts, beside the scores: it travels with the assessment, not among the facts.
fn opinions(
    view: &dyn View,
    agent: &EntityId,
    stats: &summaries::Stats,
    reputation: Option<&Reputation>,
    now: Timestamp,
) -> Result<BTreeMap<&'static str, Extension>, Refusal> {
    let mut all = BTreeMap::new();
    let mut add = |name, value: Value, description| drop(all.insert(name, Extension { value, description }));
    if stats.signal.quality.is_some() {
        let coverage = derive::output_coverage(stats.signal.checks);
        add("outputCoverage", json!(coverage.value), "how much was checked, 0 to 100");
        add("hcs25Quality", json!(stats.hcs25.quality), "output quality as HCS-25 computes it");
    }
    if let Some(reputation) = reputation {
        add(
            "reputationMean",
            json!(reputation.readable.geometric_mean),
            "the same on the scale of one factor: 100 times the fourth root",
        );
    }
    if let Some((rating, _)) = ratings(view, agent, now)? {
        add("aggregateRating", json!(rating), "what reviewers say, 0 to 1, weighted by their reputation");
    }
    Ok(all)
}

/// The facts: what was verified, apart from what it means.
fn signals(
    view: &dyn View,
    agent: &EntityId,
    row: &AgentRow,
    score: &CurrentScore,
    stats: &summaries::Stats,
    now: Timestamp,
) -> Result<Vec<Fact>, Refusal> {
    let mut all = Vec::new();
    let mut add = |kind: &'static str, at: Timestamp, data: Value| -> Result<(), Refusal> {
        let data: Map<String, Value> = data.as_object().cloned().unwrap_or_default();
        all.push(Fact::new(kind, at, data)?);
        Ok(())
    };
    let declared = tables::get::<IgnoredAny>(view, tables::IDENTITIES, agent.as_str())?.is_some();
    let member =
        json!({ "memberSince": row.registered_at, "identityDeclared": declared, "addressCount": row.aliases.len() });
    // To be registered is not to be verified: that takes a source that looked.
    add("credence.registration", row.registered_at, member.clone())?;
    let looked = score.inputs.iter().filter(|one| one.tag.as_str().starts_with(IDENTITY) && one.value >= VERIFIED_FROM);
    if let Some(last) = looked.map(|input| input.observed_at).max() {
        add("identity", Timestamp::from_micros(last).map_err(Error::from)?, member)?;
    }
    let sources: BTreeSet<&str> = score.inputs.iter().map(|input| input.source.as_str()).collect();
    if !sources.is_empty() {
        let mut data = json!({ "sourceCount": sources.len() });
        if let Some((_, count)) = ratings(view, agent, now)? {
            data["reviewCount"] = json!(count);
        }
        add("reputation", now, data)?;
    }
    // What sources found of certificates and audits: when, and how many of them.
    let mut audits = Vec::new();
    for input in score.inputs.iter().filter(|input| input.tag.as_str() == "compliance_evidence") {
        audits.extend(observed_at(&query::record(view, input.seq)?));
    }
    if let Some(last) = audits.iter().max() {
        add("compliance", *last, json!({ "lastAudit": last, "sourceCount": audits.len() }))?;
    }
    // Whoever deals with it can dispute its contracts here.
    if query::has_contracts(view, agent)? {
        let hours = reputation::DEFAULT_CHALLENGE_HOURS;
        let data = json!({ "mechanism": "challenge", "provider": AUTHORITY_SOURCE, "challengeWindowHours": hours });
        add("recourse", now, data)?;
    }
    let checked = stats.checked();
    if checked.checks > 0 {
        let data = json!({ "checks": checked.checks, "blocked": checked.blocked, "providers": checked.providers, "window": stats.window });
        add("credence.checks", now, data)?;
    }
    // What the authority derived itself is its opinion.
    let derived =
        |input: &&Input| input.source.as_str() == AUTHORITY_SOURCE && derive::OWN_TAGS.contains(&input.tag.as_str());
    let mut inputs: Vec<&Input> = score.inputs.iter().filter(|input| !derived(input)).collect();
    inputs.sort_by_key(|input| std::cmp::Reverse(input.seq));
    if let Some(left_out) = inputs.len().checked_sub(MAX_MEASUREMENTS).filter(|left_out| *left_out > 0) {
        let data = json!({ "measurements": inputs.len(), "listed": MAX_MEASUREMENTS, "leftOut": left_out });
        add("credence.leftOut", now, data)?;
    }
    for input in inputs.into_iter().take(MAX_MEASUREMENTS) {
        let kind = if input.tag.as_str().starts_with("asi") { "credence.probe" } else { "credence.measurement" };
        let data = json!({ "tag": input.tag, "value": input.value, "stddev": input.stddev, "source": input.source, "entry": input.seq });
        add(kind, observed_at(&query::record(view, input.seq)?).unwrap_or(now), data)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_belong_to_the_address_above_them() {
        let aliases: Vec<Alias> =
            ["https://shop.example/de", "did:web:bot.example"].iter().map(|text| Alias::parse(text).unwrap()).collect();
        for inside in [
            "https://shop.example/de",
            "https://shop.example/de/x?y=1",
            "https://SHOP.example:443/de/",
            "https://bot.example/any#f",
        ] {
            assert!(in_scope(&aliases, inside), "{inside}");
        }
        for outside in [
            "https://shop.example/",
            "https://shop.example/dex",
            "https://shop.example/de/../admin",
            "https://shop.example/de/%2e%2e/admin",
            "https://shop.example/de/.. ",
            "https://shop.example/de/..;/admin",
            "https://shop.example/de/%252e%252e/admin",
            "https://shop.example/de/..%5c..%5cadmin",
            "https://shop.example.evil.example/de",
            "https://shop.example@evil.example/de",
            "https://evil.example/?https://shop.example/de",
            "http://shop.example/de",
            "https://shop.example:8443/de",
            "",
        ] {
            assert!(!in_scope(&aliases, outside), "{outside}");
        }
        assert!(!in_scope(&[], "https://shop.example/"));
    }
}
