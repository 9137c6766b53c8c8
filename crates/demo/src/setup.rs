//! The demo: a fresh authority in a folder, its service, and the history lived through.

use std::{path::Path, sync::Arc};

use credence_ledger::{
    LogKey, OutsideCheckpoint, SqliteLedger,
    sqlite::{Options, Sealing},
};
use credence_output::did::Issuer;
use credence_pipeline::{Authority, NewSource, TABLES, credentials::Office};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, PublicKey, SecretKey};
use credence_server::{
    App, Setup,
    settings::Settings,
    tokens::{MemoryTokens, NewToken, Scope, TokenStore},
};

use crate::{
    Error,
    clock::{StoryClock, system_time},
    world::World,
};

/// The token in whose namespace tool results are judged.
const GATEWAY: &str = "tool-gateway";
/// The token that hands in signals, statements and outcomes.
pub(crate) const STOREFRONT: &str = "storefront";

/// What is to be played.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Of everything random.
    pub seed: u64,
    /// Days of history.
    pub days: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self { seed: 7, days: 60 }
    }
}

/// Tokens of the service: of the demo, and gone with it.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Has tool results judged.
    pub verify: String,
    /// Hands in what was measured and said.
    pub ingest: String,
}

/// A demo, ready to be served.
pub struct Demo {
    /// The service.
    pub app: Arc<App>,
    /// The tokens that live traffic uses.
    pub tokens: Tokens,
    /// What others verify checkpoints with, as `name+hash+key`.
    pub log_key: String,
    /// What others verify signed answers with.
    pub key: PublicKey,
    pub(crate) world: World,
}

impl Demo {
    /// Puts an authority into `folder`, which exists and is empty, and lives through its history. `lived` hears of every day.
    /// Afterwards the authority's time is the system's.
    pub fn build(
        folder: &Path,
        plan: Plan,
        settings: Settings,
        local_url: &str,
        lived: &mut dyn FnMut(u32),
    ) -> Result<Self, Error> {
        let now = system_time();
        let clock = StoryClock::standing_at(now.plus_seconds(-86_400 * i64::from(plan.days)));
        let (log, own) = (SecretKey::generate()?, SecretKey::generate()?);
        let origin = format!("credence.demo/{}", &log.public().id().to_string()[..8]);
        let log_key = LogKey::new(&origin, &log)?;
        let vkey = log_key.verifier().clone();
        let options = Options {
            path: folder.join("ledger.db"),
            tables: TABLES,
            outside: OutsideCheckpoint::at(folder.join("checkpoint")),
            // Nothing here is to outlive the process.
            sealing: Sealing::Volatile,
        };
        let ledger = SqliteLedger::create(options, log_key, clock.clock())?;
        let settings_of_authority = credence_pipeline::Settings { signer: Some(own.clone()), ..Default::default() };
        let authority = Authority::open(Arc::new(ledger), &settings_of_authority, clock.clock())?;
        authority.hold_scores(true);
        let itself = EntityId::new(AUTHORITY_SOURCE)?;
        let description = Some("what this authority measures itself".to_owned());
        authority.add_source(NewSource { description, ..NewSource::new(itself.clone(), 1.0) })?;
        authority.add_key(&own.public(), itself)?;

        let (gateway, storefront) = (EntityId::new(GATEWAY)?, EntityId::new(STOREFRONT)?);
        let store = Arc::new(MemoryTokens::default());
        let token = |name: &EntityId, scope| {
            let new = NewToken { name: name.clone(), scopes: vec![scope], expires_at: None };
            store.create(new, now).map(|(_, token)| token)
        };
        let tokens = Tokens { verify: token(&gateway, Scope::Verify)?, ingest: token(&storefront, Scope::Ingest)? };
        let app = App::new(Setup {
            authority,
            log: vkey.clone(),
            key: own.clone(),
            tokens: store,
            folder: folder.to_owned(),
            clock: clock.clock(),
            settings,
            local_url: local_url.to_owned(),
            receipts: Some(LogKey::new(&format!("{origin}/receipts"), &log)?),
            demo: Some(gateway.clone()),
            steady: None,
        })?;
        let office = Office {
            issuer: Issuer::new(None, &own.public()),
            key: own.clone(),
            base_url: local_url.trim_end_matches('/').to_owned(),
        };
        let mut world = World::new(Arc::clone(&app), clock.clone(), office, gateway, folder, plan.seed)?;
        world.live_through(plan.days, now, lived)?;
        clock.release();
        app.authority().hold_scores(false);
        Ok(Self { app, tokens, log_key: vkey.as_str().to_owned(), key: own.public(), world })
    }

    /// Simulated agents, the crowd among them.
    pub fn agents(&self) -> usize {
        self.world.agents()
    }

    /// Entries of the ledger.
    pub fn entries(&self) -> Result<u64, Error> {
        Ok(self.app.authority().ledger().committed()?)
    }
}
