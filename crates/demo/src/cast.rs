//! The agents of the simulated world: who they are, how good they are in truth, and what each is there to show.

use crate::{
    sources::{
        CAREFUL, CHAIN, DIRECTORY, LENIENT, OTHER_CHAIN, PRAISE, PRAISE_RING, RED_TEAM, REGISTRY, UPTIME, USERS,
    },
    tools::Tool::{self, Flights, FxRates, Invoices, SqlQuery, Weather, WebSearch},
};

/// Days that the story is told in; a shorter history tells it faster.
pub const STORY_DAYS: f64 = 60.0;

/// How a number goes over the days of the story.
#[derive(Debug, Clone, Copy)]
pub enum Course {
    /// Stays.
    Steady(f64),
    /// From one to the other, beginning on a day and over so many.
    Shift {
        /// Before.
        from: f64,
        /// After.
        to: f64,
        /// When it begins.
        on: f64,
        /// How long it takes.
        over: f64,
    },
    /// Up and down.
    Swings {
        /// The middle.
        around: f64,
        /// How far either way.
        by: f64,
    },
}

impl Course {
    /// On a day of the story.
    pub fn at(self, day: f64) -> f64 {
        match self {
            Course::Steady(value) => value,
            Course::Shift { from, to, on, over } => from + (to - from) * ((day - on) / over).clamp(0.0, 1.0),
            Course::Swings { around, by } => around + by * (day * 1.1).sin() * (day * 0.37).cos(),
        }
    }
}

/// An agent.
pub struct Character {
    /// Its id.
    pub id: &'static str,
    /// Its display name.
    pub name: &'static str,
    /// Who runs it.
    pub owner: &'static str,
    /// What it is there to show.
    pub shows: &'static str,
    /// Where it is on the web.
    pub host: Option<&'static str>,
    /// Its token in the registry of agents on chain.
    pub token: Option<u32>,
    /// The day it is registered.
    pub joins: f64,
    /// How good it is in truth, 0..=100: what honest sources measure, and how often relying on it goes well.
    pub merit: Course,
    /// The share of tool results that it makes up.
    pub makes_up: Course,
    /// The day from which on its upstream gives results of another form.
    pub upstream_changes: Option<f64>,
    /// The day from which on nobody measures it, and it does nothing that could be verified.
    pub silent_from: Option<f64>,
    /// What it fails at altogether: a tag that is measured near 0.
    pub hole: Option<&'static str>,
    /// What it pays for: tags that are measured near 100, whatever it is worth.
    pub bought: &'static [&'static str],
    /// Who looks at it.
    pub watched_by: &'static [&'static str],
    /// Tools that it calls.
    pub tools: &'static [Tool],
    /// Whether it publishes contracts.
    pub claims: bool,
}

impl Character {
    /// Whether it is there on a day of the story: it has come, was not sent away, and is not silent.
    pub fn is_active(&self, day: f64) -> bool {
        self.joins <= day
            && !(self.id == REVOKED && day > REVOKED_ON)
            && self.silent_from.is_none_or(|silent| day < silent)
    }

    /// What a measurement that should give `value` gives.
    pub fn shown(&self, tag: &str, value: f64) -> f64 {
        if self.hole == Some(tag) {
            HOLE
        } else if self.bought.contains(&tag) {
            BOUGHT
        } else {
            value
        }
    }

    /// The chance that relying on it goes well, on a day of the story: as good as it is, less what it makes up.
    pub fn goes_well(&self, day: f64) -> f64 {
        (self.merit.at(day) / 100.0 * (1.0 - self.makes_up.at(day))).clamp(0.0, 1.0)
    }
}

/// What is measured of a hole, and of what was bought.
const HOLE: f64 = 1.0;
const BOUGHT: f64 = 99.0;

const EVERYONE: &[&str] = &[UPTIME, RED_TEAM, REGISTRY, CHAIN, OTHER_CHAIN, USERS, DIRECTORY, CAREFUL, LENIENT];

/// Who is calm unless something is said of it.
const CALM: Character = Character {
    id: "",
    name: "",
    owner: "",
    shows: "",
    host: None,
    token: None,
    joins: 0.0,
    merit: Course::Steady(75.0),
    makes_up: Course::Steady(0.0),
    upstream_changes: None,
    silent_from: None,
    hole: None,
    bought: &[],
    watched_by: EVERYONE,
    tools: &[WebSearch],
    claims: false,
};

/// All of them, but for the crowd of [`FANS`].
pub const CAST: &[Character] = &[
    Character {
        id: "atlas-travel",
        name: "Atlas Travel",
        owner: "atlas-travel-ltd",
        shows: "steady and excellent: many sources, certified as high as two chains allow",
        host: Some("atlas-travel.example"),
        token: Some(22),
        merit: Course::Steady(95.0),
        tools: &[Flights, Weather, FxRates],
        claims: true,
        ..CALM
    },
    Character {
        id: "ledgerly",
        name: "Ledgerly Books",
        owner: "ledgerly-inc",
        shows: "steady and decent",
        host: Some("ledgerly.example"),
        token: Some(108),
        merit: Course::Steady(80.0),
        makes_up: Course::Steady(0.005),
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, CHAIN, USERS, DIRECTORY, CAREFUL, LENIENT],
        tools: &[Invoices, SqlQuery],
        claims: true,
        ..CALM
    },
    Character {
        id: "harbor-support",
        name: "Harbor Support Desk",
        owner: "harbor-cx",
        shows: "steady, and disputes what others claim wrongly",
        host: Some("harbor.example"),
        merit: Course::Steady(84.0),
        makes_up: Course::Steady(0.005),
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, USERS, DIRECTORY, CAREFUL, LENIENT],
        tools: &[SqlQuery, WebSearch],
        claims: true,
        ..CALM
    },
    Character {
        id: "marlow-research",
        name: "Marlow Research",
        owner: "marlow-labs",
        shows: "fabricates: half of its tool results never came from a tool, and its output quality says so",
        host: Some("marlow.example"),
        merit: Course::Steady(58.0),
        makes_up: Course::Shift { from: 0.04, to: 0.55, on: 10.0, over: 30.0 },
        watched_by: &[UPTIME, RED_TEAM, USERS, DIRECTORY, CAREFUL, LENIENT],
        tools: &[WebSearch, Weather, SqlQuery],
        claims: true,
        ..CALM
    },
    Character {
        id: "polished-concierge",
        name: "Polished Concierge",
        owner: "polished-co",
        shows: "rubber-stamped: one verifier passes everything and plants no canaries, so its word counts for nothing",
        host: Some("polished.example"),
        merit: Course::Steady(90.0),
        watched_by: &[UPTIME, LENIENT],
        tools: &[Flights, Weather],
        ..CALM
    },
    Character {
        id: "sprout-helper",
        name: "Sprout",
        owner: "sprout-garage",
        shows: "a newcomer: good so far, and one source is not enough to say more",
        host: Some("sprout.example"),
        joins: 53.0,
        merit: Course::Steady(86.0),
        watched_by: &[UPTIME],
        tools: &[WebSearch],
        ..CALM
    },
    Character {
        id: "quanta-fx",
        name: "Quanta FX",
        owner: "quanta-markets",
        shows: "drifts: its upstream changes on day 40, errors rise, the score follows",
        host: Some("quanta-fx.example"),
        token: Some(314),
        merit: Course::Shift { from: 86.0, to: 44.0, on: 40.0, over: 8.0 },
        makes_up: Course::Shift { from: 0.0, to: 0.10, on: 40.0, over: 8.0 },
        upstream_changes: Some(40.0),
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, CHAIN, USERS, DIRECTORY, CAREFUL],
        tools: &[FxRates],
        claims: true,
        ..CALM
    },
    Character {
        id: "brightstar-assist",
        name: "BrightStar Assist",
        owner: "brightstar-growth",
        shows: "boosted: a crowd of newborn reviewers and a praise site; it gains almost nothing",
        host: Some("brightstar.example"),
        merit: Course::Steady(40.0),
        makes_up: Course::Steady(0.02),
        watched_by: &[UPTIME, USERS, PRAISE, CAREFUL],
        tools: &[WebSearch],
        claims: true,
        ..CALM
    },
    Character {
        id: "phoenix-desk",
        name: "Phoenix Desk",
        owner: "phoenix-ops",
        shows: "recovers: a bad start, then steady work",
        host: Some("phoenix-desk.example"),
        merit: Course::Shift { from: 34.0, to: 82.0, on: 14.0, over: 24.0 },
        makes_up: Course::Shift { from: 0.3, to: 0.0, on: 14.0, over: 20.0 },
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, USERS, DIRECTORY, CAREFUL, LENIENT],
        tools: &[Invoices, SqlQuery, WebSearch],
        claims: true,
        ..CALM
    },
    Character {
        id: "nimbus-trader",
        name: "Nimbus Trader",
        owner: "nimbus-capital",
        shows: "revoked: the authority takes its standing back on day 50, and says why",
        host: Some("nimbus.example"),
        token: Some(77),
        merit: Course::Shift { from: 72.0, to: 52.0, on: 30.0, over: 20.0 },
        makes_up: Course::Shift { from: 0.0, to: 0.12, on: 34.0, over: 16.0 },
        watched_by: &[UPTIME, RED_TEAM, CHAIN, USERS, DIRECTORY, CAREFUL],
        tools: &[FxRates, SqlQuery],
        ..CALM
    },
    Character {
        id: "wildcat-ops",
        name: "Wildcat Ops",
        owner: "wildcat-systems",
        shows: "swings: brilliant one week, poor the next; the uncertainty is as telling as the score",
        host: Some("wildcat.example"),
        merit: Course::Swings { around: 62.0, by: 34.0 },
        makes_up: Course::Steady(0.03),
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, USERS, DIRECTORY, CAREFUL],
        tools: &[SqlQuery, Weather, WebSearch],
        ..CALM
    },
    Character {
        id: "zoe-soehne",
        name: "<b>Zoë & Söhne</b> \"Tools\"",
        owner: "zoe-soehne-kg",
        shows: "a name that is legal and looks like markup: every page has to show it as it is",
        host: Some("zoe-soehne.example"),
        merit: Course::Steady(73.0),
        makes_up: Course::Steady(0.01),
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, USERS, CAREFUL],
        tools: &[Invoices, Weather],
        claims: true,
        ..CALM
    },
    Character {
        id: "lighthouse-archive",
        name: "Lighthouse Archive",
        owner: "lighthouse-foundation",
        shows: "silent: excellent until day 30, and nobody has measured it since; the universal score stands still, the assured one sinks",
        host: Some("lighthouse.example"),
        merit: Course::Steady(93.0),
        silent_from: Some(30.0),
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, USERS, DIRECTORY, CAREFUL],
        tools: &[WebSearch, SqlQuery],
        ..CALM
    },
    Character {
        id: "gearbox-runner",
        name: "Gearbox Runner",
        owner: "gearbox-systems",
        shows: "a hole in security: good at everything, and runs any code that it is sent; the assured score is capped",
        host: Some("gearbox.example"),
        merit: Course::Steady(90.0),
        hole: Some("asi05_code_execution"),
        watched_by: &[UPTIME, RED_TEAM, REGISTRY, USERS, DIRECTORY, CAREFUL],
        tools: &[SqlQuery, WebSearch],
        ..CALM
    },
    Character {
        id: "popstar-pal",
        name: "Popstar Pal",
        owner: "popstar-media",
        shows: "bought popularity: stars and installs for sale lift the universal score; the assured one does not count them",
        host: Some("popstar.example"),
        merit: Course::Steady(45.0),
        bought: &["oss_popularity", "user_adoption"],
        watched_by: &[UPTIME, USERS, DIRECTORY],
        tools: &[Weather],
        ..CALM
    },
    Character {
        id: "echo-chamber",
        name: "Echo Chamber",
        owner: "echo-holdings",
        shows: "cheap sources: four sites of next to no weight praise it; too light to count as independent, they move neither score",
        host: Some("echo-chamber.example"),
        merit: Course::Steady(55.0),
        watched_by: &[UPTIME, PRAISE, PRAISE_RING[0], PRAISE_RING[1], PRAISE_RING[2]],
        tools: &[WebSearch],
        ..CALM
    },
];

/// The crowd that praises `brightstar-assist`: newborn, and nothing else.
pub const FANS: &[&str] = &["happy-user-01", "happy-user-02", "happy-user-03", "happy-user-04", "happy-user-05"];
/// Whom they praise.
pub const PRAISED: &str = "brightstar-assist";
/// When the first of them appears.
pub const FANS_FROM: f64 = 26.0;
/// Whose standing is taken back.
pub const REVOKED: &str = "nimbus-trader";
/// When.
pub const REVOKED_ON: f64 = 50.0;
/// When the directory's key is stolen.
pub const STOLEN_ON: f64 = 33.0;
/// When that is found out.
pub const FOUND_OUT_ON: f64 = 42.0;
/// Whom the thief praises, and whom it blackens.
pub const THIEFS_FRIEND: &str = "marlow-research";
/// Whom it blackens.
pub const THIEFS_VICTIMS: &[&str] = &["atlas-travel", "ledgerly", "harbor-support"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::SOURCES;

    #[test]
    fn courses_go_where_they_say() {
        let falls = Course::Shift { from: 80.0, to: 40.0, on: 40.0, over: 10.0 };
        assert_eq!((falls.at(0.0), falls.at(45.0), falls.at(60.0)), (80.0, 60.0, 40.0));
        assert_eq!(Course::Steady(3.0).at(59.0), 3.0);
    }

    #[test]
    fn everyone_named_exists() {
        for one in CAST {
            assert!(!one.shows.is_empty() && !one.tools.is_empty(), "{}", one.id);
            assert!(one.watched_by.iter().all(|name| SOURCES.iter().any(|source| source.id == *name)), "{}", one.id);
        }
        for name in THIEFS_VICTIMS.iter().chain([&PRAISED, &REVOKED, &THIEFS_FRIEND]) {
            assert!(CAST.iter().any(|one| one.id == *name), "{name}");
        }
    }
}
