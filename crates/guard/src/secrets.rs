//! The guard's own secrets in the environment, which neither a tool server nor an alert's program gets.
//!
//! | variable | who has it could |
//! |---|---|
//! | `CREDENCE_GUARD_KEY`, `CREDENCE_GUARD_TOKEN` | sign receipts, report to the authority |
//! | the variable that `[alerts.webhook] env` names | send alerts in the guard's name |
//! | `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TRACES_HEADERS`, … | write to the collector |

use std::{env, ffi::OsString, process::Command};

use crate::config::{AlertConfig, SecretFrom};

const OWN: [&str; 2] = ["CREDENCE_GUARD_KEY", "CREDENCE_GUARD_TOKEN"];

/// The names of variables that the guard keeps to itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretVariables(Vec<OsString>);

impl SecretVariables {
    /// Those of a guard with these alerts.
    pub fn new(alerts: Option<&AlertConfig>) -> Self {
        let header = alerts.and_then(|alerts| alerts.webhook.as_ref()).and_then(|webhook| webhook.header.as_ref());
        let of_webhook = header.and_then(|header| match &header.from {
            SecretFrom::Environment(variable) => Some(OsString::from(variable)),
            SecretFrom::File(_) => None,
        });
        let of_collector = env::vars_os().map(|(name, _)| name).filter(|name| {
            name.to_str().is_some_and(|name| name.starts_with("OTEL_EXPORTER_OTLP") && name.ends_with("HEADERS"))
        });
        Self(OWN.into_iter().map(OsString::from).chain(of_webhook).chain(of_collector).collect())
    }

    /// Leaves them out of the environment of a program.
    pub fn remove_from(&self, program: &mut Command) {
        for name in &self.0 {
            program.env_remove(name);
        }
    }
}
