//! The service's attester for requests of the operator (`POST /v1/agents/{agent}/attestations`).

use std::sync::Arc;

use super::{Attester, Pace};
use crate::app::App;

impl App {
    /// From now on requests may ask for attestations on the chains of `attester`.
    pub fn attest_with(&self, attester: &Attester<Self>) {
        // A service has one attester.
        let _ = self.attesting.set(Arc::clone(&attester.chains));
    }

    /// Records intents that the service's own attester goes on with; `None` where nothing is written.
    pub(crate) fn attester(self: &Arc<Self>) -> Option<Attester<Self>> {
        let chains = Arc::clone(self.attesting.get()?);
        let (office, log) = (self.office().clone(), self.log.clone());
        Some(Attester::sharing(Arc::clone(self), office, log, Arc::clone(&self.clock), chains, Pace::default()))
    }
}
