use std::{fs, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, ensure};
use credence_engine::universal::DEFAULT_COVERAGE_FLOOR;
use credence_ledger::{LogKey, SqliteLedger};
use credence_pipeline::{Authority, NewSource, Settings};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, SecretKey};
use serde_json::json;

use super::Done;
use crate::{
    home::{Config, Home, clock},
    keyfile,
    output::Output,
};

#[derive(clap::Args)]
pub struct Args {
    /// The log's name, by convention where it is served, without the scheme [default: made from the key]
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,
    /// Coverage below which a score is not published, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = DEFAULT_COVERAGE_FLOOR)]
    coverage_floor: f64,
}

/// A new authority.
pub struct Created {
    /// The log's name.
    pub origin: String,
    /// What others verify its checkpoints with.
    pub log_key: String,
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    let path = home.path();
    ensure!(!home.config_file().exists(), "{} holds an authority already: nothing was changed", path.display());
    ensure!((0.0..=1.0).contains(&args.coverage_floor), "--coverage-floor {} is outside 0..=1", args.coverage_floor);
    let Created { origin, log_key } = create(home, args.origin, args.coverage_floor)?;
    let shown = path.display();
    out.show(&json!({ "data": path, "origin": origin, "log_key": log_key }), || {
        let next = "Next: `credence source add` and `credence agent add`, or `credence serve`.";
        format!("Created an authority in {shown}\n  log      {origin}\n  log key  {log_key}\n{next}")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Creates an authority in `home`.
pub fn create(home: &Home, origin: Option<String>, coverage_floor: f64) -> anyhow::Result<Created> {
    let path = home.path();
    let occupied = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    ensure!(!occupied, "{} is not empty: nothing was changed", path.display());
    let log = SecretKey::generate()?;
    let origin = origin.unwrap_or_else(|| format!("credence.local/{}", &log.public().id().to_string()[..8]));
    let log_key = LogKey::new(&origin, &log)?;
    let vkey = log_key.verifier().as_str().to_owned();

    // Made beside, then put in place: a folder with an authority in it is whole.
    let beside = Home::at(PathBuf::from(format!(
        "{}.new-{}",
        path.display().to_string().trim_end_matches('/'),
        std::process::id()
    )));
    let made = make(&beside, &log, log_key, coverage_floor)
        .and_then(|()| fs::rename(beside.path(), path).with_context(|| format!("cannot create {}", path.display())));
    if made.is_err() {
        let _ = fs::remove_dir_all(beside.path());
    }
    made?;
    Ok(Created { origin, log_key: vkey })
}

fn make(home: &Home, log: &SecretKey, log_key: LogKey, coverage_floor: f64) -> anyhow::Result<()> {
    let keys = home.path().join("keys");
    fs::create_dir_all(&keys).with_context(|| format!("cannot create {}", keys.display()))?;
    let own = SecretKey::generate()?;
    keyfile::write(&home.log_key_file(), log)?;
    keyfile::write(&home.key_file(AUTHORITY_SOURCE), &own)?;
    let config = Config {
        log_key: log_key.verifier().as_str().to_owned(),
        coverage_floor,
        serve: toml::Table::new(),
        chain: Vec::new(),
    };
    fs::write(home.config_file(), toml::to_string(&config)?).context("cannot write credence.toml")?;
    let ledger = SqliteLedger::create(home.options(), log_key, clock())?;
    let authority = Authority::open(Arc::new(ledger), &Settings { coverage_floor, ..Settings::default() }, clock())?;
    let source = EntityId::new(AUTHORITY_SOURCE)?;
    let description = Some("what this authority measures itself".to_owned());
    authority.add_source(NewSource { description, ..NewSource::new(source.clone(), 1.0) })?;
    authority.add_key(&own.public(), source)?;
    Ok(authority.flush()?)
}
