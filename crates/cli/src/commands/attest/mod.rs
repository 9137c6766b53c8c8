//! `credence attest`: write an agent's assured score to a chain.

mod list;
mod progress;

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context, ensure};
use credence_ledger::LogVerifier;
use credence_pipeline::{Authority, attestations::AttestationState, query, record::AttestationRecord};
use credence_protocol::{ExternalSubject, Uuid};
use credence_server::attesting::{Attester, AttestingChain, Pace};
use serde_json::json;

use super::{Done, answer, crawl::runtime, credential::office};
use crate::{
    chains,
    home::{Home, clock},
    output::Output,
};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// An agent's id or alias
    #[arg(required = true)]
    agent: Option<String>,
    /// The chain, as configured in credence.toml, such as eip155:8453 or solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp
    #[arg(long, value_name = "ID", required = true)]
    chain: Option<String>,
    /// The agent's registration, where it has several on that chain
    #[arg(long, value_name = "KIND:ID")]
    subject: Option<ExternalSubject>,
    /// Say what would be written and what it costs; sign no transaction, record nothing
    #[arg(long)]
    dry_run: bool,
    /// Return once it is sent; a running service, or `credence attest continue`, goes on
    #[arg(long)]
    no_wait: bool,
}

#[derive(clap::Subcommand)]
pub enum Command {
    /// Attestations and where they stand, newest first
    List(list::Args),
    /// Go on with attestations that are under way, until none is
    Continue,
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    match &args.command {
        Some(Command::List(list)) => list::run(home, out, list),
        Some(Command::Continue) => go_on(home, out),
        None => attest(home, out, &args),
    }
}

/// The chains that are configured for writing, with their keys.
pub fn attesting(home: &Home, only: Option<&str>) -> anyhow::Result<Vec<AttestingChain>> {
    let configured = match only {
        Some(id) => vec![chains::named(home, id)?],
        None => chains::configured(home)?,
    };
    let mut attesting = Vec::new();
    for config in configured {
        let made = chains::environment(home, None, |environment| {
            chains::refuse_shared_key(home, &config, environment)?;
            anyhow::Ok(AttestingChain::new(&config, environment)?)
        })?;
        attesting.extend(made);
    }
    Ok(attesting)
}

fn attester(home: &Home, chains: Vec<AttestingChain>) -> anyhow::Result<(Arc<Authority>, Attester<Authority>)> {
    let office = office(home)?;
    let log = LogVerifier::parse(&home.config()?.log_key)?;
    let authority = Arc::new(home.authority()?);
    let attester = Attester::new(Arc::clone(&authority), office, log, clock(), chains, Pace::default());
    Ok((authority, attester))
}

fn attest(home: &Home, out: &Output, args: &Args) -> Done {
    let (agent, id) = (args.agent.as_deref().unwrap_or_default(), args.chain.as_deref().unwrap_or_default());
    let chains = attesting(home, Some(id))?;
    ensure!(!chains.is_empty(), "{id} is configured for reading only: [chain.attest] names the key that writes");
    let (authority, attester) = attester(home, chains)?;
    let agent = query::resolve(&*authority.ledger().view()?, agent)?;
    runtime()?.block_on(async {
        let chain = attester.chain(id)?;
        let draft = attester.draft(&agent, id, args.subject.as_ref(), !args.dry_run).await?;
        // Who has to be paid for is needed most where it holds nothing yet.
        let from = || format!("attesting from {} on {id}", chain.writer.address());
        let quote = attester.check_fee(chain, &draft).await.with_context(from)?;
        let intent = draft.intent.clone().context("an intent says what it is to write")?;
        let shown = json!({ "agent": agent, "chain": id, "subject": draft.subject, "value": intent.value, "by": intent.by,
            "hash": intent.hash, "uri": intent.uri, "max_fee": quote.max_fee.to_string(), "balance": quote.balance.to_string(),
            "unit": quote.unit });
        let says = format!(
            "Score {} of {agent} to {}\n  document  {} (Keccak-256 {})\n  fee       at most {} {unit}; {} holds {} {unit}",
            intent.value,
            draft.subject.as_str(),
            intent.uri,
            intent.hash,
            quote.max_fee,
            intent.by,
            quote.balance,
            unit = quote.unit
        );
        if args.dry_run {
            out.show(&shown, || format!("{says}\nDry run: nothing was recorded or sent. The document of the real one has another hash."))?;
            return Ok(ExitCode::SUCCESS);
        }
        out.note(&says);
        write(out, &authority, &attester, draft, args.no_wait).await
    })
}

/// Records the intent, and goes on until it is in a block.
async fn write(
    out: &Output,
    authority: &Authority,
    attester: &Attester<Authority>,
    draft: AttestationRecord,
    no_wait: bool,
) -> Done {
    let (id, chain) = (draft.attestation, draft.chain.clone());
    attester.intend(draft).await?;
    let row = || -> anyhow::Result<_> {
        query::attestation(&*authority.ledger().view()?, id)?.context("the attestation is gone")
    };
    let mut progress = progress::Progress::new(out, id);
    loop {
        let driven = attester.drive(&chain).await;
        let row = row()?;
        progress.at(&row);
        match (row.state, driven) {
            (AttestationState::Intent, Err(error)) if !error.is_passing() => {
                // Nobody waits for it any more: it must not be sent at some later time.
                attester.give_up(id, &error.to_string()).await?;
                return Err(error).context(format!("attestation {id} was given up, and nothing was sent"));
            }
            (AttestationState::Sent, _) if no_wait => break,
            (AttestationState::Intent | AttestationState::Sent, Err(error)) => progress.waits(&error),
            (AttestationState::Intent | AttestationState::Sent, Ok(_)) => {}
            _ => break,
        }
        tokio::time::sleep(progress::LOOK_EVERY).await;
    }
    finished(out, id, &row()?)
}

fn finished(out: &Output, id: Uuid, row: &query::AttestationRow) -> Done {
    let failed = matches!(row.state, AttestationState::Reverted | AttestationState::GivenUp);
    out.show(&list::shown(id, row), || {
        let transaction = row.inclusion.as_ref().and_then(|inclusion| inclusion.transaction.clone());
        let transaction = transaction.or_else(|| row.transactions.last().map(|sent| sent.transaction.id.clone()));
        let transaction = transaction.map(|id| format!("\n  transaction {id}")).unwrap_or_default();
        let why = row.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let next = match row.state.is_open() {
            true => "\nA running service follows it until its block stays; so does `credence attest continue`.",
            false => "",
        };
        format!("Attestation {id} is {}{why}{transaction}{next}", row.state.key())
    })?;
    Ok(answer(failed))
}

/// Goes on with what is under way on the chains that are configured.
fn go_on(home: &Home, out: &Output) -> Done {
    let chains = attesting(home, None)?;
    ensure!(
        !chains.is_empty(),
        "no chain is configured for writing: [chain.attest] in {}",
        home.config_file().display()
    );
    let names: Vec<String> = chains.iter().map(|chain| chain.writer.chain().to_owned()).collect();
    let (authority, attester) = attester(home, chains)?;
    let mut progress = progress::Progress::new(out, Uuid::nil());
    let left = || -> anyhow::Result<usize> {
        let view = authority.ledger().view()?;
        names.iter().try_fold(0, |sum, chain| Ok(sum + query::open_attestations(&*view, chain)?.len()))
    };
    runtime()?.block_on(async {
        while left()? > 0 {
            for chain in &names {
                if let Err(error) = attester.drive(chain).await {
                    ensure!(error.is_passing(), "{error}");
                    progress.waits(&error);
                }
            }
            tokio::time::sleep(progress::LOOK_EVERY).await;
        }
        anyhow::Ok(())
    })?;
    out.show(&json!({ "open": 0 }), || "Nothing is under way.".to_owned())?;
    Ok(ExitCode::SUCCESS)
}

/// For the service: attests beside it, where a chain is configured for writing.
pub fn beside_service(
    home: &Home,
    app: &Arc<credence_server::App>,
) -> anyhow::Result<Option<Attester<credence_server::App>>> {
    let chains = attesting(home, None)?;
    if chains.is_empty() {
        return Ok(None);
    }
    let log = LogVerifier::parse(&home.config()?.log_key)?;
    let attester = Attester::new(Arc::clone(app), app.office().clone(), log, clock(), chains, Pace::default());
    app.attest_with(&attester);
    Ok(Some(attester))
}
