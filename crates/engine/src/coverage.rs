//! Coverage: how diverse an agent's sources are, 0..=1 (seed 4, "Why this formula").
//!
//! `coverage(n) = min(1, log2(n + 1) / log2(BASELINE + 1))`
//!
//! Logarithmic, so the second source moves it more than the eighth; past [`BASELINE_SOURCES`] more diversity stops
//! counting.

/// Sources at which coverage saturates.
pub const BASELINE_SOURCES: usize = 8;

/// Coverage of `sources` distinct sources.
pub fn coverage(sources: usize) -> f64 {
    if sources >= BASELINE_SOURCES {
        return 1.0;
    }
    libm::log2((sources + 1) as f64) / libm::log2((BASELINE_SOURCES + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed's table, with its two misprints (n = 4 and 6) corrected.
    #[test]
    fn matches_the_table() {
        let table = [0.0, 0.315465, 0.5, 0.630930, 0.732487, 0.815465, 0.885622, 0.946395, 1.0, 1.0];
        for (n, expected) in table.into_iter().enumerate() {
            assert!((coverage(n) - expected).abs() < 1e-6, "n = {n}: {}", coverage(n));
        }
    }

    #[test]
    fn another_source_never_lowers_it() {
        assert!((0..1000).map(coverage).is_sorted());
    }
}
