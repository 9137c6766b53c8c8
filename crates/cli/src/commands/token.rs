use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use credence_protocol::EntityId;
use credence_server::tokens::{NewToken, Scope, Token};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::{Home, now},
    output::{self, Output},
};

#[derive(Subcommand)]
pub enum Command {
    /// Make a token; it is shown once
    Create {
        /// Whose it is: reports under it carry this name
        name: EntityId,
        /// What it may do; may be repeated, or a list with commas
        #[arg(long = "scope", value_enum, required = true, value_delimiter = ',')]
        scopes: Vec<ScopeArg>,
        /// Ends after so many days
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
    },
    /// List tokens, without their secrets
    List,
    /// End a token, by its id
    Revoke { id: String },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ScopeArg {
    /// Everything but review
    Admin,
    /// Submit signals, statements and outcomes; draft reports
    Ingest,
    /// Have tool results judged
    Verify,
    /// Read drafts of reports, and approve, reject and publish those of others: for people
    Review,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Admin => Scope::Admin,
            ScopeArg::Ingest => Scope::Ingest,
            ScopeArg::Verify => Scope::Verify,
            ScopeArg::Review => Scope::Review,
        }
    }
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    home.config()?;
    let store = home.tokens();
    match command {
        Command::Create { name, scopes, days } => {
            let expires_at = days.map(|days| now().plus_seconds(i64::from(days) * 86_400));
            let mut scopes: Vec<Scope> = scopes.into_iter().map(Scope::from).collect();
            scopes.sort_unstable();
            scopes.dedup();
            let new = NewToken { name, scopes, expires_at };
            let (token, text) = store.create(new, now()).context("the token could not be kept")?;
            let mut shown = described(&token);
            shown["token"] = json!(text);
            out.show(&shown, || {
                let Token { id, name, .. } = &token;
                format!("Token {id} for {name}, {}: shown once and not kept\n  {text}", scopes_of(&token))
            })?;
        }
        Command::List => {
            let tokens = store.list()?;
            let listed: Vec<Value> = tokens.iter().map(described).collect();
            out.show(&listed, || {
                let lines = tokens.iter().map(|token| {
                    let ends = token.expires_at.map_or("never".to_owned(), |end| {
                        if end <= now() { format!("{end} (over)") } else { end.to_string() }
                    });
                    vec![token.id.clone(), token.name.to_string(), scopes_of(token), token.created_at.to_string(), ends]
                });
                output::table(&["id", "name", "scopes", "made", "ends"], &[], lines)
            })?;
        }
        Command::Revoke { id } => {
            if !store.revoke(&id)? {
                bail!("no token has the id '{id}': `credence token list` shows them");
            }
            out.show(&json!({ "revoked": id }), || {
                format!("Token {id} is revoked; a running service knows within a second.")
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn scopes_of(token: &Token) -> String {
    let keys: Vec<&str> = token.scopes.iter().map(|scope| scope.key()).collect();
    keys.join(", ")
}

fn described(token: &Token) -> Value {
    json!({ "id": token.id, "name": token.name, "scopes": token.scopes, "created_at": token.created_at, "expires_at": token.expires_at })
}
