//! A run against a target, with what tests usually want.

use std::{
    num::NonZeroU32,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};

use credence_sandbox::{
    Threat,
    consent::LoopbackOnly,
    report::{FamilyResult, RunResult, ThreatResult},
    runner::{Cancel, Observer, Quiet, Run, RunError, RunOptions, RunOutput},
    sensor::{listener::Listener, mount::Mount},
    suite::Suite,
    target::{
        Target, TargetSpec, Transport, connect,
        wire::{Credential, WireSettings},
    },
};

/// The families of these tests.
pub fn suite() -> Suite {
    static SUITE: LazyLock<Suite> = LazyLock::new(|| {
        Suite::from_texts([
            ("asi01.toml", include_str!("../probes/asi01.toml")),
            ("asi06.toml", include_str!("../probes/asi06.toml")),
            ("asi08.toml", include_str!("../probes/asi08.toml")),
        ])
        .unwrap()
    });
    SUITE.clone()
}

pub fn settings() -> WireSettings {
    WireSettings {
        allow_loopback: true,
        rate: NonZeroU32::new(100_000).unwrap(),
        in_flight: 8,
        deadline: Duration::from_secs(10),
        credentials: [Some(Credential::bearer("first-key").unwrap()), Some(Credential::bearer("second-key").unwrap())],
        ..WireSettings::default()
    }
}

pub fn options() -> RunOptions {
    RunOptions {
        seed: 11,
        benchmarks: false,
        reliability_spread: Duration::ZERO,
        in_flight: 4,
        ..RunOptions::default()
    }
}

/// A run to be.
pub struct World {
    pub suite: Suite,
    pub spec: TargetSpec,
    pub settings: WireSettings,
    pub options: RunOptions,
    pub journal: Option<PathBuf>,
    pub cancel: Cancel,
    pub observer: Arc<dyn Observer>,
    pub mount: Option<Mount>,
    pub listener: Option<Listener>,
}

impl World {
    pub fn chat(url: &str) -> Self {
        Self::over(Transport::Chat, url)
    }

    pub fn over(transport: Transport, url: &str) -> Self {
        Self {
            suite: suite(),
            spec: TargetSpec::new(transport, url),
            settings: settings(),
            options: options(),
            journal: None,
            cancel: Cancel::default(),
            observer: Arc::new(Quiet),
            mount: None,
            listener: None,
        }
    }

    pub fn threats(mut self, threats: &[Threat]) -> Self {
        self.options.threats = threats.to_vec();
        self
    }

    pub async fn target(&self) -> Result<Box<dyn Target>, String> {
        connect(&self.spec, self.settings.clone(), Arc::new(LoopbackOnly), self.cancel.clone()).await
    }

    pub async fn try_run(&self) -> Result<RunOutput, RunError> {
        let target = self.target().await.unwrap();
        self.run_on(target.as_ref()).await
    }

    pub async fn run_on(&self, target: &dyn Target) -> Result<RunOutput, RunError> {
        let run = Run {
            suite: &self.suite,
            target,
            address: self.spec.recorded_url().unwrap(),
            options: self.options.clone(),
            listener: self.listener.as_ref(),
            mount: self.mount.as_ref(),
            journal: self.journal.as_deref(),
            observer: self.observer.as_ref(),
            cancel: self.cancel.clone(),
        };
        run.execute().await
    }

    pub async fn run(&self) -> RunOutput {
        self.try_run().await.unwrap()
    }
}

pub fn threat<'a>(result: &'a RunResult, tag: &str) -> &'a ThreatResult {
    result.threats.iter().find(|threat| threat.tag.starts_with(tag)).unwrap()
}

pub fn family<'a>(result: &'a RunResult, id: &str) -> &'a FamilyResult {
    result.threats.iter().flat_map(|threat| &threat.families).find(|family| family.family == id).unwrap()
}
