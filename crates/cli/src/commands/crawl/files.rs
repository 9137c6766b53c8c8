//! Source files on the command line: lint, test.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, ensure};
use credence_ingest::{Source, builtin, jws::KeySet};
use credence_protocol::{ExternalSubject, Timestamp};
use serde_json::{Value, json};

use crate::{
    commands::{ANSWER_IS_NO, Done},
    home::now,
    input,
    output::Output,
};

/// Bytes of a source file, of a response and of keys.
const MAX_FILE: u64 = 256 * 1024;
const MAX_RESPONSE: u64 = 16 * 1024 * 1024;

#[derive(clap::Args)]
pub struct TestArgs {
    /// A source file, or the name of a built-in source
    file: String,
    /// What the source answered; several pages in their order
    #[arg(long = "response", required = true, value_name = "FILE")]
    responses: Vec<String>,
    /// What was asked about, such as repository:github.com/acme/weather
    #[arg(long, value_name = "KIND:ID")]
    subject: ExternalSubject,
    /// The keys of the signer of the response, as a JWK set
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// When it was answered [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
}

/// A source file by its path, or a built-in one by its name.
pub fn read(name: &str) -> anyhow::Result<(Source, String)> {
    let built_in = builtin::FILES.iter().find(|(known, _)| *known == name || format!("crawler-{known}") == name);
    if let Some((known, text)) = built_in.filter(|_| !Path::new(name).exists()) {
        return Ok((Source::parse(&format!("{known}.toml"), text)?, (*text).to_owned()));
    }
    let bytes = input::file(Path::new(name), MAX_FILE).with_context(|| {
        let names: Vec<&str> = builtin::FILES.iter().map(|(name, _)| *name).collect();
        format!("'{name}' is neither a source file nor built in: {}", names.join(", "))
    })?;
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))?;
    Ok((Source::parse(name, &text)?, text))
}

pub fn lint(out: &Output, files: &[String]) -> Done {
    let checked: Vec<(String, Result<Source, String>)> = files
        .iter()
        .map(|file| (file.clone(), read(file).map(|(source, _)| source).map_err(|e| format!("{e:#}"))))
        .collect();
    let all_good = checked.iter().all(|(_, result)| result.is_ok());
    let list: Vec<Value> = checked
        .iter()
        .map(|(file, result)| match result {
            Ok(source) => json!({ "file": file, "id": source.id, "version": source.version, "digest": source.digest }),
            Err(error) => json!({ "file": file, "error": error }),
        })
        .collect();
    out.show(&list, || {
        let line = |(file, result): &(String, Result<Source, String>)| match result {
            Ok(source) => {
                let (numbers, tags): (Vec<&str>, Vec<&str>) = (
                    source.numbers().collect(),
                    source.tags().into_iter().map(credence_protocol::Tag::as_str).collect(),
                );
                format!("{file}: good. {} reads {} and measures {}.\n", source.id, numbers.join(", "), tags.join(", "))
            }
            Err(error) => format!("{error}\n"),
        };
        checked.iter().map(line).collect()
    })?;
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::from(ANSWER_IS_NO) })
}

pub fn test(out: &Output, args: &TestArgs) -> Done {
    let (source, _) = read(&args.file)?;
    ensure!(
        source.speaks_of(&args.subject),
        "{} is about {}s, and has nothing to say of {}",
        source.id,
        source.subject.key(),
        args.subject
    );
    let pages: Vec<Vec<u8>> =
        args.responses.iter().map(|file| input::file(Path::new(file), MAX_RESPONSE)).collect::<anyhow::Result<_>>()?;
    let keys = match &args.keys {
        Some(file) => Some(
            KeySet::parse(&input::file(Path::new(file), MAX_FILE)?).with_context(|| format!("{file} is no JWK set"))?,
        ),
        None => None,
    };
    let read =
        credence_ingest::reading::read(&source, &args.subject, &pages, keys.as_ref(), args.at.unwrap_or_else(now));
    match read {
        Ok(reading) => {
            out.show(&reading, || {
                let mut text = String::new();
                for (name, value) in &reading.numbers {
                    text += &format!("  {name} = {value}\n");
                }
                for measured in &reading.measured {
                    let tags: Vec<&str> = measured.tags.iter().map(credence_protocol::Tag::as_str).collect();
                    text += &format!("{}: {:.2} ± {:.2}\n", tags.join(", "), measured.value, measured.stddev);
                }
                text
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Err(no) => {
            out.show(&json!({ "nothing": no.to_string() }), || format!("No signal: {no}"))?;
            Ok(ExitCode::from(ANSWER_IS_NO))
        }
    }
}
