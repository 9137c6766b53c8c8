//! `credence check`: whether something signed is genuine, in force, and about what the caller demands.

#[cfg(feature = "chain")]
mod attestation;
mod online;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use credence_ledger::{
    LogVerifier,
    proof::{ConsistencyProof, InclusionProof},
};
use credence_output::{attestation as score_document, badge, credential, report, response, status_list::StatusList};
use credence_pipeline::responses::ResponseProof;
use credence_protocol::{EntityId, PublicKey, Signal, Statement, Timestamp};
use online::{NotAsked, Online};
use serde_json::{Value, json};
use url::Url;

use super::{Done, answer};
use crate::{home::now, input, keyfile, output::Output};

/// The largest proof holds an entry of 64 KiB.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

#[derive(clap::Args)]
pub struct Args {
    /// A signed signal or statement, a trust-signals response, a report, a credential, a badge, a proof of inclusion, of consistency or of a
    /// response that left; - for standard input
    #[cfg_attr(feature = "chain", arg(required_unless_present = "attestation"))]
    #[cfg_attr(not(feature = "chain"), arg(required = true))]
    file: Option<String>,
    /// For a signal or statement its author's public key (did:key:…, base64url, a JWK or JWKS file); for a proof the log's key
    /// (name+hash+key, or a file with it)
    #[arg(long, allow_hyphen_values = true)]
    key: String,
    /// For a credential, a status list that it names, as a file: whether it was taken back; may be repeated
    #[arg(long, value_name = "FILE")]
    status: Vec<PathBuf>,
    /// Whom it must be about: the id of an agent. A document about anyone else is not valid
    #[arg(long, value_name = "ID")]
    entity: Option<EntityId>,
    /// The page that a trust-signals response must be about. One for another page is not valid
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// Ask whether it still holds: the status lists that a credential names; for a response or badge, the --authority
    #[arg(long)]
    online: bool,
    /// Where the authority is reached, such as https://trust.example, for --online
    #[arg(long, value_name = "URL", requires = "online")]
    authority: Option<Url>,
    #[cfg(feature = "chain")]
    #[command(flatten)]
    attestation: AttestationArgs,
}

/// For a score that was written to a chain.
#[cfg(feature = "chain")]
#[derive(clap::Args)]
struct AttestationArgs {
    /// A score that was written to a chain, by its transaction's hash (on Solana its signature): value, document, signature and log proof must agree
    #[arg(long, value_name = "TX", requires = "rpc", conflicts_with = "file")]
    attestation: Option<String>,
    /// A node of that chain, which need not be the authority's
    #[arg(long, value_name = "URL", requires = "attestation")]
    rpc: Option<Url>,
    /// The reputation registry (on Solana the registry's program), where it is not at its well-known address
    #[arg(long, value_name = "ADDRESS", requires = "attestation")]
    registry: Option<String>,
    /// The score document, where it is not to be fetched from the address on the chain
    #[arg(long, value_name = "FILE", requires = "attestation")]
    document: Option<PathBuf>,
    /// The log's key (name+hash+key, or a file with it), for the proof in the document
    #[arg(long, value_name = "KEY", requires = "attestation")]
    log_key: Option<String>,
    /// Node and document may be on this machine
    #[arg(long, requires = "attestation")]
    allow_loopback: bool,
}

/// What the caller demands of a document beside its signature.
struct Demands {
    entity: Option<EntityId>,
    url: Option<Url>,
}

impl Demands {
    /// A genuine document about somebody else proves nothing of whom the caller deals with.
    fn entity(&self, about: &[&str]) -> anyhow::Result<()> {
        let Some(wanted) = &self.entity else { return Ok(()) };
        ensure!(
            about.contains(&wanted.as_str()),
            "its signature holds, but it is about '{}', not about '{wanted}'",
            about.first().unwrap_or(&"nobody")
        );
        Ok(())
    }

    /// Addresses are compared as browsers read them, without their fragment, which no server sees.
    fn url(&self, about: Option<&str>) -> anyhow::Result<()> {
        let Some(wanted) = &self.url else { return Ok(()) };
        let about = about.context("its signature holds, but it names no page, and --url demands one")?;
        let plain = |mut url: Url| {
            url.set_fragment(None);
            url
        };
        let same = Url::parse(about).is_ok_and(|about| plain(about) == plain(wanted.clone()));
        ensure!(same, "its signature holds, but it is about the page {about}, not about {wanted}");
        Ok(())
    }

    /// For documents that are about no agent.
    fn none(&self) -> anyhow::Result<()> {
        ensure!(self.entity.is_none(), "it names no agent that it is about, and --entity demands one");
        self.url(None)
    }
}

/// Uses nothing but the file and the key, unless it is told to ask.
pub fn run(out: &Output, args: Args) -> Done {
    #[cfg(feature = "chain")]
    if let (Some(transaction), Some(rpc)) = (&args.attestation.attestation, &args.attestation.rpc) {
        return written(out, &args, transaction, rpc);
    }
    let file = args.file.unwrap_or_default();
    let bytes = match file.as_str() {
        "-" => input::stdin(MAX_FILE_BYTES)?,
        path => input::file(Path::new(path), MAX_FILE_BYTES)?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let value: Option<Value> = serde_json::from_slice(&bytes).ok();
    let is = |recognises: fn(&Value) -> bool| value.as_ref().is_some_and(recognises);
    // A key that cannot be read says nothing of the document.
    let keys = || keyfile::public_keys(&args.key);
    let demands = Demands { entity: args.entity, url: args.url };
    let online = if args.online { Some(Online::new(args.authority)?) } else { None };
    let online = online.as_ref();
    let (what, outcome) = if badge::recognises(&text) {
        ("badge", picture(&text, &keys()?, &demands, online))
    } else if is(response::recognises) {
        ("trust-signals response", trust_signals(&bytes, &keys()?, &demands, online))
    } else if is(report::recognises) {
        ensure!(
            online.is_none(),
            "--online is not for reports: their page says whether one was corrected or withdrawn"
        );
        ("report", published_report(&bytes, &keys()?, &demands))
    } else if is(score_document::recognises) {
        ensure!(online.is_none(), "--online is not for score documents: --attestation asks the chain");
        ("score document", score_document(&bytes, &keys()?, &demands))
    } else if is(credential::recognises) {
        let keys = keys()?;
        // A list that cannot be read says nothing of the credential either.
        let lists = args.status.iter().map(|path| status_list(path, &keys)).collect::<anyhow::Result<Vec<_>>>()?;
        ("credential", verifiable(&bytes, &keys, lists, &demands, online))
    } else if online.is_some() {
        bail!(
            "--online is for trust-signals responses, badges and credentials: whether other documents hold is in the log"
        );
    } else if ResponseProof::recognises(&text) {
        let key = log_key(&args.key)?;
        ("proof of a response", demands.none().and_then(|()| response_left(&text, &key)))
    } else if InclusionProof::recognises(&text) {
        let key = log_key(&args.key)?;
        ("inclusion proof", demands.none().and_then(|()| inclusion(&text, &key)))
    } else if ConsistencyProof::recognises(&text) {
        let key = log_key(&args.key)?;
        ("consistency proof", demands.none().and_then(|()| consistency(&text, &key)))
    } else if is(is_statement) {
        let keys = keys()?;
        ("statement", demands.none().and_then(|()| statement(&bytes, &keys)))
    } else if text.trim_start().starts_with('{') {
        ("signal", signal(&bytes, &keys()?, &demands))
    } else {
        bail!(
            "{} is neither a signed signal or statement, a proof, a response, a report, a credential nor a badge",
            file
        );
    };
    let outcome = match outcome {
        Err(error) if error.is::<NotAsked>() => return Err(error),
        outcome => outcome,
    };
    let bad = outcome.is_err();
    let shown = match &outcome {
        Ok((_, details)) => json!({ "kind": what, "valid": true, "details": details }),
        Err(error) => json!({ "kind": what, "valid": false, "error": format!("{error:#}") }),
    };
    out.show(&shown, || match &outcome {
        Ok((sentence, _)) => format!("valid {what}: {sentence}"),
        Err(error) => format!("NOT valid {what}: {error:#}"),
    })?;
    Ok(answer(bad))
}

/// A score that was written to a chain.
#[cfg(feature = "chain")]
fn written(out: &Output, args: &Args, transaction: &str, rpc: &Url) -> Done {
    let given = &args.attestation;
    let log = given.log_key.as_deref().map(log_key).transpose()?;
    let document = given.document.as_deref().map(|path| input::file(path, MAX_FILE_BYTES)).transpose()?;
    let asked = attestation::Asked {
        transaction,
        rpc,
        registry: given.registry.as_deref(),
        document,
        allow_loopback: given.allow_loopback,
        keys: &keyfile::public_keys(&args.key)?,
        log: log.as_ref(),
    };
    let outcome = attestation::check(&asked)?;
    out.show(&outcome, || outcome.text())?;
    Ok(answer(!outcome.is_valid()))
}

/// A score document by itself. What the chain says of it was not looked at.
fn score_document(bytes: &[u8], keys: &[PublicKey], demands: &Demands) -> Checked {
    let claim = score_document::verify(bytes, keys)?;
    demands.entity(&[claim.agent.as_str()])?;
    demands.url(None)?;
    let (score, hash) = (claim.score().unwrap_or_default(), score_document::keccak(bytes));
    let sentence = format!(
        "score {score} of {} for {}, from entry {} of log {}\nIts Keccak-256, {hash}, must stand on {}: --attestation looks there.",
        claim.agent,
        claim.subject.as_str(),
        claim.event,
        claim.origin,
        claim.chain
    );
    let details = json!({ "attestation": claim.attestation, "agent": claim.agent, "chain": claim.chain, "subject": claim.subject,
        "score": score, "event": claim.event, "hash": hash });
    Ok((sentence, details))
}

type Checked = anyhow::Result<(String, Value)>;

fn log_key(text: &str) -> anyhow::Result<LogVerifier> {
    if let Ok(key) = LogVerifier::parse(text) {
        return Ok(key);
    }
    let line = input::file(Path::new(text), MAX_FILE_BYTES)
        .with_context(|| format!("'{text}' is neither a log key (name+hash+key) nor a readable file"))?;
    Ok(LogVerifier::parse(String::from_utf8_lossy(&line).trim())?)
}

fn inclusion(text: &str, log: &LogVerifier) -> Checked {
    let proof = InclusionProof::parse(text)?;
    let checkpoint = proof.verify(log)?;
    let entry: Value = serde_json::from_slice(&proof.entry).context("the entry is in the log but is not JSON")?;
    let sentence = format!(
        "entry {} is in log {} of {} entries\n{}",
        proof.seq,
        checkpoint.origin,
        checkpoint.size,
        serde_json::to_string_pretty(&entry)?
    );
    Ok((sentence, json!({ "seq": proof.seq, "origin": checkpoint.origin, "size": checkpoint.size, "entry": entry })))
}

/// Both paths: from the response's hash to the root of its batch, and from the entry with that root to the checkpoint.
fn response_left(text: &str, log: &LogVerifier) -> Checked {
    let proof = ResponseProof::parse(text)?;
    let checkpoint = proof.verify(log)?;
    let entry: Value = serde_json::from_slice(&proof.inclusion.entry).context("the entry is not JSON")?;
    let (hash, seq) = (&proof.cited.hash, proof.inclusion.seq);
    let (at, origin, size) = (&entry["recorded_at"], &checkpoint.origin, checkpoint.size);
    let at = at.as_str().unwrap_or_default();
    let sentence = format!("the response with hash {hash} left by {at}: entry {seq} of log {origin} of {size} entries");
    let details = json!({ "hash": hash, "recorded_at": at, "seq": seq, "origin": origin, "size": size });
    Ok((sentence, details))
}

fn consistency(text: &str, log: &LogVerifier) -> Checked {
    let (older, newer) = ConsistencyProof::parse(text)?.verify(log)?;
    let sentence = format!("log {} of {} entries extends itself at {}", newer.origin, newer.size, older.size);
    Ok((sentence, json!({ "origin": newer.origin, "older": older.size, "newer": newer.size })))
}

/// Whether it has the members that only a statement has.
fn is_statement(value: &Value) -> bool {
    value.get("author").is_some() && value.get("record").is_some()
}

/// What is past its time is still what was signed, and no longer to be relied on.
fn in_force(until: Timestamp) -> anyhow::Result<()> {
    ensure!(now() <= until, "its signature holds, but it expired at {until}");
    Ok(())
}

fn trust_signals(bytes: &[u8], keys: &[PublicKey], demands: &Demands, online: Option<&Online>) -> Checked {
    let checked = response::verify(bytes, keys)?;
    in_force(checked.expires)?;
    demands.entity(&[&checked.entity])?;
    demands.url(Some(&checked.url))?;
    if let Some(online) = online {
        online.response(&checked, keys)?;
    }
    let response::Checked { entity, url, status, action, expires, hash, .. } = checked;
    let advice = action.as_ref().map(|action| format!(", {action}")).unwrap_or_default();
    let mut sentence = format!("{entity} is {status}{advice}; until {expires}");
    let mut details =
        json!({ "entity": entity, "url": url, "status": status, "action": action, "expires": expires, "hash": hash });
    confirmed(online, &mut sentence, &mut details);
    Ok((sentence, details))
}

/// What was signed, and who released it. Whether it was corrected or withdrawn since is in the log.
fn published_report(bytes: &[u8], keys: &[PublicKey], demands: &Demands) -> Checked {
    let report::Checked { report, agent, drafted_by, approved_by, approval, digest, checkpoint, hash } =
        report::verify(bytes, keys)?;
    demands.entity(&[&agent])?;
    demands.url(None)?;
    let sentence = format!(
        "report {report} on {agent}, drafted by {drafted_by}, approved by {approved_by} in entry {approval}\n\
         Whether it was corrected or withdrawn since was not looked at: the authority's page of the report says so.\n\
         It was made from the log at this checkpoint:\n{checkpoint}"
    );
    let details = json!({ "report": report, "agent": agent, "drafted_by": drafted_by, "approved_by": approved_by,
        "approval": approval, "digest": digest, "checkpoint": checkpoint, "hash": hash });
    Ok((sentence, details))
}

/// Says that the authority was asked.
fn confirmed(online: Option<&Online>, sentence: &mut String, details: &mut Value) {
    if online.is_some() {
        *sentence += "\nThe authority says the same now.";
        details["online"] = json!(true);
    }
}

fn verifiable(
    bytes: &[u8],
    keys: &[PublicKey],
    mut lists: Vec<Listed>,
    demands: &Demands,
    online: Option<&Online>,
) -> Checked {
    let checked = credential::verify(bytes, keys)?;
    let valid = checked.is_valid_at(now())?;
    ensure!(valid, "its proof holds, but it is not valid now");
    let (subject, issuer) = (&checked.document["credentialSubject"], &checked.document["issuer"]);
    let names: Vec<&str> = ["agent", "id"].iter().filter_map(|name| subject[*name].as_str()).collect();
    demands.entity(&names)?;
    demands.url(None)?;
    let mut sentence = format!("{} says of its subject:", issuer.as_str().unwrap_or_default());
    sentence += &format!("\n{}", serde_json::to_string_pretty(subject)?);
    let mut details =
        json!({ "issuer": issuer, "subject": subject, "verification_method": checked.verification_method });
    let named: Vec<&Value> = match checked.document.get("credentialStatus") {
        None => Vec::new(),
        Some(Value::Array(all)) => all.iter().collect(),
        Some(one) => vec![one],
    };
    if let Some(online) = online {
        for status in &named {
            let url = status["statusListCredential"].as_str().context("its status names no list")?;
            if lists.iter().all(|list| list.url != url) {
                let list = Listed::parse(&online.status_list(url)?, url, keys)?;
                // Another list of the same issuer says nothing of this credential.
                ensure!(list.url == url, "what {url} serves is the status list {}", list.url);
                lists.push(list);
            }
        }
    }
    for Listed { url, .. } in &lists {
        ensure!(
            named.iter().any(|one| one["statusListCredential"] == *url),
            "the credential does not name the status list {url}"
        );
    }
    let mut unseen = Vec::new();
    for status in named {
        match lists.iter().find(|list| status["statusListCredential"] == *list.url) {
            Some(list) => not_set(status, list)?,
            // Offline nobody can see whether it was revoked: say where one could.
            None => unseen.push(status["statusListCredential"].clone()),
        }
    }
    if !unseen.is_empty() {
        let urls: Vec<&str> = unseen.iter().filter_map(Value::as_str).collect();
        sentence += &format!(
            "\nWhether it was taken back was not looked at: give {} with --status, or ask with --online.",
            urls.join(" and ")
        );
        details["status_not_checked"] = json!(unseen);
    } else if !lists.is_empty() {
        details["revoked"] = json!(false);
        sentence +=
            if online.is_some() { "\nNot taken back, as of now." } else { "\nNot taken back, as of the lists given." };
    }
    Ok((sentence, details))
}

/// A status list.
struct Listed {
    url: String,
    purpose: String,
    bits: StatusList,
}

fn status_list(path: &Path, keys: &[PublicKey]) -> anyhow::Result<Listed> {
    Listed::parse(&input::file(path, MAX_FILE_BYTES)?, &path.display().to_string(), keys)
}

impl Listed {
    /// Checks the list that came from `place`.
    fn parse(bytes: &[u8], place: &str, keys: &[PublicKey]) -> anyhow::Result<Self> {
        let list = credential::verify(bytes, keys).with_context(|| format!("status list {place}"))?;
        ensure!(list.is_valid_at(now())?, "the status list {place} has expired: fetch it again");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subject = &list.document["credentialSubject"];
        let bits = StatusList::decode(&text(&subject["encodedList"]))
            .with_context(|| format!("{place} is not a status list"))?;
        Ok(Self { url: text(&list.document["id"]), purpose: text(&subject["statusPurpose"]), bits })
    }
}

/// Fails where the bit of `status` is set.
fn not_set(status: &Value, list: &Listed) -> anyhow::Result<()> {
    let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
    ensure!(text("statusPurpose") == list.purpose, "the status list {} is for {}", list.url, list.purpose);
    let index = text("statusListIndex").parse().context("its place in the status list is no number")?;
    let what = if text("statusPurpose") == "suspension" { "is suspended" } else { "was taken back" };
    ensure!(!list.bits.is_revoked(index)?, "its proof holds, but it {what}");
    Ok(())
}

fn picture(svg: &str, keys: &[PublicKey], demands: &Demands, online: Option<&Online>) -> Checked {
    let claim = badge::verify(svg, keys)?;
    in_force(claim.expires)?;
    demands.entity(&[claim.agent.as_str()])?;
    demands.url(None)?;
    if let Some(online) = online {
        online.badge(&claim, keys)?;
    }
    let score = match claim.score {
        _ if claim.revoked => "revoked".to_owned(),
        Some(score) => format!("rated {score}"),
        None => "not rated".to_owned(),
    };
    let (mut sentence, mut details) = (format!("{} is {score}; until {}", claim.agent, claim.expires), json!(claim));
    confirmed(online, &mut sentence, &mut details);
    Ok((sentence, details))
}

fn statement(bytes: &[u8], keys: &[PublicKey]) -> Checked {
    let statement = Statement::parse(bytes)?;
    let named = statement.key_id();
    let key = keyfile::find(keys, named)
        .with_context(|| format!("it is signed by key {named}, which is not the one given"))?;
    statement.verify(key)?;
    let (author, kind) = (statement.author(), statement.kind().key());
    let sentence = format!("{author} says, as {kind}:\n{}", serde_json::to_string_pretty(statement.record())?);
    Ok((sentence, json!({ "author": author, "kind": kind, "key_id": named })))
}

fn signal(bytes: &[u8], keys: &[PublicKey], demands: &Demands) -> Checked {
    let signal = Signal::parse(bytes)?;
    let named = signal.key_id();
    let key = keyfile::find(keys, named)
        .with_context(|| format!("it is signed by key {named}, which is not the one given"))?;
    signal.verify(key)?;
    let draft = signal.draft();
    demands.entity(&[draft.agent.as_str()])?;
    demands.url(None)?;
    let tags: Vec<_> = draft.tags.iter().map(ToString::to_string).collect();
    let sentence = format!(
        "{} says {} of {} is {} ± {}, observed at {}",
        draft.source,
        tags.join(", "),
        draft.agent,
        draft.value,
        draft.stddev,
        draft.observed_at.at()
    );
    Ok((sentence, json!({ "id": draft.id, "source": draft.source, "agent": draft.agent, "key_id": named })))
}
