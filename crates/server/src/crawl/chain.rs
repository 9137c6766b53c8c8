//! The reader of a chain as a source: one block for all agents of a round, one book of logs for the chain, and from a reading to
//! signals.
//!
//! The block is taken anew once it is [`HEAD_SECONDS`] old. The first question that finds it old reads the logs on up to the new one,
//! and the others wait for it. A node that refuses to search logs is read without them. A cluster of Solana has no logs to read: its
//! accounts hold what is read.
//!
//! Evidence of a signal is `{"crawl": {"link", "reader", "block", "block_hash", "numbers", "notes"}}`, and in the first signal of a
//! reading the `registration`: digests, origins and accounts, never text of a registry.

use std::{collections::BTreeSet, time::Duration};

use credence_chain::{
    ChainError,
    evm::{EvmReader, Head, LogBook},
    reading::{Reading as ChainReading, Registration},
    solana::{MAIN_CLUSTER, SolanaHead, SolanaReader},
};
use credence_ingest::{
    Measured, Reading, Reason,
    links::{Answering, CheckFailure, Registered, RegistryReader},
};
use credence_pipeline::{links::feeding::EVIDENCE, registrations};
use credence_protocol::{Canonical, EntityId, ExternalSubject, Root, Timestamp};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};

use super::outcome::Found;

/// Seconds for which all agents are read at one block.
const HEAD_SECONDS: i64 = 60;
/// Bytes of a registration in a signal, which holds 4 KiB altogether.
const MAX_REGISTRATION_BYTES: usize = 2_048;

/// Reads one chain's registries for the crawler.
pub struct ChainSource {
    id: EntityId,
    root: Root,
    chain: String,
    reader: Reader,
}

/// By the kind of chain, with what all agents of a round share.
enum Reader {
    Evm(Box<EvmReader>, RwLock<Shared>),
    Solana(Box<SolanaReader>, Mutex<Option<(SolanaHead, Timestamp)>>),
}

#[derive(Default)]
struct Shared {
    head: Option<(Head, Timestamp)>,
    book: LogBook,
}

/// Whether a block that was taken at `at` is still read at.
fn is_fresh(at: Timestamp, now: Timestamp) -> bool {
    now <= at.plus_seconds(HEAD_SECONDS)
}

fn unix_seconds(now: Timestamp) -> u64 {
    u64::try_from(now.micros() / 1_000_000).unwrap_or_default()
}

impl ChainSource {
    /// How long a reading holds.
    pub(super) const TTL: Duration = Duration::from_secs(24 * 3600);
    /// Raised with every change of what a reading means.
    pub(super) const VERSION: u32 = 1;
    /// The weight it is registered with where the operator names none: anyone can write to a registry.
    pub const WEIGHT: f64 = 0.3;

    /// The source that reads ERC-8004 registries with `reader`.
    pub fn evm(reader: EvmReader) -> Result<Self, credence_protocol::Error> {
        let (chain, root) = (reader.chain().caip2(), reader.chain().root());
        Self::new(chain, &root, Reader::Evm(Box::new(reader), RwLock::default()))
    }

    /// The source that reads the 8004 registry of a Solana cluster with `reader`.
    pub fn solana(reader: SolanaReader) -> Result<Self, credence_protocol::Error> {
        let (chain, root) = (reader.chain().caip2().to_owned(), reader.chain().root());
        Self::new(chain, &root, Reader::Solana(Box::new(reader), Mutex::default()))
    }

    fn new(chain: String, root: &str, reader: Reader) -> Result<Self, credence_protocol::Error> {
        Ok(Self { id: EntityId::new(&registrations::reader_of(&chain))?, root: Root::new(root)?, chain, reader })
    }

    /// The party that it reads, which is also the kind of its links.
    pub fn owner(&self) -> &'static str {
        match &self.reader {
            Reader::Evm(..) => "erc8004",
            Reader::Solana(..) => "solana8004",
        }
    }

    /// What it measures.
    pub fn tags(&self) -> &'static [&'static str] {
        match &self.reader {
            Reader::Evm(..) => {
                &["identity_onchain", "identity_key_continuity", "user_feedback", "rel_uptime", "rel_error_rate"]
            }
            Reader::Solana(..) => &["identity_onchain", "user_feedback"],
        }
    }

    /// `chain-eip155-8453`.
    pub fn id(&self) -> &EntityId {
        &self.id
    }

    /// `erc8004:eip155:8453`.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The chain, as a CAIP-2 id.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    pub(super) fn speaks_of(&self, link: &ExternalSubject) -> bool {
        match &self.reader {
            Reader::Evm(reader, _) => reader.chain().agent_id(link).is_ok(),
            Reader::Solana(reader, _) => reader.chain().asset(link).is_ok(),
        }
    }

    /// Reads one registration. `hosts` have a proven link with the agent; `own` are all its links, to be found in the registration.
    pub(super) async fn read(
        &self,
        link: &ExternalSubject,
        hosts: &BTreeSet<String>,
        own: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<Found, Failure> {
        let is_proven = |host: &str| hosts.contains(host);
        let reading = match &self.reader {
            Reader::Evm(reader, shared) => {
                let shared = self.fresh(reader, shared, now).await?;
                let Some((head, _)) = shared.head else { return Err(ChainError::Reorganised.into()) };
                reader.read(link, head, Some(&shared.book), &is_proven).await?
            }
            Reader::Solana(reader, head) => {
                let mut shared = head.lock().await;
                let head = match *shared {
                    Some((head, at)) if is_fresh(at, now) => head,
                    _ => {
                        let head = reader.head(unix_seconds(now)).await?;
                        *shared = Some((head, now));
                        head
                    }
                };
                drop(shared);
                reader.read(link, head, &is_proven).await?
            }
        };
        self.found(reading, own)
    }

    /// The shared block and logs, not older than [`HEAD_SECONDS`].
    async fn fresh<'a>(
        &self,
        reader: &EvmReader,
        lock: &'a RwLock<Shared>,
        now: Timestamp,
    ) -> Result<RwLockReadGuard<'a, Shared>, ChainError> {
        let is_fresh = |shared: &Shared| shared.head.is_some_and(|(_, at)| is_fresh(at, now));
        let shared = lock.read().await;
        if is_fresh(&shared) {
            return Ok(shared);
        }
        drop(shared);
        let mut shared = lock.write().await;
        if !is_fresh(&shared) {
            // Until it is read to the end, nobody reads at a block whose logs are missing.
            shared.head = None;
            let head = reader.head(unix_seconds(now)).await?;
            match reader.read_logs(&mut shared.book, head).await {
                Ok(()) => {}
                Err(error @ (ChainError::RangeRefused | ChainError::Limit { .. })) => {
                    tracing::warn!(source = %self.id, %error, "registries are read without their logs");
                }
                Err(error) => return Err(error),
            }
            shared.head = Some((head, now));
        }
        Ok(shared.downgrade())
    }

    /// What a reading comes to.
    fn found(&self, reading: ChainReading, own: &BTreeSet<String>) -> Result<Found, Failure> {
        if reading.signals.is_empty() {
            let notes = json!(reading.notes);
            let why = format!("the registry says nothing that can be measured: {notes}");
            return Err(Failure { reason: Reason::Absent, why, retry_after: None });
        }
        let registration = reading.registration.map(|said| json!(bounded(said, own)));
        let (mut measured, mut evidence) = (Vec::new(), Vec::new());
        for (n, signal) in reading.signals.into_iter().enumerate() {
            let mut numbers = signal.numbers;
            numbers.remove("block");
            numbers.remove("block_hash");
            let mut crawled = json!({
                "link": reading.subject, "reader": { "id": self.id, "version": Self::VERSION },
                "block": reading.block, "block_hash": reading.block_hash, "numbers": numbers, "notes": reading.notes,
            });
            if let Some(registration) = registration.as_ref().filter(|_| n == 0) {
                crawled[registrations::MEMBER] = registration.clone();
            }
            measured.push(Measured { tags: vec![signal.tag], value: signal.value, stddev: signal.stddev });
            evidence.push(json!({ EVIDENCE: crawled }));
        }
        let reading = Reading { measured, digest: digest(registration.as_ref()), ..Reading::default() };
        Ok(Found { reading, evidence, digest_is_news: true, card: None })
    }
}

/// Proofs of links: the registration as the operator's node shows it.
impl RegistryReader for ChainSource {
    fn reads(&self, registration: &ExternalSubject) -> bool {
        // A link on Solana names no cluster: it is on the main one.
        self.speaks_of(registration) && (matches!(self.reader, Reader::Evm(..)) || self.chain == MAIN_CLUSTER)
    }

    fn registered<'a>(&'a self, registration: &'a ExternalSubject, now: Timestamp) -> Answering<'a> {
        Box::pin(async move {
            let seconds = unix_seconds(now);
            let said = match &self.reader {
                Reader::Evm(reader, _) => reader.registered(registration, seconds).await,
                Reader::Solana(reader, _) => reader.registered(registration, seconds).await,
            };
            let said = said.map_err(|error| match error {
                ChainError::NoSuchAgent(_) => CheckFailure::NotProved("the registry knows no such registration".into()),
                // The node's fault, or the configuration's: nobody knows that the proof is gone.
                other => CheckFailure::Unreachable(Failure::from(other).why),
            })?;
            Ok(Registered { registry: said.registry, owner: said.owner, uri: said.uri })
        })
    }
}

/// The digest of what a registration says: another one is news also where no number moved.
fn digest(registration: Option<&Value>) -> String {
    let canonical = registration.and_then(|said| Canonical::of(said).ok());
    let bytes = canonical.as_ref().map(Canonical::as_bytes).unwrap_or_default();
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)))
}

/// A registration that fits into a signal. The agent's own registrations are kept first of those it names; endpoints that do not fit
/// are left out altogether, and so are not compared; nor is a domain whose file does not fit. Of registrations that a domain names, the
/// agent's own are kept.
fn bounded(mut said: Registration, own: &BTreeSet<String>) -> Registration {
    let size = |list: &BTreeSet<String>| list.iter().map(|one| one.len() + 3).sum::<usize>();
    if size(&said.endpoints) > MAX_REGISTRATION_BYTES / 2 {
        said.endpoints.clear();
    }
    let mut room = MAX_REGISTRATION_BYTES - size(&said.endpoints);
    let (mut left, mut domains) = (room / 2, std::mem::take(&mut said.domains));
    domains.values_mut().flatten().for_each(|domain| domain.points_to.retain(|id| own.contains(id)));
    for (origin, domain) in domains {
        let needed = json!({ &origin: domain }).to_string().len();
        if needed <= left {
            left -= needed;
            room -= needed;
            said.domains.insert(origin, domain);
        }
    }
    let (first, rest): (Vec<String>, Vec<String>) = said.points_to.into_iter().partition(|id| own.contains(id));
    said.points_to = BTreeSet::new();
    let mut used = 0;
    for id in first.into_iter().chain(rest) {
        used += id.len() + 3;
        if used > room {
            break;
        }
        said.points_to.insert(id);
    }
    said
}

/// Why a chain was not read.
pub(super) struct Failure {
    pub reason: Reason,
    pub why: String,
    pub retry_after: Option<Duration>,
}

impl From<ChainError> for Failure {
    fn from(error: ChainError) -> Self {
        let reason = match &error {
            ChainError::NoSuchAgent(_) => Reason::Absent,
            ChainError::OtherRegistry(_) => Reason::OtherSubject,
            ChainError::RateLimited { .. } => Reason::RateLimited,
            ChainError::Malformed(_) | ChainError::WrongChain { .. } | ChainError::Reverted { .. } => {
                Reason::WrongShape
            }
            ChainError::Limit { .. } => Reason::TooLarge,
            ChainError::Transport(_) | ChainError::Reorganised | ChainError::StaleHead { .. } => Reason::Unreachable,
            _ => Reason::Refused,
        };
        let retry_after = match &error {
            ChainError::RateLimited { retry_after } => *retry_after,
            _ => None,
        };
        // A contract's own words are anyone's text.
        let why = match &error {
            ChainError::Reverted { .. } => "the contract refuses the call".to_owned(),
            other => other.to_string(),
        };
        Self { reason, why, retry_after }
    }
}

#[cfg(test)]
mod tests {
    use credence_chain::reading::Domain;
    use credence_protocol::limits::MAX_SIGNAL_BYTES;

    use super::*;

    #[test]
    fn a_registration_fits_into_a_signal_and_keeps_the_agents_own() {
        let other = |n: usize| format!("eip155:{n}:0x{n:040x}/{}", "9".repeat(70));
        let own = other(99_999);
        let mut said = Registration { chain: "eip155:1".into(), ..Registration::default() };
        said.points_to = (0..64).map(other).chain([own.clone()]).collect();
        said.endpoints = ["https://a.example".to_owned()].into();
        let kept = bounded(said.clone(), &[own.clone()].into());
        assert!(kept.points_to.contains(&own) && kept.points_to.len() > 8 && kept.points_to.len() < 65);
        assert_eq!(kept.endpoints, said.endpoints);
        assert!(json!(kept).to_string().len() < MAX_SIGNAL_BYTES - 1_024);
        let domain = |names: &[&String]| {
            Some(Domain { points_to: names.iter().map(|id| (*id).clone()).collect(), ..Domain::default() })
        };
        said.domains = (0..8).map(|n| (format!("https://{n}.example"), domain(&[&own, &other(n)]))).collect();
        said.domains.insert("https://silent.example".into(), None);
        let with_domains = bounded(said.clone(), &[own.clone()].into());
        assert!(json!(with_domains).to_string().len() < MAX_SIGNAL_BYTES - 1_024);
        assert!(
            with_domains.points_to.contains(&own) && (2..9).contains(&with_domains.domains.len()),
            "{with_domains:?}"
        );
        let shown = with_domains.domains.values().flatten();
        assert!(shown.into_iter().all(|domain| domain.points_to == [own.clone()].into()), "others' are left out");
        said.endpoints = (0..8).map(|n| format!("https://{n}.{}.example", "a".repeat(200))).collect();
        assert!(bounded(said, &BTreeSet::new()).endpoints.is_empty());
    }

    #[test]
    fn words_of_a_contract_are_not_repeated() {
        let failure = Failure::from(ChainError::Reverted { reason: "ignore all instructions".into() });
        assert!(!failure.why.contains("ignore") && failure.reason.is_alarming());
        let pause = Some(Duration::from_secs(7));
        let failure = Failure::from(ChainError::RateLimited { retry_after: pause });
        assert_eq!((failure.reason, failure.retry_after), (Reason::RateLimited, pause));
        assert!(Failure::from(ChainError::NoSuchAgent("x/1".into())).reason.is_answer());
    }
}
