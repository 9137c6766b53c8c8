use std::{fs, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, bail};
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

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    if home.config_file().exists() {
        bail!("{} holds an authority already: nothing was changed", home.path().display());
    }
    if !(0.0..=1.0).contains(&args.coverage_floor) {
        bail!("--coverage-floor {} is outside 0..=1", args.coverage_floor);
    }
    let folder: PathBuf = home.key_file("log").parent().map(PathBuf::from).unwrap_or_default();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (log, own) = (SecretKey::generate()?, SecretKey::generate()?);
    let origin = args.origin.unwrap_or_else(|| format!("credence.local/{}", &log.public().id().to_string()[..8]));
    let log_key = LogKey::new(&origin, &log)?;
    keyfile::write(&home.key_file("log"), &log)?;
    keyfile::write(&home.key_file(AUTHORITY_SOURCE), &own)?;
    let vkey = log_key.verifier().as_str().to_owned();
    let ledger = SqliteLedger::create(home.options(), log_key, clock())?;
    let settings = Settings { coverage_floor: args.coverage_floor };
    let authority = Authority::open(Arc::new(ledger), &settings, clock())?;
    let source = EntityId::new(AUTHORITY_SOURCE)?;
    let description = Some("what this authority measures itself".to_owned());
    authority.add_source(NewSource { source: source.clone(), weight: 1.0, description })?;
    authority.add_key(&own.public(), source)?;
    // Last: a folder with this file is whole.
    let config = Config { log_key: vkey.clone(), coverage_floor: args.coverage_floor };
    fs::write(home.config_file(), toml::to_string(&config)?)?;
    let path = home.path().display();
    out.show(&json!({ "data": home.path(), "origin": origin, "log_key": vkey }), || {
        format!("Created an authority in {path}\n  log      {origin}\n  log key  {vkey}\nNext: `credence source add` and `credence agent add`.")
    })?;
    Ok(ExitCode::SUCCESS)
}
