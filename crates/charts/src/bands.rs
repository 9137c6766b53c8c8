//! Tier bands on the score's scale 0..=100.

/// Bands the stylesheet has colours for.
pub(crate) const MOST_BANDS: usize = 8;

/// A tier's stretch of the score, `from..to` on 0..=100. Bands are given in ascending order, at most eight; the colour
/// follows from the place in the list (class `c-band-0` and on).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band<'a> {
    /// The tier's name.
    pub name: &'a str,
    /// Where it begins, belonging to it.
    pub from: f64,
    /// Where it ends, belonging to the next.
    pub to: f64,
}

impl Band<'_> {
    /// `Gold, 60 to 80`.
    pub(crate) fn described(&self) -> String {
        format!("{}, {} to {}", self.name, crate::number::fixed(self.from, 1), crate::number::fixed(self.to, 1))
    }
}

/// The bands that can be drawn, cut to 0..=100, each with its place in the list.
pub(crate) fn usable<'a>(bands: impl IntoIterator<Item = Band<'a>>) -> Vec<(usize, Band<'a>)> {
    let cut = |band: Band<'a>| Band { from: band.from.clamp(0.0, 100.0), to: band.to.clamp(0.0, 100.0), ..band };
    let known = bands.into_iter().take(MOST_BANDS).enumerate();
    let known = known.filter(|(_, band)| band.from.is_finite() && band.to.is_finite());
    known.map(|(index, band)| (index, cut(band))).filter(|(_, band)| band.from < band.to).collect()
}

/// The band that holds `value`; the last one holds its end too.
pub(crate) fn holding<'a>(bands: &[(usize, Band<'a>)], value: f64) -> Option<Band<'a>> {
    let inside = |band: &Band<'_>| (band.from..band.to).contains(&value);
    let last = bands.last().filter(|(_, band)| value == band.to);
    bands.iter().find(|(_, band)| inside(band)).or(last).map(|(_, band)| *band)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_bands_are_left_out_and_keep_no_place() {
        let band = |from, to| Band { name: "b", from, to };
        let found = usable([band(f64::NAN, 20.0), band(20.0, 20.0), band(-5.0, 40.0), band(40.0, f64::INFINITY)]);
        assert_eq!(found, [(2, band(0.0, 40.0))]);
        assert_eq!(usable((0..20).map(|n| band(f64::from(n), f64::from(n) + 1.0))).len(), MOST_BANDS);
    }

    #[test]
    fn a_boundary_belongs_to_the_higher_band_and_100_to_the_last() {
        let bands = usable([Band { name: "low", from: 0.0, to: 60.0 }, Band { name: "high", from: 60.0, to: 100.0 }]);
        let name = |value| holding(&bands, value).map(|band| band.name);
        assert_eq!([name(59.9), name(60.0), name(100.0), name(101.0)], [Some("low"), Some("high"), Some("high"), None]);
    }
}
