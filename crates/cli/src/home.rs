//! The authority's folder: `credence.toml`, `ledger.db`, `checkpoint`, `log.jwk`, `keys/`, `tokens.json`, `served-at`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use credence_engine::{certification::Requirements, universal::DEFAULT_COVERAGE_FLOOR};
use credence_ledger::{
    Clock, Ledger, LogKey, LogVerifier, OutsideCheckpoint, SqliteLedger, View,
    sqlite::{Options, Sealing},
};
use credence_pipeline::{Authority, TABLES, query::Reading, receipts::ReceiptStore};
use credence_protocol::{AUTHORITY_SOURCE, Audience, EntityId, SecretKey, TagRegistry, Timestamp, nearest};
use credence_server::{
    settings::Settings,
    tokens::{TokenFile, TokenStore},
};
use serde::{Deserialize, Serialize};

use crate::keyfile;

/// Holds the log's private key instead of `log.jwk`.
pub const LOG_KEY_VARIABLE: &str = "CREDENCE_LOG_KEY";

/// Holds the private key of source `credence` instead of `keys/credence.jwk`.
pub const AUTHORITY_KEY_VARIABLE: &str = "CREDENCE_AUTHORITY_KEY";

/// Where the service is reached, as it was started last.
const SERVED_AT: &str = "served-at";

/// `credence.toml`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The log's public key, as `name+hash+key`: what others verify our checkpoints with.
    pub log_key: String,
    /// Coverage below which a score is not published.
    #[serde(default = "default_floor")]
    pub coverage_floor: f64,
    /// What `credence serve` goes by.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub serve: toml::Table,
    /// On-chain registries: `credence_chain::config` reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<toml::Table>,
}

/// The keys of [`Config`].
const CONFIG_KEYS: [&str; 4] = ["log_key", "coverage_floor", "serve", "chain"];

fn default_floor() -> f64 {
    DEFAULT_COVERAGE_FLOOR
}

/// The folder, whether or not it exists yet.
pub struct Home(PathBuf);

impl Home {
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn config_file(&self) -> PathBuf {
        self.0.join("credence.toml")
    }

    /// Where the log's private key is kept: apart from those of sources, one of which may be called `log`.
    pub fn log_key_file(&self) -> PathBuf {
        self.0.join("log.jwk")
    }

    /// Where a source's private key is kept when it is kept here.
    pub fn key_file(&self, owner: &str) -> PathBuf {
        self.0.join("keys").join(format!("{owner}.jwk"))
    }

    /// Where the service on this folder was reached when it was started last.
    pub fn served_at(&self) -> anyhow::Result<Option<String>> {
        let path = self.0.join(SERVED_AT);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Keeps where the service is reached, for commands that say it in what they sign.
    pub fn keep_served_at(&self, url: &str) -> anyhow::Result<()> {
        crate::traces::write(&self.0.join(SERVED_AT), format!("{url}\n").as_bytes())
    }

    pub fn options(&self) -> Options {
        Options {
            path: self.0.join("ledger.db"),
            tables: TABLES,
            outside: OutsideCheckpoint::at(self.0.join("checkpoint")),
            sealing: Sealing::EveryCommit,
        }
    }

    pub fn config(&self) -> anyhow::Result<Config> {
        let path = self.config_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                bail!(
                    "no authority in {}: create one with `credence init`, or name another with --data",
                    self.0.display()
                )
            }
            Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
        };
        let invalid = || format!("{} is not valid", path.display());
        let table: toml::Table = text.parse().with_context(invalid)?;
        if let Some(key) = table.keys().find(|key| !CONFIG_KEYS.contains(&key.as_str())) {
            let of_service = Settings::keys();
            let meant = match nearest(key, CONFIG_KEYS.into_iter().chain(of_service.iter().map(String::as_str))) {
                Some(known) if CONFIG_KEYS.contains(&known) => format!("did you mean '{known}'?"),
                Some(known) => format!("did you mean '{known}' in [serve]?"),
                None => format!("known are {}", CONFIG_KEYS.join(", ")),
            };
            bail!("{}: there is no setting '{key}': {meant}", path.display());
        }
        table.try_into().with_context(invalid)
    }

    /// What the service goes by, without flags.
    pub fn settings(&self, file: &toml::Table, flags: &[(String, String)]) -> anyhow::Result<Settings> {
        let text = |name: &std::ffi::OsStr| name.to_str().map(str::to_owned);
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((text(&name)?, text(&value)?)));
        Settings::merge(file, variables, flags)
            .with_context(|| format!("settings of the service, in {} and above", self.config_file().display()))
    }

    /// What signals and statements for the authority in this folder name as their `aud`; none where there is no authority.
    pub fn origin(&self) -> anyhow::Result<Option<Audience>> {
        if !self.config_file().exists() {
            return Ok(None);
        }
        Ok(Some(Audience::new(LogVerifier::parse(&self.config()?.log_key)?.origin())?))
    }

    /// The log's name and private key.
    pub fn log_key(&self, config: &Config) -> anyhow::Result<LogKey> {
        let verifier = LogVerifier::parse(&config.log_key)?;
        let secret: SecretKey = keyfile::from_environment_or(LOG_KEY_VARIABLE, &self.log_key_file())?;
        let key = LogKey::new(verifier.origin(), &secret)?;
        if key.verifier().as_str() != config.log_key {
            bail!("the log's private key does not belong to log_key in {}", self.config_file().display());
        }
        Ok(key)
    }

    /// Signs the log of receipts that guards hand in: the log's own key, under another name.
    pub fn receipts_key(&self, config: &Config) -> anyhow::Result<LogKey> {
        let verifier = LogVerifier::parse(&config.log_key)?;
        let secret: SecretKey = keyfile::from_environment_or(LOG_KEY_VARIABLE, &self.log_key_file())?;
        Ok(LogKey::new(&receipts_origin(verifier.origin()), &secret)?)
    }

    /// The receipts that guards handed in, for an audit: their database, if there is one, and what verifies its checkpoints.
    pub fn held_receipts(&self) -> anyhow::Result<(Option<SqliteLedger>, LogVerifier)> {
        let verifier = LogVerifier::parse(&self.config()?.log_key)?;
        let verifier = verifier.renamed(&receipts_origin(verifier.origin()))?;
        let options = ReceiptStore::options(&self.0);
        let held =
            options.path.exists().then(|| SqliteLedger::open_unchecked(options, verifier.clone())).transpose()?;
        Ok((held, verifier))
    }

    /// The key that signs what the authority says itself; none where it is kept elsewhere.
    pub fn signer(&self) -> anyhow::Result<Option<SecretKey>> {
        let file = self.key_file(AUTHORITY_SOURCE);
        if std::env::var_os(AUTHORITY_KEY_VARIABLE).is_none() && !file.exists() {
            return Ok(None);
        }
        keyfile::from_environment_or(AUTHORITY_KEY_VARIABLE, &file).map(Some)
    }

    /// Where the service's tokens are kept.
    pub fn tokens(&self) -> Arc<dyn TokenStore> {
        Arc::new(TokenFile::in_folder(&self.0))
    }

    /// Opens for writing.
    pub fn authority(&self) -> anyhow::Result<Authority> {
        self.authority_at(clock())
    }

    /// Opens for writing, by a clock of the caller's.
    pub fn authority_at(&self, clock: Clock) -> anyhow::Result<Authority> {
        let config = self.config()?;
        let open = || -> anyhow::Result<_> {
            Ok(SqliteLedger::open(self.options(), self.log_key(&config)?, Arc::clone(&clock)))
        };
        let ledger = self.upgraded(&open)??;
        // A lease that is there now is that of a process that has ended.
        ledger.jobs().take_over()?;
        let (coverage_floor, signer) = (config.coverage_floor, self.signer()?);
        let settings = credence_pipeline::Settings { coverage_floor, signer, ..Default::default() };
        Ok(Authority::open(Arc::new(ledger), &settings, clock)?)
    }

    /// Opens for writing to rebuild the projections: nothing is read from them before, and tables may be missing.
    pub fn rebuild(&self) -> anyhow::Result<u64> {
        let config = self.config()?;
        let ledger = SqliteLedger::open_for_repair(self.options(), self.log_key(&config)?, clock())?;
        let entries = credence_pipeline::replay::rebuild(&ledger)?;
        ledger.close()?;
        Ok(entries)
    }

    /// Opens for reading.
    pub fn reader(&self) -> anyhow::Result<Reader> {
        let config = self.config()?;
        let verifier = LogVerifier::parse(&config.log_key)?;
        let open = || -> anyhow::Result<_> { Ok(SqliteLedger::open_read_only(self.options(), verifier.clone())) };
        let ledger = self.upgraded(&open)??;
        Reader::new(ledger)
    }

    /// Opens; a ledger from before this version had all its tables gets them first, built from its entries.
    fn upgraded<T>(
        &self,
        open: &dyn Fn() -> anyhow::Result<credence_ledger::Result<T>>,
    ) -> anyhow::Result<credence_ledger::Result<T>> {
        match open()? {
            Err(credence_ledger::Error::MissingTable(_)) => {
                let entries = self.rebuild().context("the ledger lacks tables, and they could not be built")?;
                eprintln!("note: this ledger lacked tables of this version: built from its {entries} entries");
                open()
            }
            opened => Ok(opened),
        }
    }

    /// Opens for reading, whatever state the ledger is in.
    pub fn auditor(&self) -> anyhow::Result<Reader> {
        let config = self.config()?;
        let ledger = SqliteLedger::open_unchecked(self.options(), LogVerifier::parse(&config.log_key)?)?;
        Reader::new(ledger)
    }
}

/// The name of the log of receipts that guards hand in.
fn receipts_origin(origin: &str) -> String {
    format!("{origin}/receipts")
}

/// An authority open for reading.
pub struct Reader {
    pub ledger: SqliteLedger,
    pub tags: TagRegistry,
    requirements: Requirements,
}

impl Reader {
    fn new(ledger: SqliteLedger) -> anyhow::Result<Self> {
        Ok(Self { ledger, tags: TagRegistry::standard()?, requirements: Requirements::standard()? })
    }

    pub fn view(&self) -> anyhow::Result<Box<dyn View + '_>> {
        Ok(self.ledger.view()?)
    }

    pub fn reading(&self) -> Reading<'_> {
        Reading { tags: &self.tags, requirements: &self.requirements }
    }

    /// The agent with this id or alias.
    pub fn agent(&self, view: &dyn View, name: &str) -> anyhow::Result<EntityId> {
        Ok(credence_pipeline::query::resolve(view, name)?)
    }
}

/// The system's clock.
pub fn clock() -> Clock {
    Arc::new(now)
}

/// The time of day.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    #[allow(clippy::expect_used, reason = "a system clock before the year 10000")]
    Timestamp::from_micros(micros).expect("the system clock is before the year 10000")
}
