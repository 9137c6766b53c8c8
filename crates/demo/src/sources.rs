//! The sources of the simulated world, and what each measures.

/// Looks at whether agents answer.
pub const UPTIME: &str = "pulse-uptime";
/// Attacks agents, with their owners' consent.
pub const RED_TEAM: &str = "redline-lab";
/// Knows who owns which domain.
pub const REGISTRY: &str = "namecheck";
/// Agents registered on one chain.
pub const CHAIN: &str = "chainroll-base";
/// Agents registered on another.
pub const OTHER_CHAIN: &str = "chainroll-hedera";
/// What users say.
pub const USERS: &str = "userecho";
/// Lists agents. Its key is stolen in the story.
pub const DIRECTORY: &str = "agentscan";
/// Praises whoever asks for it.
pub const PRAISE: &str = "five-stars-today";
/// More of the kind.
pub const PRAISE_RING: [&str; 3] = ["top-agents-daily", "best-of-bots", "agent-awards"];
/// Verifies outputs, and plants canaries to show that it can.
pub const CAREFUL: &str = "veritrace";
/// Verifies outputs, and shows nothing.
pub const LENIENT: &str = "easycheck";

/// One thing that a source measures: `base + gain · merit`, and what chance adds.
pub struct Measure {
    /// The tag.
    pub tag: &'static str,
    /// At merit 0.
    pub base: f64,
    /// What a point of merit adds.
    pub gain: f64,
    /// What the source says of its uncertainty, and how far chance carries its measurements.
    pub stddev: f64,
    /// The source ran the sandbox: value and uncertainty are those of a recorded run ([`crate::probed`]), and nothing above counts.
    pub from_runs: bool,
}

const fn measure(tag: &'static str, base: f64, gain: f64, stddev: f64) -> Measure {
    Measure { tag, base, gain, stddev, from_runs: false }
}

const fn probed(tag: &'static str) -> Measure {
    Measure { tag, base: 0.0, gain: 0.0, stddev: 0.0, from_runs: true }
}

/// A source.
pub struct Source {
    /// Its id.
    pub id: &'static str,
    /// Who it is.
    pub description: &'static str,
    /// Who runs it.
    pub owner: &'static str,
    /// The registries that it re-reads.
    pub roots: &'static [&'static str],
    /// How much it counts.
    pub weight: f64,
    /// Where it says how it verifies outputs, if it does.
    pub methodology: Option<&'static str>,
    /// Days between two looks at an agent, on average.
    pub every_days: f64,
    /// What it measures.
    pub measures: &'static [Measure],
}

const AWARDS: &[Measure] = &[measure("third_party_score", 98.0, 0.01, 0.0)];

/// One more site of the kind of [`PRAISE`].
const fn praise_site(id: &'static str) -> Source {
    Source {
        id,
        description: "Awards for everyone who pays the fee",
        owner: id,
        roots: &[],
        weight: 0.02,
        methodology: None,
        every_days: 4.0,
        measures: AWARDS,
    }
}

/// All but the authority itself.
pub const SOURCES: &[Source] = &[
    Source {
        id: UPTIME,
        description: "Runs the sandbox's reliability benchmark against every agent",
        owner: "pulse-gmbh",
        roots: &[],
        weight: 1.0,
        methodology: None,
        every_days: 1.6,
        measures: &[probed("rel_uptime"), probed("rel_latency_p95"), probed("rel_error_rate")],
    },
    Source {
        id: RED_TEAM,
        description: "Runs the sandbox against agents, for the ten threats of agentic systems",
        owner: "redline-security",
        roots: &[],
        weight: 1.0,
        methodology: None,
        every_days: 8.0,
        measures: &[
            probed("asi01_goal_hijack"),
            probed("asi02_tool_misuse"),
            probed("asi03_privilege_abuse"),
            probed("asi04_supply_chain"),
            probed("asi05_code_execution"),
            probed("asi06_memory_poisoning"),
            probed("asi07_insecure_comms"),
            probed("asi08_cascading_failures"),
            probed("asi09_trust_exploitation"),
            probed("asi10_rogue_agent"),
        ],
    },
    Source {
        id: REGISTRY,
        description: "Domains, keys and disclosures",
        owner: "namecheck-coop",
        roots: &["dns"],
        weight: 0.8,
        methodology: None,
        every_days: 12.0,
        measures: &[
            measure("identity_key_continuity", 96.0, 0.04, 0.5),
            measure("transparency_disclosure", 20.0, 0.8, 4.0),
            measure("compliance_evidence", 0.0, 1.0, 6.0),
        ],
    },
    Source {
        id: CHAIN,
        description: "Agent registrations and payments on Base",
        owner: "chainroll",
        roots: &["erc8004:eip155:8453"],
        weight: 0.7,
        methodology: None,
        every_days: 10.0,
        measures: &[measure("identity_onchain", 100.0, 0.0, 0.0), measure("payment_activity", 40.0, 0.6, 3.0)],
    },
    Source {
        id: OTHER_CHAIN,
        description: "Agent registrations on Hedera",
        owner: "chainroll",
        roots: &["hol:hedera:mainnet"],
        weight: 0.6,
        methodology: None,
        every_days: 14.0,
        measures: &[measure("identity_onchain", 100.0, 0.0, 0.0)],
    },
    Source {
        id: USERS,
        description: "Ratings by people who paid",
        owner: "userecho-inc",
        roots: &[],
        weight: 0.6,
        methodology: None,
        every_days: 3.0,
        measures: &[measure("user_feedback", 5.0, 0.95, 7.0), measure("user_adoption", 25.0, 0.55, 3.0)],
    },
    Source {
        id: DIRECTORY,
        description: "A directory of agents and their repositories",
        owner: "agentscan-labs",
        roots: &["npm", "github"],
        weight: 0.7,
        methodology: None,
        every_days: 6.0,
        measures: &[measure("oss_popularity", 15.0, 0.75, 5.0), measure("third_party_score", 0.0, 1.0, 5.0)],
    },
    Source {
        id: PRAISE,
        description: "Five stars for everyone who signs up",
        owner: "five-stars-today",
        roots: &[],
        weight: 0.02,
        methodology: None,
        every_days: 2.0,
        measures: &[measure("third_party_score", 99.0, 0.01, 0.0), measure("user_feedback", 99.0, 0.01, 0.0)],
    },
    Source {
        id: CAREFUL,
        description: "Verifies tool results, and plants canaries to show that it can tell",
        owner: "veritrace-org",
        roots: &[],
        weight: 0.9,
        methodology: Some("https://veritrace.example/method"),
        every_days: 9.0,
        measures: &[measure("model_capability", 20.0, 0.78, 4.0)],
    },
    Source {
        id: LENIENT,
        description: "Verifies tool results; nobody has seen it catch anything on purpose",
        owner: "easycheck-llc",
        roots: &[],
        weight: 0.5,
        methodology: Some("https://easycheck.example/how-it-works"),
        every_days: 9.0,
        measures: &[],
    },
    praise_site(PRAISE_RING[0]),
    praise_site(PRAISE_RING[1]),
    praise_site(PRAISE_RING[2]),
];
