//! Fees (EIP-1559): what a transaction offers, never above the operator's cap.
//!
//! A transaction pays `base + tip` for each unit of gas, where the base fee can grow by an eighth with every block. So it offers
//! `2 · base + tip`, enough for five full blocks in a row, or the cap if that is less; if even `base + tip` is above the cap, it is
//! not made. A replacement offers at least an eighth more than what it replaces, in both parts: below that, nodes keep the old one.

use crate::ChainError;

/// What the operator is willing to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeePolicy {
    /// The most for a unit of gas, base fee and tip together, in wei.
    pub max_fee_per_gas: u128,
    /// The most of it for the tip, in wei.
    pub max_tip: u128,
    /// Gas above the node's estimate, in percent.
    pub gas_margin_percent: u32,
    /// The most gas for one transaction.
    pub max_gas: u64,
}

impl Default for FeePolicy {
    /// 50 gwei, of these 2 as tip; a quarter more gas than estimated, a million at most.
    fn default() -> Self {
        Self { max_fee_per_gas: 50_000_000_000, max_tip: 2_000_000_000, gas_margin_percent: 25, max_gas: 1_000_000 }
    }
}

/// What a transaction offers for a unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) max_fee: u128,
    pub(super) tip: u128,
}

impl Offer {
    /// An eighth more, rounded up.
    fn raised(self) -> Self {
        let raise = |fee: u128| fee.saturating_add(fee.div_ceil(8));
        Self { max_fee: raise(self.max_fee), tip: raise(self.tip) }
    }
}

impl FeePolicy {
    /// What to offer at a base fee and a tip that the node suggests.
    pub(super) fn offer(&self, base: u128, suggested_tip: u128, replaced: Option<Offer>) -> Result<Offer, ChainError> {
        let least = replaced.map(Offer::raised).unwrap_or(Offer { max_fee: 0, tip: 0 });
        let tip = suggested_tip.min(self.max_tip).max(least.tip);
        let wanted = base.saturating_add(tip).max(least.max_fee);
        if wanted > self.max_fee_per_gas {
            return Err(ChainError::FeeAboveCap { wanted, cap: self.max_fee_per_gas });
        }
        let comfortable = base.saturating_mul(2).saturating_add(tip);
        Ok(Offer { max_fee: comfortable.clamp(wanted, self.max_fee_per_gas), tip })
    }

    /// The gas limit for an estimate.
    pub(super) fn gas(&self, estimate: u64) -> Result<u64, ChainError> {
        let gas = estimate.saturating_add(estimate.saturating_mul(u64::from(self.gas_margin_percent)) / 100);
        if gas > self.max_gas {
            return Err(ChainError::Limit { what: "the gas of the transaction", limit: self.max_gas });
        }
        Ok(gas)
    }

    /// A fee that cannot be capped, with the margin.
    pub(super) fn with_margin(&self, fee: u128) -> u128 {
        fee.saturating_add(fee.saturating_mul(u128::from(self.gas_margin_percent)) / 100)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: FeePolicy = FeePolicy { max_fee_per_gas: 100, max_tip: 10, gas_margin_percent: 25, max_gas: 1_000 };

    #[test]
    fn offers_stay_below_the_cap() {
        assert_eq!(POLICY.offer(20, 3, None), Ok(Offer { max_fee: 43, tip: 3 }));
        assert_eq!(POLICY.offer(60, 3, None), Ok(Offer { max_fee: 100, tip: 3 }));
        assert_eq!(POLICY.offer(20, 50, None), Ok(Offer { max_fee: 50, tip: 10 }));
        assert_eq!(POLICY.offer(98, 3, None), Err(ChainError::FeeAboveCap { wanted: 101, cap: 100 }));
        assert_eq!(POLICY.offer(u128::MAX, 3, None), Err(ChainError::FeeAboveCap { wanted: u128::MAX, cap: 100 }));
    }

    #[test]
    fn a_replacement_offers_an_eighth_more() {
        let old = Offer { max_fee: 43, tip: 3 };
        assert_eq!(POLICY.offer(20, 3, Some(old)), Ok(Offer { max_fee: 49, tip: 4 }));
        let old = Offer { max_fee: 90, tip: 3 };
        assert_eq!(POLICY.offer(20, 3, Some(old)), Err(ChainError::FeeAboveCap { wanted: 102, cap: 100 }));
    }

    #[test]
    fn gas_has_a_margin_and_an_end() {
        assert_eq!(POLICY.gas(100), Ok(125));
        assert_eq!(POLICY.gas(800), Ok(1_000));
        assert_eq!(POLICY.gas(801), Ok(1_001).and_then(|_: u64| POLICY.gas(801)));
        assert!(POLICY.gas(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn nodes_take_every_offer(base: u128, tip: u128, old_fee in 0..100_u128, old_tip in 0..20_u128, replaces: bool) {
            let old = replaces.then_some(Offer { max_fee: old_fee.max(old_tip), tip: old_tip });
            if let Ok(offer) = POLICY.offer(base, tip, old) {
                prop_assert!(offer.max_fee <= 100 && offer.tip <= offer.max_fee && offer.max_fee >= base);
                if let Some(old) = old {
                    prop_assert!(offer.max_fee * 8 >= old.max_fee * 9 && offer.tip * 8 >= old.tip * 9);
                }
            }
        }
    }
}
