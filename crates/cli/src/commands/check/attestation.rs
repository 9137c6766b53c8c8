//! `credence check --attestation`: value on the chain, document, signature and log proof agree, each said on a line of its own.

use std::num::NonZeroU32;

use anyhow::{Context, bail, ensure};
use credence_chain::{Rpc, Written};
use credence_egress::{Egress, Rate, Request, Settings, StatusCode};
use credence_ledger::{LogVerifier, proof::InclusionProof};
use credence_output::attestation::{self, MAX_BYTES, ScoreClaim};
use credence_protocol::PublicKey;
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

/// Requests a second to the node.
const RATE: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// What to check.
pub struct Asked<'a> {
    pub transaction: &'a str,
    pub rpc: &'a Url,
    /// The registry, where it is not at its well-known address.
    pub registry: Option<&'a str>,
    /// The document, where it is at hand.
    pub document: Option<Vec<u8>>,
    pub allow_loopback: bool,
    /// The authority's keys.
    pub keys: &'a [PublicKey],
    /// The log's key.
    pub log: Option<&'a LogVerifier>,
}

/// One thing that was checked.
#[derive(Debug, Serialize)]
pub struct Line {
    what: &'static str,
    agrees: Option<bool>,
    says: String,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Outcome {
    valid: bool,
    lines: Vec<Line>,
}

impl Outcome {
    pub fn is_valid(&self) -> bool {
        self.valid
    }

    pub fn text(&self) -> String {
        let mark = |agrees: Option<bool>| match agrees {
            Some(true) => "agrees",
            Some(false) => "DIFFERS",
            None => "not checked",
        };
        let lines =
            self.lines.iter().map(|line| format!("{:<10} {:<11}  {}\n", line.what, mark(line.agrees), line.says));
        let end = if self.valid { "valid attestation" } else { "NOT valid attestation" };
        format!("{}{end}", lines.collect::<String>())
    }
}

/// Asks the node, and for the document where it was not given. An error says that something could not be asked, and tells nothing of it.
pub fn check(asked: &Asked<'_>) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let mut settings = Settings::for_purpose("check");
        settings.loopback = asked.allow_loopback;
        let egress = Egress::new(settings)?;
        let rate = Rate { per_second: RATE, burst: RATE };
        let rpc = Rpc::new(egress.clone(), asked.rpc.clone(), Some(rate));
        let written = Written::by_transaction(&rpc, asked.registry, asked.transaction)
            .await
            .context("what the transaction wrote is not known")?;
        let document = match &asked.document {
            Some(document) => document.clone(),
            None => fetch(&egress, &written.uri).await?,
        };
        Ok(compare(&written, &document, asked.keys, asked.log))
    })
}

/// The document at the address on the chain. The address is the writer's: it is asked only through the door that refuses private ones.
async fn fetch(egress: &Egress, uri: &str) -> anyhow::Result<Vec<u8>> {
    let hint = "the document could not be fetched: give it with --document";
    let request = Request::get(uri).context(hint)?.max_bytes(MAX_BYTES);
    let answer = egress.send(request).await.context(hint)?;
    if answer.status != StatusCode::OK {
        bail!("{hint} (its address answered {})", answer.status.as_u16());
    }
    Ok(answer.body.to_vec())
}

fn compare(written: &Written, document: &[u8], keys: &[PublicKey], log: Option<&LogVerifier>) -> Outcome {
    let mut lines = vec![Line {
        what: "chain",
        agrees: Some(!written.revoked),
        says: format!(
            "{} on {}: value {} by {}, feedback {} about {}, block {}, {} confirmations{}",
            written.registry,
            written.chain,
            written.value,
            written.by,
            written.index,
            written.subject.as_str(),
            written.block,
            written.confirmations,
            if written.revoked { "; it was taken back" } else { "" }
        ),
    }];
    if let Some(seal) = &written.seal {
        let same = seal.logged == seal.computed;
        let says = match same {
            true => format!("SEAL v1 of the transaction's content is {}", seal.computed),
            false => format!("SEAL v1 of the content is {}, and the registry logged {}", seal.computed, seal.logged),
        };
        lines.push(Line { what: "seal", agrees: Some(same), says });
    }
    let hash = attestation::keccak(document);
    let says = match hash == written.document {
        true => format!("Keccak-256 of {} bytes is {hash}", document.len()),
        false => format!("Keccak-256 of {} bytes is {hash}, and the chain holds {}", document.len(), written.document),
    };
    lines.push(Line { what: "document", agrees: Some(hash == written.document), says });
    match attestation::verify(document, keys) {
        Err(error) => lines.push(Line { what: "signature", agrees: Some(false), says: error.to_string() }),
        Ok(claim) => {
            let says = format!("a key of the authority signed it for agent '{}'", claim.agent);
            lines.push(Line { what: "signature", agrees: Some(true), says });
            lines.push(value(written, &claim));
            lines.push(logged(&claim, log));
        }
    }
    Outcome { valid: lines.iter().all(|line| line.agrees != Some(false)), lines }
}

/// The chain and the document say the same.
fn value(written: &Written, claim: &ScoreClaim) -> Line {
    let score = claim.score().unwrap_or_default();
    let unit = 10_i128.checked_pow(u32::from(written.decimals));
    let same_value = unit.and_then(|unit| i128::from(score).checked_mul(unit)) == Some(written.value);
    let same_place = claim.chain == written.chain && claim.subject == written.subject;
    let same_tags = written.tags == ["credence", claim.formula.as_str()];
    let says = format!("the document says score {score} ({}) of {}", claim.formula, claim.subject.as_str());
    Line { what: "value", agrees: Some(same_value && same_place && same_tags), says }
}

/// The log has the score event, and it says what the document says.
fn logged(claim: &ScoreClaim, log: Option<&LogVerifier>) -> Line {
    let line = |agrees, says| Line { what: "log", agrees, says };
    let Some(log) = log else {
        return line(None, "give the log's key with --log-key".to_owned());
    };
    match proven(claim, log) {
        Ok(size) => {
            let says = format!("entry {} of {} entries of log {} is this score", claim.event, size, claim.origin);
            line(Some(true), says)
        }
        Err(error) => line(Some(false), format!("{error:#}")),
    }
}

fn proven(claim: &ScoreClaim, log: &LogVerifier) -> anyhow::Result<u64> {
    let proof = InclusionProof::parse(&claim.proof)?;
    let checkpoint = proof.verify(log)?;
    ensure!(checkpoint.origin == claim.origin.as_str(), "the document names the log {}", claim.origin);
    ensure!(proof.seq == claim.event, "the proof is of entry {}, not of {}", proof.seq, claim.event);
    let entry: Value = serde_json::from_slice(&proof.entry).context("the entry is not JSON")?;
    let body = &entry["body"];
    ensure!(
        entry["kind"] == "score" && entry["subject"] == json!(claim.agent) && body["formula"] == json!(claim.formula),
        "entry {} is not such a score of '{}'",
        claim.event,
        claim.agent
    );
    let numbers = claim.assured.as_object().context("the document has no numbers")?;
    for (name, number) in numbers {
        ensure!(body.get(name) == Some(number), "entry {} has another {name}", claim.event);
    }
    let same = body["evaluated_at"] == json!(claim.evaluated_at) && body["parameters"] == json!(claim.parameters);
    ensure!(same, "entry {} was made at another time, or with other parameters", claim.event);
    Ok(checkpoint.size)
}
