//! A provider's summary as the statement that it signs and an authority admits.

use credence_protocol::{EntityId, Error, SecretKey, Statement, StatementKind, strict::StrictValue};
use serde_json::json;

use super::{ProviderRef, RolledUp};

impl RolledUp {
    /// Names `provider` as the one that made all of these checks.
    pub fn by_provider(mut self, provider: &EntityId) -> Self {
        self.summary.providers = vec![ProviderRef {
            id: provider.to_string(),
            signer_address: None,
            methodology_url: None,
            checks_contributed: Some(self.summary.total_checks),
        }];
        self
    }

    /// Signs the summary as a statement of `provider` on `agent`. `checkpoint` is that of the receipts it was counted from.
    pub fn sign(
        &self,
        provider: &EntityId,
        agent: &str,
        checkpoint: Option<&str>,
        key: &SecretKey,
    ) -> Result<Statement, Error> {
        let mut record = json!({ "agent": agent, "window": self.window, "summary": self.summary });
        if let Some(checkpoint) = checkpoint {
            record["checkpoint"] = json!(checkpoint);
        }
        Statement::sign(provider.clone(), StatementKind::Summary, StrictValue(record), key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hcs25::output_verification::{CheckedOutput, Rollup, Window};
    use credence_protocol::{Decision, Timestamp, records::SummaryRecord};

    #[test]
    fn a_signed_summary_names_its_provider_and_verifies() {
        let (key, provider) = (SecretKey::from_seed(&[7; 32]), EntityId::new("lab").unwrap());
        let at: Timestamp = "2026-11-16T09:00:00Z".parse().unwrap();
        let mut rollup = Rollup::default();
        (0..12).for_each(|_| rollup.add("bot", CheckedOutput::new(Decision::Accept, 0.1, None, at)));
        let up = rollup.summary("bot", Window::Week, at).unwrap().by_provider(&provider);
        let statement = up.sign(&provider, "bot", Some("note"), &key).unwrap();
        statement.verify(&key.public()).unwrap();
        assert_eq!((statement.author(), statement.kind()), (&provider, StatementKind::Summary));
        let record: SummaryRecord = statement.typed().unwrap();
        assert_eq!((record.agent.as_str(), record.window.as_str()), ("bot", "7d"));
        assert_eq!(record.checkpoint.as_deref(), Some("note"));
        assert_eq!(record.summary.0["providers"][0], json!({ "id": "lab", "checksContributed": 12 }));
    }
}
