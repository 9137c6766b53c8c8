//! Attestations in Prometheus' form. The numbers are those of the database: several nodes show the same.

use std::sync::atomic::Ordering;

use credence_pipeline::attestations::Total;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    chain: String,
    step: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChainLabels {
    chain: String,
}

/// Numbers for each chain.
#[derive(Default, Clone)]
pub(crate) struct AttestationMetrics {
    steps: Family<StepLabels, Counter>,
    fees: Family<ChainLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
}

impl AttestationMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("attestations", "Steps of attestations, by chain", self.steps.clone());
        let says = "What attestations cost so far, in the chain's smallest unit";
        registry.register("attestation_fees", says, self.fees.clone());
    }

    pub(crate) fn set(&self, totals: &[Total]) {
        for Total { chain, step, steps, .. } in totals {
            let labels = StepLabels { chain: chain.clone(), step: step.clone() };
            self.steps.get_or_create(&labels).inner().store(*steps, Ordering::Relaxed);
        }
        for Total { chain, .. } in totals {
            let of_chain = totals.iter().filter(|total| total.chain == *chain);
            let fees: f64 = of_chain.map(|total| total.fees.0 as f64).sum();
            self.fees.get_or_create(&ChainLabels { chain: chain.clone() }).set(fees);
        }
    }
}
