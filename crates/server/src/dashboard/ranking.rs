//! Every agent at a glance, in memory, so that a list of a hundred thousand can be ranked, searched and weighed anew within
//! milliseconds. Made of the ledger when it is first looked at, and then kept up with what is recorded.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet},
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

use credence_engine::{custom::EVERY_OTHER_SOURCE, tiers::Tier};
use credence_ledger::{Entry, Kind, View};
use credence_pipeline::query::{self, Glance, Overview};
use credence_protocol::{EntityId, ScoreStatus, Timestamp};

use crate::{app::App, problem::Problem};

/// How old the ranking may be.
const HOLDS: Duration = Duration::from_millis(250);
/// Agents that changed at once, and entries recorded, beyond which everything is read anew.
const MANY: usize = 20_000;
const MANY_ENTRIES: u64 = 200_000;

/// Every agent, as of one size of the ledger.
#[derive(Default)]
pub(crate) struct Ranking {
    as_of: u64,
    rows: Vec<Arc<Row>>,
    places: HashMap<EntityId, u32>,
    sources: Sources,
}

/// Sources by number.
#[derive(Default, Clone)]
struct Sources {
    names: Vec<EntityId>,
    numbers: HashMap<EntityId, u16>,
}

/// An agent.
#[derive(Debug)]
pub(crate) struct Row {
    pub id: EntityId,
    pub name: Option<String>,
    pub revoked: bool,
    /// The newest universal score.
    pub score: Option<Score>,
    /// The newest assured score.
    pub assured: Option<Glance>,
    pub certification: Tier,
    /// What is searched, in lower case, and what is ordered by.
    text: String,
    key: String,
    parts: Box<[Part]>,
}

/// A recorded score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    pub status: ScoreStatus,
    pub score: u8,
    pub mean: f64,
    pub stddev: f64,
    pub tier: Tier,
    pub coverage: f64,
    pub sources: usize,
    pub recorded_at: Timestamp,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    source: u16,
    signals: u32,
    sum: f64,
    squares: f64,
}

/// What an agent comes to under somebody's own weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Own {
    pub mean: f64,
    pub stddev: f64,
    pub sources: usize,
}

/// What a list is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Assured,
    Universal,
    Name,
    Spread,
    Certification,
    Evidence,
    Changed,
}

/// Which agents, and in what order.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub search: String,
    pub tier: Option<Tier>,
    pub certification: Option<Tier>,
    /// Only agents of whom at least this share is evidence, 0..=1.
    pub min_known: f64,
    pub order: Order,
    /// The other way round.
    pub reverse: bool,
    pub weights: Option<BTreeMap<String, f64>>,
}

/// A page of a list.
pub(crate) struct Page {
    pub rows: Vec<(Arc<Row>, Option<Own>)>,
    /// How many there are in all.
    pub matching: usize,
    /// Where the page starts.
    pub from: usize,
    pub as_of: u64,
}

impl Row {
    fn new(overview: Overview, sources: &mut Sources) -> Self {
        let Overview { id, agent, score, assured, certification, parts } = overview;
        let mut text = id.to_string();
        for part in agent.name.iter().map(String::as_str).chain(agent.aliases.iter().map(|alias| alias.as_str())) {
            text.push('\n');
            text.push_str(part);
        }
        let score = score.map(|row| {
            let recorded = row.recorded;
            Score {
                status: recorded.status,
                score: recorded.score,
                mean: recorded.mean.unwrap_or_default(),
                stddev: recorded.stddev.unwrap_or_default(),
                tier: Tier::of(recorded.score),
                coverage: recorded.coverage,
                sources: recorded.sources,
                recorded_at: row.recorded_at,
            }
        });
        let parts = parts.into_iter().filter_map(|part| {
            let source = sources.number(&part.source)?;
            Some(Part { source, signals: part.signals, sum: part.sum, squares: part.squares })
        });
        Self {
            parts: parts.collect(),
            revoked: agent.revoked.is_some(),
            // Whose standing was taken back is certified for nothing.
            certification: if agent.revoked.is_some() { Tier::Unrated } else { certification },
            key: agent.name.as_deref().unwrap_or(id.as_str()).to_lowercase(),
            name: agent.name,
            text: text.to_lowercase(),
            score,
            assured,
            id,
        }
    }

    /// The published assured score.
    pub(crate) fn assured(&self) -> Option<&Glance> {
        self.assured.as_ref().filter(|glance| glance.status == ScoreStatus::Published)
    }

    /// The share of the assured estimate that is evidence, 0..=1.
    fn known(&self) -> f64 {
        self.assured().map_or(0.0, |glance| glance.known)
    }

    /// The published universal score: what is computed from too little is not shown.
    pub(crate) fn published(&self) -> Option<&Score> {
        self.score.as_ref().filter(|score| score.status == ScoreStatus::Published)
    }

    /// As [`credence_engine::custom`] has it, from the sums: the same but for rounding.
    fn under(&self, weights: &[f64]) -> Option<Own> {
        let (mut total, mut sum, mut squares, mut sources) = (0.0, 0.0, 0.0, 0);
        for part in &self.parts {
            let weight = weights.get(usize::from(part.source)).copied().unwrap_or_default();
            if weight > 0.0 {
                total += weight * f64::from(part.signals);
                sum += weight * part.sum;
                squares += weight * part.squares;
                sources += 1;
            }
        }
        let mean = sum / total;
        (total > 0.0).then(|| Own { mean, stddev: (squares / total - mean * mean).max(0.0).sqrt(), sources })
    }
}

impl Sources {
    /// Its number; none past 65,535 sources.
    fn number(&mut self, source: &EntityId) -> Option<u16> {
        if let Some(number) = self.numbers.get(source) {
            return Some(*number);
        }
        let number = u16::try_from(self.names.len()).ok()?;
        self.names.push(source.clone());
        self.numbers.insert(source.clone(), number);
        Some(number)
    }
}

impl Ranking {
    fn read(app: &App) -> Result<Self, Problem> {
        let (as_of, overviews) = app.reading().overviews(app.authority().ledger())?;
        let mut sources = Sources::default();
        let rows: Vec<_> = overviews.into_iter().map(|overview| Arc::new(Row::new(overview, &mut sources))).collect();
        let places = rows.iter().enumerate().map(|(place, row)| (row.id.clone(), place as u32)).collect();
        Ok(Self { as_of, rows, places, sources })
    }

    /// Puts what changed in its place.
    fn apply(&mut self, as_of: u64, changed: Vec<Overview>) {
        for overview in changed {
            let id = overview.id.clone();
            let row = Arc::new(Row::new(overview, &mut self.sources));
            match self.places.get(&id) {
                Some(place) => self.rows[*place as usize] = row,
                None => {
                    self.places.insert(id, self.rows.len() as u32);
                    self.rows.push(row);
                }
            }
        }
        self.as_of = as_of;
    }

    /// How many agents there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Current signals of each source, and how many agents they are about.
    pub(crate) fn by_source(&self) -> HashMap<EntityId, (u64, u64)> {
        let mut counts = vec![(0, 0); self.sources.names.len()];
        for part in self.rows.iter().flat_map(|row| &*row.parts) {
            let (signals, agents) = &mut counts[usize::from(part.source)];
            *signals += u64::from(part.signals);
            *agents += 1;
        }
        self.sources.names.iter().cloned().zip(counts).collect()
    }

    /// The agents wanted, `limit` of them from the start of page `page` on.
    pub(crate) fn page(&self, wanted: &Wanted, page: usize, limit: usize) -> Page {
        let weights = wanted.weights.as_ref().map(|weights| self.weights(weights));
        let search = wanted.search.trim().to_lowercase();
        let mut found: Vec<(&Arc<Row>, Option<Own>)> = self
            .rows
            .iter()
            .filter(|row| search.is_empty() || row.text.contains(&search))
            .filter(|row| {
                wanted.tier.is_none_or(|tier| row.published().map_or(Tier::Unrated, |score| score.tier) == tier)
            })
            .filter(|row| wanted.certification.is_none_or(|tier| row.certification >= tier))
            .filter(|row| row.known() >= wanted.min_known)
            .map(|row| (row, weights.as_ref().and_then(|weights| row.under(weights))))
            .collect();
        let matching = found.len();
        let last_page = matching.saturating_sub(1) / limit.max(1);
        let from = page.min(last_page) * limit;
        let compare = |a: &(&Arc<Row>, Option<Own>), b: &(&Arc<Row>, Option<Own>)| {
            let own = weights.is_some();
            let order = wanted.order.compare(a, b, own);
            let order = if wanted.reverse { order.reverse() } else { order };
            wanted.order.places(a, b, own).then(order).then_with(|| a.0.id.as_str().cmp(b.0.id.as_str()))
        };
        // Only the page itself needs to be in order.
        let until = (from + limit).min(matching);
        if until < matching {
            found.select_nth_unstable_by(until, compare);
            found.truncate(until);
        }
        if from > 0 && from < found.len() {
            found.select_nth_unstable_by(from, compare);
        }
        let mut rows = found.split_off(from.min(found.len()));
        rows.sort_unstable_by(compare);
        let rows = rows.into_iter().map(|(row, own)| (Arc::clone(row), own)).collect();
        Page { rows, matching, from, as_of: self.as_of }
    }

    /// The weights by the sources' numbers.
    fn weights(&self, weights: &BTreeMap<String, f64>) -> Vec<f64> {
        let other = weights.get(EVERY_OTHER_SOURCE).copied().unwrap_or(0.0);
        self.sources.names.iter().map(|name| weights.get(name.as_str()).copied().unwrap_or(other)).collect()
    }
}

impl Order {
    pub(crate) const ALL: [Order; 7] = [
        Order::Assured,
        Order::Universal,
        Order::Name,
        Order::Spread,
        Order::Certification,
        Order::Evidence,
        Order::Changed,
    ];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Order::Assured => "assured",
            Order::Universal => "universal",
            Order::Name => "name",
            Order::Spread => "stddev",
            Order::Certification => "certification",
            Order::Evidence => "evidence",
            Order::Changed => "changed",
        }
    }

    /// Revoked agents come after the others, whatever the number says; those without a number come last, either way round.
    fn places(self, a: &(&Arc<Row>, Option<Own>), b: &(&Arc<Row>, Option<Own>), own: bool) -> Ordering {
        let place = |(row, weighed): &(&Arc<Row>, Option<Own>)| {
            let numbered = match self {
                _ if own => weighed.is_some(),
                Order::Universal | Order::Spread => row.published().is_some(),
                _ => row.assured().is_some(),
            };
            if numbered { u8::from(row.revoked) } else { 2 }
        };
        if self == Order::Name { Ordering::Equal } else { place(a).cmp(&place(b)) }
    }

    /// The best, the nearest or the newest first.
    fn compare(self, a: &(&Arc<Row>, Option<Own>), b: &(&Arc<Row>, Option<Own>), own: bool) -> Ordering {
        let number = |of: fn(&Score) -> f64| {
            let of = |row: &Row| row.published().map_or(f64::NEG_INFINITY, of);
            of(b.0).total_cmp(&of(a.0))
        };
        let assured = |of: fn(&Glance) -> f64| {
            let of = |row: &Row| row.assured().map_or(f64::NEG_INFINITY, of);
            of(b.0).total_cmp(&of(a.0))
        };
        // The estimate tells apart agents whose score is the same.
        let by_score = || assured(|glance| f64::from(glance.score)).then(assured(|glance| glance.estimate));
        let owned = |of: fn(&Own) -> f64| {
            let of = |own: &Option<Own>| own.as_ref().map_or(f64::NEG_INFINITY, of);
            of(&b.1).total_cmp(&of(&a.1))
        };
        match self {
            Order::Assured | Order::Universal if own => owned(|own| own.mean),
            Order::Spread if own => owned(|own| -own.stddev),
            Order::Assured => by_score(),
            Order::Universal => number(|score| score.mean),
            Order::Spread => number(|score| -score.stddev),
            Order::Evidence => assured(|glance| glance.known),
            Order::Changed => assured(|glance| glance.recorded_at.micros() as f64),
            Order::Certification => b.0.certification.cmp(&a.0.certification).then(by_score()),
            Order::Name => a.0.key.cmp(&b.0.key),
        }
    }
}

/// The ranking, as everyone sees it.
#[derive(Default)]
pub(crate) struct Rankings {
    now: RwLock<Option<Arc<RwLock<Ranking>>>>,
    /// How long the log was when each past day ended: found once.
    days: Mutex<BTreeMap<i64, u64>>,
    /// One brings it up to date at a time, and not all the time.
    turn: Mutex<Option<Instant>>,
}

impl Rankings {
    /// How long the log was at the end of each of the last `count` days before `now`, oldest first.
    pub(crate) fn day_ends(&self, view: &dyn View, now: Timestamp, count: i64) -> Result<Vec<u64>, Problem> {
        const DAY: i64 = 86_400_000_000;
        let today = now.micros().div_euclid(DAY);
        let mut days = self.days.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ends = Vec::new();
        for day in today - count..today {
            let end = match days.get(&day) {
                Some(end) => *end,
                None => {
                    let at = Timestamp::from_micros((day + 1) * DAY - 1).map_err(|e| Problem::internal(&e))?;
                    let end = query::size_at(view, at)?;
                    days.insert(day, end);
                    end
                }
            };
            ends.push(end);
        }
        days.retain(|day, _| *day >= today - count);
        Ok(ends)
    }

    /// Reads the ranking, after bringing it up to date.
    pub(crate) fn with<T>(&self, app: &App, read: impl FnOnce(&Ranking) -> T) -> Result<T, Problem> {
        let known = || self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        let ranking = match known() {
            Some(ranking) => {
                // Whoever finds somebody at it takes it as it is.
                if let Ok(mut last) = self.turn.try_lock()
                    && last.is_none_or(|last| last.elapsed() > HOLDS)
                {
                    self.catch_up(app, &ranking)?;
                    *last = Some(Instant::now());
                }
                known().unwrap_or(ranking)
            }
            None => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                match known() {
                    Some(ranking) => ranking,
                    None => self.rebuild(app)?,
                }
            }
        };
        Ok(read(&ranking.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Reads everything, and then puts it in place.
    fn rebuild(&self, app: &App) -> Result<Arc<RwLock<Ranking>>, Problem> {
        let read = Arc::new(RwLock::new(Ranking::read(app)?));
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&read));
        Ok(read)
    }

    /// Reads what changed, and only then holds up those who look.
    fn catch_up(&self, app: &App, ranking: &RwLock<Ranking>) -> Result<(), Problem> {
        let as_of = ranking.read().unwrap_or_else(PoisonError::into_inner).as_of;
        let view = app.authority().ledger().view()?;
        let size = view.size()?;
        let mut changed = HashSet::new();
        if size - as_of <= MANY_ENTRIES {
            view.entries(as_of, &mut |seq, bytes| {
                if let Ok(entry) = Entry::parse(seq, bytes)
                    && matches!(
                        entry.kind,
                        Kind::Score | Kind::Signal | Kind::Agent | Kind::Standing | Kind::Withdrawal
                    )
                {
                    changed.insert(entry.subject);
                }
                if changed.len() > MANY { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        if size - as_of > MANY_ENTRIES || changed.len() > MANY {
            return self.rebuild(app).map(drop);
        }
        let changed = app.reading().overviews_of(&*view, changed)?;
        ranking.write().unwrap_or_else(PoisonError::into_inner).apply(size, changed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance(estimate: f64, recorded_at: Timestamp) -> Glance {
        let score = estimate as u8 / 2;
        let (low, high) = (f64::from(score), 100.0);
        let (status, tier) = (ScoreStatus::Published, Tier::of(score));
        Glance { seq: 1, recorded_at, score, tier, status, estimate, low, high, known: estimate / 100.0 }
    }

    fn row(id: &str, mean: Option<f64>, revoked: bool, parts: &[(u16, u32, f64)]) -> Arc<Row> {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let score = mean.map(|mean| Score {
            status: ScoreStatus::Published,
            score: mean as u8,
            mean,
            stddev: 1.0,
            tier: Tier::of(mean as u8),
            coverage: 0.5,
            sources: 2,
            recorded_at: at,
        });
        let part = |(source, signals, sum): &(u16, u32, f64)| Part {
            source: *source,
            signals: *signals,
            sum: *sum,
            squares: sum * sum / f64::from(*signals),
        };
        Arc::new(Row {
            id: EntityId::new(id).unwrap(),
            name: None,
            revoked,
            score,
            assured: mean.map(|mean| glance(mean, at)),
            certification: Tier::Unrated,
            text: id.to_owned(),
            key: id.to_owned(),
            parts: parts.iter().map(part).collect(),
        })
    }

    fn wanted() -> Wanted {
        let (search, order) = (String::new(), Order::Universal);
        Wanted { search, tier: None, certification: None, min_known: 0.0, order, reverse: false, weights: None }
    }

    fn ids(page: &Page) -> Vec<&str> {
        page.rows.iter().map(|(row, _)| row.id.as_str()).collect()
    }

    #[test]
    fn pages_together_are_the_whole_list_in_order() {
        let mut random = fastrand::Rng::with_seed(1);
        let rows = (0..997).map(|n| row(&format!("a{n:03}"), Some(f64::from(random.u32(0..50))), false, &[])).collect();
        let ranking = Ranking { rows, ..Ranking::default() };
        let all = ranking.page(&wanted(), 0, 2_000);
        let pages: Vec<Page> = (0..20).map(|n| ranking.page(&wanted(), n, 50)).collect();
        let joined: Vec<&str> = pages.iter().flat_map(ids).collect();
        assert_eq!(joined, ids(&all));
        let means: Vec<f64> = all.rows.iter().map(|(row, _)| row.score.unwrap().mean).collect();
        assert!(means.is_sorted_by(|a, b| a >= b));
        assert_eq!(ranking.page(&wanted(), 99, 50).from, 950, "beyond the end is the last page");
    }

    #[test]
    fn the_revoked_and_the_unrated_come_last_either_way_round() {
        let rows = vec![
            row("revoked", Some(99.0), true, &[(0, 1, 99.0)]),
            row("low", Some(10.0), false, &[(0, 1, 10.0)]),
            row("none", None, false, &[]),
            row("high", Some(90.0), false, &[(0, 2, 150.0)]),
        ];
        let mut ranking = Ranking { rows, ..Ranking::default() };
        ranking.sources.number(&EntityId::new("lab").unwrap());
        assert_eq!(ids(&ranking.page(&wanted(), 0, 9)), ["high", "low", "revoked", "none"]);
        let reverse = Wanted { reverse: true, ..wanted() };
        assert_eq!(ids(&ranking.page(&reverse, 0, 9)), ["low", "high", "revoked", "none"]);
        let weights = Some([("lab".to_owned(), 1.0)].into());
        let own = ranking.page(&Wanted { weights, ..wanted() }, 0, 9);
        assert_eq!(ids(&own), ["high", "low", "revoked", "none"]);
        assert_eq!(own.rows[0].1.unwrap().mean, 75.0);
        let unrated = Wanted { tier: Some(Tier::Unrated), ..wanted() };
        assert_eq!(ids(&ranking.page(&unrated, 0, 9)), ["none"]);
    }

    #[test]
    fn agents_are_ranked_by_either_score_and_filtered_by_evidence() {
        let with = |id: &str, mean: f64, estimate: Option<f64>| {
            let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let mut row = Arc::into_inner(row(id, Some(mean), false, &[])).unwrap();
            row.assured = estimate.map(|estimate| glance(estimate, at));
            Arc::new(row)
        };
        // "bought" has many worthless sources: a high universal score, and little that can be vouched for.
        let rows = vec![with("bought", 95.0, Some(40.0)), with("known", 70.0, Some(80.0)), with("other", 80.0, None)];
        let ranking = Ranking { rows, ..Ranking::default() };
        let by = |order| Wanted { order, ..wanted() };
        assert_eq!(ids(&ranking.page(&by(Order::Assured), 0, 9)), ["known", "bought", "other"]);
        assert_eq!(ids(&ranking.page(&by(Order::Universal), 0, 9)), ["bought", "other", "known"]);
        assert_eq!(ids(&ranking.page(&by(Order::Evidence), 0, 9)), ["known", "bought", "other"]);
        let known = Wanted { min_known: 0.5, ..by(Order::Assured) };
        assert_eq!(ids(&ranking.page(&known, 0, 9)), ["known"]);
    }
}
