//! Credentials issued and taken back.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use credence_pipeline::{
    credentials::Office,
    query::{self, Revocable},
};
use serde_json::json;

use super::Done;
use crate::{home::Home, output::Output, traces};

#[derive(clap::Args)]
pub struct Args {
    /// An agent's id or alias
    agent: String,
    /// How long it holds
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=366))]
    days: u16,
    /// Where to write it [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct RevokeArgs {
    /// An agent's id or alias (its standing, and with it every credential), or a credential's id
    what: String,
    /// Give an agent's standing back
    #[arg(long)]
    lift: bool,
    /// Why (public: it goes into the log)
    #[arg(long)]
    reason: Option<String>,
}

/// The office of the service that runs on this folder: credentials name an issuer and status lists, and must name the same ones
/// the command or the service that issues them.
pub fn office(home: &Home) -> anyhow::Result<Office> {
    let config = home.config()?;
    let key = home.signer()?.context("the authority's key is not here: credentials cannot be signed")?;
    let settings = home.settings(&config.serve, &[])?;
    let configured = settings.public_url.trim_end_matches('/');
    let base_url = match home.served_at()? {
        Some(kept) if !configured.is_empty() && kept != configured => bail!(
            "the service was last started as {kept}, and public_url is {configured}: credentials would have another issuer. \
             Start the service as {configured} first, or set public_url to {kept}"
        ),
        Some(kept) => kept,
        None => settings.base_url(&format!("http://{}", settings.listen)).to_owned(),
    };
    Ok(Office::new(&base_url, key))
}

pub fn issue(home: &Home, out: &Output, args: Args) -> Done {
    let office = office(home)?;
    let authority = home.authority()?;
    let agent = query::resolve(&*authority.ledger().view()?, &args.agent)?;
    let credential = authority.issue_credential(&office, &agent, args.days)?;
    authority.flush()?;
    match args.out.as_deref() {
        Some(path) => {
            traces::write(path, format!("{credential}\n").as_bytes())?;
            out.show(&json!({ "file": path, "id": credential["id"] }), || {
                format!("Credential {} in {}", credential["id"].as_str().unwrap_or_default(), path.display())
            })?;
        }
        None => writeln!(std::io::stdout(), "{credential}")?,
    }
    Ok(ExitCode::SUCCESS)
}

pub fn revoke(home: &Home, out: &Output, args: RevokeArgs) -> Done {
    let RevokeArgs { what, lift, reason } = args;
    let authority = home.authority()?;
    let found = query::revocable(&*authority.ledger().view()?, &what)?;
    match found {
        Revocable::Agent(agent) => {
            let seq = authority.set_standing(agent.clone(), !lift, reason)?;
            authority.flush()?;
            out.show(&json!({ "agent": agent, "revoked": !lift, "seq": seq }), || {
                if lift {
                    format!("The standing of {agent} is given back (entry {seq}).")
                } else {
                    format!("The standing of {agent} is revoked (entry {seq}), and with it every credential of it.")
                }
            })?;
        }
        Revocable::Credential(_) if lift => {
            bail!("a credential that was taken back stays so: issue another with `credence credential`");
        }
        Revocable::Credential(id) => {
            let seq = authority.revoke_credential(id, reason)?;
            authority.flush()?;
            out.show(&json!({ "credential": id, "revoked": true, "seq": seq }), || {
                format!("Credential {id} is revoked (entry {seq}).")
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
