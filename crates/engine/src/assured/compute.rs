//! The computing of `uts/2`: signals are sorted into cells, one for each tag and voice, and every sum runs over cells in the order
//! (tag, voice). No allocation for a signal once the [`Scratch`] has grown.
//!
//! Letters are those of the formulas in [`super`].

use std::ops::Range;

use super::{
    Measurement,
    model::{Model, TagSlot},
    parameters::{DIMENSIONS, Dimension, MAX_TAGS},
};
use crate::{Error, mixture::is_weight};

/// The largest number of a voice. Memory grows with it.
const MAX_VOICE: u32 = 1 << 20;

/// What one dimension comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DimensionNumbers {
    /// θ_d: what is believed of it.
    pub estimate: f64,
    /// The standard deviation of that.
    pub sd: f64,
    /// Z_d: the share of the estimate that is evidence.
    pub known: f64,
    /// Voices it is worth, by their shares (inverse Simpson).
    pub n_eff: f64,
    /// x̄: the mean of its tags.
    pub mean: f64,
    /// The worst tag, as far as it is measured.
    pub worst: f64,
    /// The tag that is.
    pub weakest: TagSlot,
    /// x: mean and worst together.
    pub measured: f64,
    /// A: how many tags' worth of it was looked at.
    pub facets: f64,
    /// ν: how many fully trusted, fresh sources it is worth.
    pub nu: f64,
    /// τ: by how much a source is off, given how far these disagree.
    pub tau: f64,
    /// V: the variance of x.
    pub variance: f64,
}

/// What the headline comes to. [`super::Assured`] is the same with names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numbers {
    /// 0..=100.
    pub score: u8,
    /// θ
    pub estimate: f64,
    /// s
    pub sd: f64,
    /// The one-sided 95 % lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// What the worst hole in security leaves possible.
    pub cap: f64,
    /// The share of the estimate that is evidence.
    pub known: f64,
    /// Voices it is worth.
    pub n_eff: f64,
    /// Whether any unexpired signal has a tag of a dimension.
    pub rated: bool,
    /// By dimension; none where nothing was measured.
    pub dimensions: [Option<DimensionNumbers>; DIMENSIONS],
}

/// Working memory, to be kept between agents.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Cells in the order (tag, voice).
    cells: Vec<Cell>,
    /// Where each tag's cells are.
    tags: Vec<Range<usize>>,
    /// By voice.
    voices: Vec<VoiceWork>,
}

#[derive(Debug, Clone, Copy, Default)]
struct VoiceWork {
    /// p: its share of the dimension at hand.
    share: f64,
    /// The largest e of its cells there.
    strongest: f64,
    /// q: its part of the headline.
    influence: f64,
    /// A bit for each dimension that it speaks in.
    speaks_in: u8,
}

/// What one voice says under one tag.
#[derive(Debug, Clone, Copy)]
struct Cell {
    voice: u32,
    /// Aged: how much of a fully trusted, fresh source it is; 0 when expired.
    e: f64,
    value: f64,
    stddev: f64,
    /// Not aged, for the cap.
    w: f64,
    value_w: f64,
    stddev_w: f64,
}

/// The sums of one tag.
#[derive(Debug, Clone, Copy, Default)]
struct TagSums {
    e: f64,
    x: f64,
    a: f64,
}

impl Model {
    /// The score of one agent's measurements.
    pub fn numbers(&self, signals: &[Measurement], scratch: &mut Scratch) -> Result<Numbers, Error> {
        self.sort_into_cells(signals, scratch)?;
        let mut dimensions = [None; DIMENSIONS];
        for (n, numbers) in dimensions.iter_mut().enumerate() {
            *numbers = self.dimension(n, None, scratch, true);
        }
        let cap = self.cap(None, scratch);
        let n_eff = {
            let (sum, squares) = scratch.voices.iter().fold((0.0, 0.0), |(sum, squares), voice| {
                (sum + voice.influence, squares + voice.influence * voice.influence)
            });
            if squares > 0.0 { sum * sum / squares } else { 0.0 }
        };
        Ok(self.headline(dimensions, cap, n_eff))
    }

    /// The largest change of the score when one voice is left out. `numbers` are those of the same scratch, just computed.
    pub fn fragility(&self, numbers: &Numbers, scratch: &mut Scratch) -> u8 {
        let mut largest = 0;
        for voice in 0..scratch.voices.len() {
            let speaks_in = scratch.voices[voice].speaks_in;
            let left_out = u32::try_from(voice).ok();
            let mut dimensions = numbers.dimensions;
            for (n, dimension) in dimensions.iter_mut().enumerate() {
                if speaks_in & (1 << n) != 0 && self.dimensions[n].weight > 0.0 {
                    *dimension = self.dimension(n, left_out, scratch, false);
                }
            }
            let in_security = speaks_in & (1 << Dimension::Security as u8) != 0;
            let cap = if in_security { self.cap(left_out, scratch) } else { numbers.cap };
            largest = largest.max(self.headline(dimensions, cap, 0.0).score.abs_diff(numbers.score));
        }
        largest
    }

    fn sort_into_cells(&self, signals: &[Measurement], scratch: &mut Scratch) -> Result<(), Error> {
        // A counting sort by tag, which keeps the order of the input within a tag.
        let mut places = [0_u32; MAX_TAGS + 1];
        let mut voices = 0;
        for (index, signal) in signals.iter().enumerate() {
            check(index, signal)?;
            let slot = usize::from(signal.tag.0);
            if slot >= self.tags.len() {
                return Err(Error::Parameters(format!("signal {index}: its tag is one of other parameters")));
            }
            if signal.weight > 0.0 {
                places[slot + 1] += 1;
                voices = voices.max(signal.voice as usize + 1);
            }
        }
        for slot in 0..MAX_TAGS {
            places[slot + 1] += places[slot];
        }
        let Scratch { cells, tags, voices: work } = scratch;
        work.clear();
        work.resize(voices, VoiceWork::default());
        cells.clear();
        cells.resize(places[MAX_TAGS] as usize, Cell::EMPTY);
        let starts = places;
        for signal in signals.iter().filter(|signal| signal.weight > 0.0) {
            let slot = usize::from(signal.tag.0);
            cells[places[slot] as usize] = self.cell(signal);
            places[slot] += 1;
            work[signal.voice as usize].speaks_in |= 1 << self.tags[slot].dimension as u8;
        }
        // One cell for a voice under a tag.
        tags.clear();
        let mut end = 0;
        for slot in 0..self.tags.len() {
            let range = starts[slot] as usize..starts[slot + 1] as usize;
            if !cells[range.clone()].is_sorted_by_key(|cell| cell.voice) {
                cells[range.clone()].sort_by_key(|cell| cell.voice);
            }
            let start = end;
            end = merge(cells, range, end);
            tags.push(start..end);
        }
        cells.truncate(end);
        Ok(())
    }

    fn cell(&self, signal: &Measurement) -> Cell {
        let tag = &self.tags[usize::from(signal.tag.0)];
        let w = signal.weight.min(1.0);
        let e =
            if signal.age_days > tag.expires_after_days { 0.0 } else { w * libm::exp2(signal.age_days * tag.decay) };
        let value = tag.scale.read(signal.value);
        let stddev = signal.stddev;
        Cell { voice: signal.voice, e, value, stddev, w, value_w: value, stddev_w: stddev }
    }

    /// One dimension, with one voice left out. With `influence`, voices keep what they have in the headline.
    fn dimension(
        &self,
        n: usize,
        left_out: Option<u32>,
        scratch: &mut Scratch,
        influence: bool,
    ) -> Option<DimensionNumbers> {
        let parameters = self.parameters();
        let Scratch { cells, tags, voices } = scratch;
        let slots = self.slots[n].clone();
        let speaks = |cell: &&Cell| cell.e > 0.0 && Some(cell.voice) != left_out;
        let mut sums = [TagSums::default(); MAX_TAGS];
        let (mut facets, mut weighted, mut sampling, mut squares, mut freedom) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for slot in slots.clone() {
            let cells = &cells[tags[slot].clone()];
            let (mut e, mut ev, mut es2, mut e2) = (0.0, 0.0, 0.0, 0.0);
            for cell in cells.iter().filter(speaks) {
                let error = cell.e * cell.stddev;
                e += cell.e;
                ev += cell.e * cell.value;
                es2 += error * error;
                e2 += cell.e * cell.e;
            }
            if e == 0.0 {
                continue;
            }
            let x = ev / e;
            let a = f64::min(1.0, e);
            let mut off2 = 0.0;
            for cell in cells.iter().filter(speaks) {
                let off = cell.value - x;
                off2 += cell.e * (off * off);
            }
            facets += a;
            weighted += a * x;
            sampling += a * a * (es2 / (e * e));
            squares += a * off2;
            freedom += a * (e - e2 / e);
            sums[slot] = TagSums { e, x, a };
        }
        if facets == 0.0 {
            return None;
        }
        let mean = weighted / facets;
        let (mut worst, mut weakest) = (f64::INFINITY, TagSlot(0));
        for slot in slots.clone() {
            let TagSums { e, x, a } = sums[slot];
            if e == 0.0 {
                continue;
            }
            let known_of_it = mean + a * (x - mean);
            if known_of_it < worst {
                (worst, weakest) = (known_of_it, TagSlot(u8::try_from(slot).unwrap_or(u8::MAX)));
            }
            let share = a / (facets * e);
            for cell in cells[tags[slot].clone()].iter().filter(speaks) {
                let voice = &mut voices[cell.voice as usize];
                voice.share += share * cell.e;
                voice.strongest = voice.strongest.max(cell.e);
            }
        }
        let dimension = &self.dimensions[n];
        let measured = (1.0 - dimension.weakest_link) * mean + dimension.weakest_link * worst;
        let in_dimension = tags[slots.start].start..tags[slots.end - 1].end;
        let (mut shares2, mut per_source) = (0.0, 0.0);
        // A voice is met once for each of its tags and counted at the first.
        for cell in &cells[in_dimension.clone()] {
            let voice = &mut voices[cell.voice as usize];
            if voice.strongest > 0.0 {
                let square = voice.share * voice.share;
                shares2 += square;
                per_source += square / voice.strongest;
                voice.strongest = 0.0;
            }
        }
        let strength = parameters.source_sd_strength;
        let tau2 =
            (strength * parameters.source_sd * parameters.source_sd + squares / facets) / (strength + freedom / facets);
        let looked_at = facets.min(dimension.facets);
        let unseen = parameters.facet_sd * parameters.facet_sd / looked_at * (1.0 - looked_at / dimension.facets);
        let variance = tau2 * per_source + sampling / (facets * facets) + unseen;
        let prior2 = parameters.prior_sd * parameters.prior_sd;
        let known = prior2 / (prior2 + variance);
        for cell in &cells[in_dimension] {
            let voice = &mut voices[cell.voice as usize];
            if influence {
                voice.influence += dimension.weight * known * voice.share;
            }
            voice.share = 0.0;
        }
        Some(DimensionNumbers {
            estimate: parameters.prior_mean + known * (measured - parameters.prior_mean),
            sd: libm::sqrt(known * variance),
            known,
            n_eff: 1.0 / shares2,
            mean,
            worst,
            weakest,
            measured,
            facets,
            nu: 1.0 / per_source,
            tau: libm::sqrt(tau2),
            variance,
        })
    }

    /// The least upper bound over the tags of security, each by itself and not aged: a hole stays open until somebody looks again.
    fn cap(&self, left_out: Option<u32>, scratch: &Scratch) -> f64 {
        let parameters = self.parameters();
        let prior2 = parameters.prior_sd * parameters.prior_sd;
        let mut cap = 100.0;
        for slot in self.slots[Dimension::Security as usize].clone() {
            let (mut w, mut wv, mut ws2) = (0.0, 0.0, 0.0);
            for cell in scratch.cells[scratch.tags[slot].clone()].iter().filter(|cell| Some(cell.voice) != left_out) {
                let error = cell.w * cell.stddev_w;
                w += cell.w;
                wv += cell.w * cell.value_w;
                ws2 += error * error;
            }
            if w == 0.0 {
                continue;
            }
            let variance = parameters.source_sd * parameters.source_sd / w + ws2 / (w * w);
            let known = prior2 / (prior2 + variance);
            let estimate = parameters.prior_mean + known * (wv / w - parameters.prior_mean);
            cap = f64::min(cap, estimate + parameters.bound_sds * libm::sqrt(known * variance));
        }
        cap.max(0.0)
    }

    fn headline(&self, dimensions: [Option<DimensionNumbers>; DIMENSIONS], cap: f64, n_eff: f64) -> Numbers {
        let parameters = self.parameters();
        let (mut estimate, mut known, mut ignorance, mut noise) = (parameters.prior_mean, 0.0, 0.0, 0.0);
        for (dimension, numbers) in self.dimensions.iter().zip(&dimensions) {
            let weight = dimension.weight;
            let Some(numbers) = numbers else {
                ignorance += weight;
                continue;
            };
            let part = weight * numbers.known;
            estimate += self.points(weight, numbers);
            known += part;
            ignorance += weight * (1.0 - numbers.known);
            noise += part * part * numbers.variance;
        }
        let ignorance = ignorance * parameters.prior_sd;
        let sd = libm::sqrt(ignorance * ignorance + noise);
        let doubt = parameters.bound_sds * sd;
        let low = (estimate - doubt).clamp(0.0, 100.0);
        Numbers {
            // 0 ≤ min(low, cap) ≤ 100, so the cast is exact.
            score: libm::floor(low.min(cap) + 0.5) as u8,
            estimate,
            sd,
            low,
            high: (estimate + doubt).clamp(0.0, 100.0),
            cap,
            known,
            n_eff,
            rated: dimensions.iter().any(Option::is_some),
            dimensions,
        }
    }

    /// Points of the estimate that a dimension of this weight gives.
    pub(super) fn points(&self, weight: f64, numbers: &DimensionNumbers) -> f64 {
        weight * numbers.known * (numbers.measured - self.parameters().prior_mean)
    }
}

impl Cell {
    const EMPTY: Cell = Cell { voice: 0, e: 0.0, value: 0.0, stddev: 0.0, w: 0.0, value_w: 0.0, stddev_w: 0.0 };
}

/// Moves the cells of `range` to `end`, those of one voice made one; gives the new end. A voice is as strong as its strongest source:
/// ten sources of one owner are not ten.
fn merge(cells: &mut [Cell], range: Range<usize>, mut end: usize) -> usize {
    let mut at = range.start;
    while at < range.end {
        let voice = cells[at].voice;
        let same = cells[at..range.end].iter().take_while(|cell| cell.voice == voice).count();
        cells[end] = if same == 1 { cells[at] } else { merged(&cells[at..at + same]) };
        end += 1;
        at += same;
    }
    end
}

fn merged(cells: &[Cell]) -> Cell {
    let mut all = Cell { voice: cells[0].voice, ..Cell::EMPTY };
    let (mut e, mut w) = (0.0, 0.0);
    for cell in cells {
        e += cell.e;
        w += cell.w;
        all.e = all.e.max(cell.e);
        all.w = all.w.max(cell.w);
        all.value += cell.e * cell.value;
        all.stddev += cell.e * cell.stddev;
        all.value_w += cell.w * cell.value_w;
        all.stddev_w += cell.w * cell.stddev_w;
    }
    if e > 0.0 {
        (all.value, all.stddev) = (all.value / e, all.stddev / e);
    }
    (all.value_w, all.stddev_w) = (all.value_w / w, all.stddev_w / w);
    all
}

pub(super) fn check(index: usize, signal: &Measurement) -> Result<(), Error> {
    let Measurement { value, stddev, weight, age_days, voice, .. } = *signal;
    if !(0.0..=100.0).contains(&value) {
        return Err(Error::Value { index, value });
    }
    if !(0.0..=50.0).contains(&stddev) {
        return Err(Error::Stddev { index, stddev });
    }
    if !is_weight(weight) {
        return Err(Error::Weight { index, weight });
    }
    if !(age_days >= 0.0 && age_days.is_finite()) {
        return Err(Error::Age { index, age_days });
    }
    if voice > MAX_VOICE {
        return Err(Error::Voice { index, voice });
    }
    Ok(())
}
