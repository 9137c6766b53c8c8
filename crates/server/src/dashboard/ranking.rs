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
use credence_pipeline::{filter::Weights, overview::Overview, query};
use credence_protocol::{EntityId, Timestamp};

use crate::{app::App, problem::Problem};

/// How old the ranking may be.
const HOLDS: Duration = Duration::from_millis(250);
/// Agents that changed at once beyond which everything is read anew.
const MANY: usize = 20_000;

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
    pub score: Option<Score>,
    pub certification: Tier,
    /// What is searched, in lower case, and what is ordered by.
    text: String,
    key: String,
    parts: Box<[Part]>,
}

/// A recorded score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    pub status: Status,
    pub score: u8,
    pub mean: f64,
    pub stddev: f64,
    pub tier: Tier,
    pub coverage: f64,
    pub sources: usize,
    pub recorded_at: Timestamp,
}

/// Whether a score may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Published,
    Partial,
    Unrated,
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
    Score,
    Name,
    Spread,
    Certification,
    Coverage,
    Changed,
}

/// Which agents, and in what order.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub search: String,
    pub tier: Option<Tier>,
    pub certification: Option<Tier>,
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
        let Overview { id, agent, score, certification, parts } = overview;
        let mut text = id.to_string();
        for part in agent.name.iter().map(String::as_str).chain(agent.aliases.iter().map(|alias| alias.as_str())) {
            text.push('\n');
            text.push_str(part);
        }
        let score = score.map(|row| {
            let recorded = row.recorded;
            Score {
                status: match recorded.status.as_ref() {
                    "published" => Status::Published,
                    "partial" => Status::Partial,
                    _ => Status::Unrated,
                },
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
            key: agent.name.as_deref().unwrap_or(id.as_str()).to_lowercase(),
            name: agent.name,
            text: text.to_lowercase(),
            score,
            certification,
            id,
        }
    }

    /// The published score: what is computed from too little is not shown.
    pub(crate) fn published(&self) -> Option<&Score> {
        self.score.as_ref().filter(|score| score.status == Status::Published)
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

    /// Brings it up to what is recorded.
    fn catch_up(&mut self, app: &App) -> Result<(), Problem> {
        let view = app.authority().ledger().view()?;
        let size = view.size()?;
        let mut changed = HashSet::new();
        view.entries(self.as_of, &mut |seq, bytes| {
            if let Ok(entry) = Entry::parse(seq, bytes)
                && matches!(entry.kind, Kind::Score | Kind::Signal | Kind::Agent | Kind::Revocation)
            {
                changed.insert(entry.subject);
            }
            if changed.len() > MANY { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if changed.len() > MANY {
            *self = Self::read(app)?;
            return Ok(());
        }
        let weights = Weights::read(&*view)?;
        for agent in changed {
            let Some(overview) = app.reading().overview(&*view, &weights, &agent)? else { continue };
            let row = Arc::new(Row::new(overview, &mut self.sources));
            match self.places.get(&agent) {
                Some(place) => self.rows[*place as usize] = row,
                None => {
                    self.places.insert(agent, self.rows.len() as u32);
                    self.rows.push(row);
                }
            }
        }
        self.as_of = size;
        Ok(())
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
            .filter(|row| wanted.tier.is_none_or(|tier| row.published().is_some_and(|score| score.tier == tier)))
            .filter(|row| wanted.certification.is_none_or(|tier| row.certification >= tier))
            .map(|row| (row, weights.as_ref().and_then(|weights| row.under(weights))))
            .collect();
        let matching = found.len();
        let last_page = matching.saturating_sub(1) / limit.max(1);
        let from = page.min(last_page) * limit;
        let compare = |a: &(&Arc<Row>, Option<Own>), b: &(&Arc<Row>, Option<Own>)| {
            let order = wanted.order.compare(a, b, weights.is_some());
            let order = if wanted.reverse { order.reverse() } else { order };
            order.then_with(|| a.0.id.as_str().cmp(b.0.id.as_str()))
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
    pub(crate) const ALL: [Order; 6] =
        [Order::Score, Order::Name, Order::Spread, Order::Certification, Order::Coverage, Order::Changed];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Order::Score => "score",
            Order::Name => "name",
            Order::Spread => "stddev",
            Order::Certification => "certification",
            Order::Coverage => "coverage",
            Order::Changed => "changed",
        }
    }

    /// The best, the nearest or the newest first; what has none last.
    fn compare(self, a: &(&Arc<Row>, Option<Own>), b: &(&Arc<Row>, Option<Own>), own: bool) -> Ordering {
        let number = |of: fn(&Score) -> f64| {
            let of = |row: &Row| row.published().map_or(f64::NEG_INFINITY, of);
            of(b.0).total_cmp(&of(a.0))
        };
        let owned = |of: fn(&Own) -> f64| {
            let of = |own: &Option<Own>| own.as_ref().map_or(f64::NEG_INFINITY, of);
            of(&b.1).total_cmp(&of(&a.1))
        };
        match self {
            Order::Score if own => owned(|own| own.mean),
            Order::Spread if own => owned(|own| -own.stddev),
            // Whoever was revoked does not lead a ranking, whatever the number says; those without a score come last.
            Order::Score => {
                let place = |row: &Row| if row.published().is_none() { 2 } else { u8::from(row.revoked) };
                place(a.0).cmp(&place(b.0)).then(number(|score| score.mean))
            }
            Order::Spread => number(|score| -score.stddev),
            Order::Coverage => number(|score| score.coverage),
            Order::Changed => number(|score| score.recorded_at.micros() as f64),
            Order::Certification => b.0.certification.cmp(&a.0.certification).then(number(|score| score.mean)),
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

    /// Looks at the ranking, brought up to what is recorded.
    pub(crate) fn look<T>(&self, app: &App, look: impl FnOnce(&Ranking) -> T) -> Result<T, Problem> {
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        let ranking = match known {
            Some(ranking) => {
                // Whoever finds somebody at it takes it as it is.
                if let Ok(mut last) = self.turn.try_lock()
                    && last.is_none_or(|last| last.elapsed() > HOLDS)
                {
                    ranking.write().unwrap_or_else(PoisonError::into_inner).catch_up(app)?;
                    *last = Some(Instant::now());
                }
                ranking
            }
            None => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
                match &*now {
                    Some(ranking) => Arc::clone(ranking),
                    None => Arc::clone(now.insert(Arc::new(RwLock::new(Ranking::read(app)?)))),
                }
            }
        };
        Ok(look(&ranking.read().unwrap_or_else(PoisonError::into_inner)))
    }
}
