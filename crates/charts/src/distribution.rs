//! Mean and spread as a curve: the normal density over the tier bands, and the share of it in each.
//!
//! The curve is `exp(-(x - mean)² / 2σ²)`, scaled to its highest value on 0..=100; only its shape is read. The shares are
//! the caller's: the engine computes them, and a second computation here could disagree with it.

use crate::bands::{Band, holding, usable};
use crate::chart::Chart;
use crate::frame::{EDGE, LARGE_TEXT, Plot, SMALL_TEXT, TOP, WIDTH, finish, fitted, nothing, titled, width_of};
use crate::number::{fixed, percent};
use crate::scale::{Linear, room};
use crate::svg::{Anchor, Svg};

/// Room above the curve for the score's label.
const HEADROOM: f64 = 26.0;
const BOTTOM: f64 = 206.0;
/// Below this the curve is narrower than its line: a spike.
const LEAST_STDDEV: f64 = 0.05;
/// Points of the curve per standard deviation, and how many deviations are drawn finely.
const FINENESS: i32 = 6;
const DEVIATIONS: i32 = 4;

/// A band and the share of the curve over it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share<'a> {
    /// The tier.
    pub band: Band<'a>,
    /// The share, 0..=1.
    pub share: f64,
}

/// The normal density over the bands, shaded per band, the share under each, and a marker at the score.
pub fn distribution(title: &str, mean: f64, stddev: f64, score: u8, shares: &[Share<'_>]) -> Chart {
    if !mean.is_finite() || !stddev.is_finite() {
        return nothing(title, "The score has no estimate.");
    }
    let bands = usable(shares.iter().map(|share| share.band));
    let plot = Plot { left: EDGE + 8.0, right: WIDTH - EDGE - 8.0, top: TOP, bottom: BOTTOM };
    let x = plot.x(0.0, 100.0);
    let density = Density::new(mean, stddev, &plot);
    let mut svg = titled(title);
    plot.y_label(&mut svg, "Density over the score, 0 to 100");
    for (index, band) in &bands {
        let (left, right) = (x.at(band.from), x.at(band.to));
        let hover = hover(band, shares[*index].share);
        let wash = format!("c-band-{index} c-wash");
        svg.rect(&wash, (left, plot.top), (right - left, plot.bottom - plot.top)).hover(&hover);
        density.shade(&mut svg, &format!("c-band-{index} c-shade"), band, &x, &hover);
    }
    if bands.is_empty() {
        density.shade(&mut svg, "c-ribbon", &Band { name: "", from: 0.0, to: 100.0 }, &x, "Density of the score");
    }
    density.outline(&mut svg, &x, &format!("Mean {}, standard deviation {}", fixed(mean, 1), fixed(stddev, 2)));
    draw_score(&mut svg, &plot, x.at(score.into()), score);
    let height = draw_feet(&mut svg, &plot, &x, &bands, shares);
    finish(title, summary(mean, stddev, score, &bands, shares), height, svg)
}

struct Density {
    mean: f64,
    stddev: f64,
    peak: f64,
    top: f64,
    bottom: f64,
}

impl Density {
    fn new(mean: f64, stddev: f64, plot: &Plot) -> Self {
        let mut density = Self { mean, stddev, peak: 1.0, top: plot.top + HEADROOM, bottom: plot.bottom };
        // A mean outside the scale leaves only a flank, which is then drawn at full height.
        density.peak = density.value(mean.clamp(0.0, 100.0)).max(f64::MIN_POSITIVE);
        density
    }

    fn is_spike(&self) -> bool {
        self.stddev < LEAST_STDDEV
    }

    fn value(&self, at: f64) -> f64 {
        if self.is_spike() {
            return 0.0;
        }
        let deviations = (at - self.mean) / self.stddev;
        (-deviations * deviations / 2.0).exp()
    }

    /// The curve from one value to another, fine around the mean and coarse where it is flat.
    fn curve(&self, from: f64, to: f64, x: &Linear) -> Vec<(f64, f64)> {
        let near = (-DEVIATIONS * FINENESS..=DEVIATIONS * FINENESS)
            .map(|step| self.mean + f64::from(step) / f64::from(FINENESS) * self.stddev);
        let far = (0..=50).map(|step| f64::from(step) * 2.0);
        let inside = near.chain(far).filter(|at| *at > from && *at < to);
        let mut places: Vec<f64> = inside.chain([from, to]).collect();
        places.sort_by(f64::total_cmp);
        let y = |at| self.bottom - self.value(at) / self.peak * (self.bottom - self.top);
        places.into_iter().map(|at| (x.at(at), y(at))).collect()
    }

    fn shade(&self, svg: &mut Svg, class: &str, band: &Band<'_>, x: &Linear, hover: &str) {
        if self.is_spike() {
            return;
        }
        let mut outline = self.curve(band.from, band.to, x);
        outline.push((x.at(band.to), self.bottom));
        outline.push((x.at(band.from), self.bottom));
        svg.area(class, &outline).hover(hover);
    }

    fn outline(&self, svg: &mut Svg, x: &Linear, hover: &str) {
        let spike = [(x.at(self.mean), self.bottom), (x.at(self.mean), self.top)];
        if self.is_spike() {
            return svg.path("c-line c-spike", &spike).hover(hover);
        }
        svg.path("c-line", &self.curve(0.0, 100.0, x)).hover(hover);
    }
}

fn draw_score(svg: &mut Svg, plot: &Plot, x: f64, score: u8) {
    let label = format!("Score {score}");
    svg.line("c-score-under", (x, plot.top + HEADROOM - 4.0), (x, plot.bottom));
    svg.line("c-score", (x, plot.top + HEADROOM - 4.0), (x, plot.bottom));
    let tip = plot.top + HEADROOM + 4.0;
    svg.area("c-score-tip", &[(x, tip), (x - 6.0, tip - 9.0), (x + 6.0, tip - 9.0)]).hover(&label);
    let half = width_of(&label) * LARGE_TEXT / 2.0;
    let place = x.clamp(plot.left + half, plot.right - half);
    svg.text("c-value", Anchor::Middle, place, plot.top + 18.0, &label);
}

/// What is under the plot: the bands' boundaries, their shares and names. Gives the height of the whole picture.
fn draw_feet(svg: &mut Svg, plot: &Plot, x: &Linear, bands: &[(usize, Band<'_>)], shares: &[Share<'_>]) -> f64 {
    let mut edges: Vec<f64> = [0.0, 100.0].into_iter().chain(bands.iter().flat_map(|(_, b)| [b.from, b.to])).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let ticks: Vec<(f64, String)> = edges.into_iter().map(|edge| (x.at(edge), fixed(edge, 1))).collect();
    plot.x_ticks(svg, &ticks);
    if bands.is_empty() {
        plot.x_label(svg, "Score");
        return plot.bottom + 58.0;
    }
    let middles: Vec<f64> = bands.iter().map(|(_, band)| x.at((band.from + band.to) / 2.0)).collect();
    let shown = room(&middles, SMALL_TEXT * 2.6, LARGE_TEXT * 2.6);
    // Names too wide for their band are set in two rows by turns, which gives each the width of two bands.
    let wide = |(_, band): &(usize, Band<'_>)| width_of(band.name) * LARGE_TEXT > x.at(band.to) - x.at(band.from) - 8.0;
    let rows = if bands.iter().any(wide) && bands.len() > 1 { 2 } else { 1 };
    for (place, (((index, band), middle), shown)) in bands.iter().zip(&middles).zip(shown).enumerate() {
        let share = shares[*index].share;
        svg.group(&hover(band, share));
        if let Some(class) = shown.class("c-value").filter(|_| share.is_finite()) {
            svg.text(&class, Anchor::Middle, *middle, plot.bottom + 48.0, &percent(share));
        }
        let (room, at) = name_room(&middles, place, rows, width_of(band.name) * LARGE_TEXT);
        let baseline = plot.bottom + 72.0 + 23.0 * (place % rows) as f64;
        fitted(svg, "c-tick", Anchor::Middle, (at, baseline, false), band.name, room);
        svg.end_group();
    }
    plot.bottom + 84.0 + 23.0 * (rows - 1) as f64
}

/// The width free for the name of band `place` between its neighbours in the row or the picture's edges, and the middle
/// of a name that needs `width`: its band's, moved inwards where an edge is near.
fn name_room(middles: &[f64], place: usize, rows: usize, width: f64) -> (f64, f64) {
    let at = middles[place];
    let left = place.checked_sub(rows).map_or(EDGE / 2.0, |other| (at + middles[other]) / 2.0 + 3.0);
    let right = middles.get(place + rows).map_or(WIDTH - EDGE / 2.0, |other| (at + other) / 2.0 - 3.0);
    let half = width.min(right - left) / 2.0;
    (right - left, at.max(left + half).min(right - half))
}

fn hover(band: &Band<'_>, share: f64) -> String {
    if share.is_finite() { format!("{}: {}", band.described(), percent(share)) } else { band.described() }
}

fn summary(mean: f64, stddev: f64, score: u8, bands: &[(usize, Band<'_>)], shares: &[Share<'_>]) -> String {
    let tier = holding(bands, score.into()).map(|band| format!(" ({})", band.name)).unwrap_or_default();
    let known = bands.iter().filter(|(index, _)| shares[*index].share.is_finite());
    let listed: Vec<String> =
        known.map(|(index, band)| format!("{} {}", band.name, percent(shares[*index].share))).collect();
    let shares = if listed.is_empty() { String::new() } else { format!(" Shares: {}.", listed.join(", ")) };
    format!("Score {score}{tier}; mean {}, standard deviation {}.{shares}", fixed(mean, 1), fixed(stddev.max(0.0), 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: [Share<'_>; 2] = [
        Share { band: Band { name: "Low", from: 0.0, to: 60.0 }, share: 0.022 },
        Share { band: Band { name: "High", from: 60.0, to: 100.0 }, share: 0.978 },
    ];

    #[test]
    fn shares_score_and_bands_are_told() {
        let chart = distribution("T", 71.5, 5.75, 68, &SHARES);
        assert_eq!(chart.summary(), "Score 68 (High); mean 71.5, standard deviation 5.75. Shares: Low 2%, High 98%.");
        let svg = chart.inline();
        for part in [">98%<", ">2%<", ">Score 68<", "c-band-1 c-shade", "<title>High, 60 to 100: 98%</title>", ">60<"] {
            assert!(svg.contains(part), "missing {part}");
        }
    }

    #[test]
    fn no_deviation_is_a_spike_at_the_mean() {
        let svg = distribution("T", 50.0, 0.0, 50, &SHARES).inline();
        assert!(svg.contains("d=\"M320 206L320 90\""), "{svg}");
        assert!(!svg.contains("c-shade"));
    }

    #[test]
    fn a_mean_off_the_scale_or_a_tiny_deviation_still_draws() {
        for (mean, stddev) in [(-40.0, 3.0), (140.0, 0.06), (50.0, 1e300), (1e300, 1.0), (50.0, -2.0)] {
            let svg = distribution("T", mean, stddev, 255, &SHARES).inline();
            assert!(svg.contains("c-line") && !svg.contains("NaN") && !svg.contains("inf"), "{mean} {stddev}");
        }
        assert!(distribution("T", f64::NAN, 1.0, 5, &SHARES).summary().starts_with("Nothing"));
    }

    #[test]
    fn names_wider_than_their_bands_use_two_rows() {
        let bands = |names: [&'static str; 5]| {
            let band =
                |index: usize| Band { name: names[index], from: index as f64 * 20.0, to: index as f64 * 20.0 + 20.0 };
            (0..5).map(|index| Share { band: band(index), share: 0.2 }).collect::<Vec<_>>()
        };
        let short = distribution("T", 50.0, 9.0, 50, &bands(["A", "B", "C", "D", "E"]));
        let long = distribution("T", 50.0, 9.0, 50, &bands(["Provisional", "Established", "C", "D", "E"]));
        assert!(long.inline().contains(">Provisional<") && long.inline().contains(">Established<"));
        assert!(long.height > short.height);
    }
}
