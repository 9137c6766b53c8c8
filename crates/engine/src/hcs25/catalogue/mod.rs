//! The eighteen adapters of the standard's catalogue, as data: who they apply to, what they weigh, and one small function
//! for each number.
//!
//! `log(x, cap) = clamp(100·ln(1 + max(0, x)) / ln(1 + cap), 0, 100)`
//!
//! Constants are the reference implementation's. Two departures: `model-tier` without a model id is unavailable (the
//! reference crashes and takes the whole record with it), and its patterns match whole parts of a model id (`o3` is not in
//! `pro3d`), the longest one winning. Which models are of which tier is not in the standard: the table here is ours, and an option replaces it.

mod readings;

use serde_json::Value;

use self::readings::{
    acp, agentverse_insights, agentverse_verifier, ans, connectivity, ethos, first, five_stars, from, log, model_tier,
    parse, simple_eval, uptime,
};
use super::{
    Adapter, AdapterBuilder, Component, Error, Input, Metadata, Mode, Profile, Reading, Status,
    output_verification::{self, Parameters},
};

/// An adapter of the catalogue.
struct Entry {
    id: &'static str,
    mode: Mode,
    weight: f64,
    scope: Scope,
    make: Make,
}

/// Which subjects.
enum Scope {
    /// Those of these registries.
    In(&'static [&'static str]),
    /// Those of any other.
    NotIn(&'static [&'static str]),
    /// Those of whom this is known.
    Where(fn(&Metadata) -> bool),
    /// All.
    All,
}

/// Where the numbers come from.
enum Make {
    /// Always the same.
    Parts(&'static [Part]),
    /// Depends on options.
    Options(fn(Option<&Value>) -> Result<Vec<Component>, Error>),
    /// Has a module of its own.
    OutputVerification,
}

struct Part {
    name: &'static str,
    weight: f64,
    scorable: bool,
    read: fn(&Metadata) -> Reading,
}

/// Counts 0 when there is no value.
const fn part(name: &'static str, read: fn(&Metadata) -> Reading) -> Part {
    Part { name, weight: 1.0, scorable: true, read }
}

/// Left out when there is no value.
const fn optional(name: &'static str, read: fn(&Metadata) -> Reading) -> Part {
    Part { scorable: false, ..part(name, read) }
}

const fn weighing(weight: f64, part: Part) -> Part {
    Part { weight, ..part }
}

const MODELS: &[&str] = &["openrouter", "near-ai"];
const AGENTVERSE: &[&str] = &["agentverse", "uagent"];

static CATALOGUE: [Entry; 18] = [
    Entry {
        id: output_verification::ID,
        mode: Mode::Scoped,
        weight: 1.0,
        scope: Scope::All,
        make: Make::OutputVerification,
    },
    Entry {
        id: "availability",
        mode: Mode::Universal,
        weight: 1.0,
        scope: Scope::NotIn(MODELS),
        make: Make::Parts(&[part("uptime", uptime)]),
    },
    Entry {
        id: "ethos",
        mode: Mode::Universal,
        weight: 1.0,
        scope: Scope::NotIn(&["openrouter", "near-ai", "agentverse", "uagent"]),
        make: Make::Options(ethos),
    },
    Entry {
        id: "acp",
        mode: Mode::Scoped,
        weight: 2.0,
        scope: Scope::In(&["virtuals-protocol"]),
        make: Make::Parts(&[
            part("jobs.successRate", |m| {
                from(acp(m, "successRate").map(|rate| 100.0 * if rate > 1.0 { rate / 100.0 } else { rate }))
            }),
            part("jobs.deliveryVolume", |m| {
                from(acp(m, "volume").or_else(|| acp(m, "successfulJobCount")).map(|jobs| log(jobs, 500.0)))
            }),
            part("jobs.revenue", |m| from(acp(m, "revenue").map(|revenue| log(revenue, 10_000.0)))),
            part("reviews.rating", |m| from(acp(m, "rating").map(five_stars))),
        ]),
    },
    Entry {
        id: "erc8004-feedback",
        mode: Mode::Scoped,
        weight: 1.0,
        scope: Scope::In(&["erc-8004"]),
        make: Make::Parts(&[
            part("rating", |m| from(m.number("erc8004FeedbackSummary.averageScore"))),
            part("volume", |m| {
                let volume = |n: f64| 100.0 * ((10.0 * libm::log10(n.max(0.0) + 1.0)).min(20.0) / 20.0).clamp(0.0, 1.0);
                from(m.number("erc8004FeedbackSummary.totalFeedbacks").map(volume))
            }),
        ]),
    },
    Entry {
        id: "x402",
        mode: Mode::Scoped,
        weight: 1.0,
        scope: Scope::Where(|m| m.get("x402UsageSummary").is_some_and(Value::is_object) || m.get("payTo").is_some()),
        make: Make::Parts(&[
            part("volume7d", |m| {
                let volume = m.number("x402UsageSummary.volume7dUsd").map(|usd| log(usd, 10_000.0));
                Reading::of(volume, m.status("x402UsageStatus"))
            }),
            part("trades7d", |m| {
                let side = |path: &str| m.number(path).unwrap_or(0.0);
                let trades = side("x402UsageSummary.inboundTrades7d") + side("x402UsageSummary.outboundTrades7d");
                let known = m.get("x402UsageSummary").is_some_and(Value::is_object);
                Reading::of(known.then(|| log(trades, 500.0)), m.status("x402UsageStatus"))
            }),
        ]),
    },
    Entry {
        id: "oss-popularity",
        mode: Mode::Scoped,
        weight: 0.7,
        scope: Scope::Where(|m| {
            ["githubRepo", "githubStars", "packageName"]
                .iter()
                .any(|name| m.get(&format!("additional.{name}")).is_some())
        }),
        make: Make::Parts(&[
            weighing(0.6, part("githubStars", |m| from(m.number("additional.githubStars").map(|n| log(n, 5_000.0))))),
            weighing(
                0.4,
                part("downloads", |m| {
                    let paths = [
                        "additional.npmDownloads30d",
                        "additional.pypiDownloads30d",
                        "additional.packageDownloadCount",
                    ];
                    from(first(m, &paths).map(|n| log(n, 100_000.0)))
                }),
            ),
        ]),
    },
    Entry {
        id: "simple-math",
        mode: Mode::Scoped,
        weight: 0.5,
        scope: Scope::All,
        make: Make::Parts(&[part("score", |m| simple_eval(m, "SimpleMath"))]),
    },
    Entry {
        id: "simple-science",
        mode: Mode::Scoped,
        weight: 0.5,
        scope: Scope::All,
        make: Make::Parts(&[part("score", |m| simple_eval(m, "SimpleScience"))]),
    },
    Entry {
        id: "agentverse-insights",
        mode: Mode::Scoped,
        weight: 1.0,
        scope: Scope::In(AGENTVERSE),
        make: Make::Parts(&[part("score", agentverse_insights)]),
    },
    Entry {
        id: "agentverse-verifier",
        mode: Mode::Conditional,
        weight: 1.0,
        scope: Scope::In(AGENTVERSE),
        make: Make::Parts(&[optional("score", agentverse_verifier)]),
    },
    Entry {
        id: "connectivity",
        mode: Mode::Conditional,
        weight: 1.0,
        scope: Scope::NotIn(MODELS),
        make: Make::Options(connectivity),
    },
    Entry {
        id: "openrouter-evals",
        mode: Mode::Scoped,
        weight: 0.5,
        scope: Scope::In(MODELS),
        make: Make::Parts(&[part("score", |m| {
            let thin = m.text("additional.openrouterEvalStatus") == Some("low-coverage");
            let score = m.number("additional.openrouterEvalScore").map(|score| if thin { score * 0.5 } else { score });
            Reading::of(score, m.status("additional.openrouterEvalStatus"))
        })]),
    },
    Entry {
        id: "chatbot-arena",
        mode: Mode::Scoped,
        weight: 6.0,
        scope: Scope::In(MODELS),
        make: Make::Parts(&[part("score", |m| {
            Reading::of(m.number("additional.chatbotArenaEvalScore"), m.status("additional.chatbotArenaEvalStatus"))
        })]),
    },
    Entry {
        id: "huggingface-model-index",
        mode: Mode::Conditional,
        weight: 0.8,
        scope: Scope::In(MODELS),
        make: Make::Parts(&[optional("score", |m| {
            if m.text("additional.huggingFaceEvalMode") == Some("missing") {
                return Reading::unavailable(Status::Missing);
            }
            let score = first(m, &["additional.huggingFaceEvalScore", "additional.huggingFaceSignalScore"]);
            Reading::of(score, m.status("additional.huggingFaceEvalStatus"))
        })]),
    },
    Entry {
        id: "openllm-leaderboard",
        mode: Mode::Conditional,
        weight: 1.0,
        scope: Scope::In(MODELS),
        make: Make::Parts(&[optional("score", |m| {
            Reading::of(m.number("additional.openLlmEvalScore"), m.status("additional.openLlmEvalStatus"))
        })]),
    },
    Entry {
        id: "model-tier",
        mode: Mode::Conditional,
        weight: 2.0,
        scope: Scope::In(MODELS),
        make: Make::Options(model_tier),
    },
    Entry {
        id: "ans-trust-discovery",
        mode: Mode::Scoped,
        weight: 1.0,
        scope: Scope::In(&["ans", "godaddy-ans"]),
        make: Make::Parts(&[
            optional("certtype", |m| ans(m, "certtype")),
            optional("dnssecurity", |m| ans(m, "dnssecurity")),
            optional("agentage", |m| ans(m, "agentage")),
            optional("versionstability", |m| ans(m, "versionstability")),
            optional("dnsconsistency", |m| ans(m, "dnsconsistency")),
            optional("httpsrecord", |m| ans(m, "httpsrecord")),
            optional("agentcard", |m| ans(m, "agentcard")),
            optional("certificatehygiene", |m| ans(m, "certificatehygiene")),
        ]),
    },
];

/// The ids of all adapters, in the catalogue's order.
pub fn ids() -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().map(|entry| entry.id)
}

/// The adapter `id`, with its options.
pub fn adapter(id: &str, options: Option<&Value>, profile: Profile) -> Result<Adapter, Error> {
    let entry = CATALOGUE.iter().find(|entry| entry.id == id).ok_or_else(|| unknown(id))?;
    let wrong = |why: String| Error::Options { adapter: id.to_owned(), why };
    let mut builder = match &entry.make {
        Make::OutputVerification => {
            let parameters: Parameters = parse(options).map_err(wrong)?;
            output_verification::adapter(profile, parameters).map_err(|e| wrong(e.to_string()))?
        }
        Make::Parts(_) if options.is_some_and(|value| value.as_object().is_none_or(|members| !members.is_empty())) => {
            return Err(wrong("it has none".into()));
        }
        Make::Parts(parts) => parts.iter().fold(Adapter::builder(id), |builder, part| {
            let read = part.read;
            let component =
                Component::new(part.name, move |input: &Input<'_>| Ok(read(input.metadata()))).weight(part.weight);
            builder.component(if part.scorable { component } else { component.not_scorable_when_unavailable() })
        }),
        Make::Options(make) => make(options)
            .map_err(|error| wrong(error.to_string()))?
            .into_iter()
            .fold(Adapter::builder(id), AdapterBuilder::component)
            .revision(options.map(Value::to_string).unwrap_or_default()),
    };
    builder = match entry.scope {
        Scope::All => builder,
        Scope::In(registries) => builder.include_registries(registries.iter().copied()),
        Scope::NotIn(registries) => builder.exclude_registries(registries.iter().copied()),
        Scope::Where(known) => builder.applies_to(move |input| Ok(known(input.metadata()))),
    };
    if id == "ans-trust-discovery" {
        builder = builder.default_component_key("ans-trust-discovery.certtype");
    }
    builder.mode(entry.mode).weight(entry.weight).build()
}

/// All adapters, without options.
pub fn all(profile: Profile) -> Result<Vec<Adapter>, Error> {
    ids().map(|id| adapter(id, None, profile)).collect()
}

fn unknown(id: &str) -> Error {
    let shown: String = id.chars().take(64).collect();
    let near = ids().find(|known| known.starts_with(&*shown) || shown.starts_with(*known) || edits(known, &shown) <= 2);
    Error::UnknownAdapter { near: near.filter(|_| !id.is_empty()), id: shown }
}

/// Letters to change, add or drop.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let next = (corner + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hcs25::{Config, Snapshot, Subject};
    use serde_json::json;

    fn score(id: &str, subject: Value) -> crate::hcs25::Record {
        let config = Config::new(1, vec![adapter(id, None, Profile::Reference).unwrap()]).unwrap();
        let subject = Subject::from_value(subject).unwrap();
        config.score(&subject, &Snapshot::default(), "2026-11-16T00:00:00Z".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_model_without_id_is_unavailable_and_breaks_nothing() {
        let record = score("model-tier", json!({"id": "m", "registry": "openrouter"}));
        assert_eq!(record.breakdown.adapters[0].unavailable, ["model-tier.score"]);
        let subject = Subject::from_value(json!({"id": "m", "registry": "near-ai"})).unwrap();
        let config = Config::new(1, all(Profile::Reference).unwrap()).unwrap();
        config.score(&subject, &Snapshot::default(), "2026-11-16T00:00:00Z".parse().unwrap()).unwrap();
    }

    #[test]
    fn model_patterns_match_whole_parts() {
        let tier = |model: &str| {
            score("model-tier", json!({"id": "m", "registry": "openrouter", "metadata": {"modelId": model}}))
                .trust_score
        };
        assert_eq!((tier("openai/o3"), tier("acme/pro3d"), tier("openai/GPT-4o")), (95.0, 50.0, 70.0));
        assert_eq!((tier("openai/gpt-4o-mini"), tier("openai/o3-mini")), (55.0, 85.0));
    }

    #[test]
    fn a_summary_past_its_window_is_stale() {
        let summary = |updated: &str| {
            json!({"id": "a", "metadata": {"outputVerificationSummary": {"allowRate": 0.9, "blockRate": 0.1, "avgConfidence": 0.8,
                "totalChecks": 100, "windowDays": 7, "updatedAt": updated}}})
        };
        let status =
            |updated| score("output-verification", summary(updated)).breakdown.adapters[0].components[0].status;
        assert_eq!(status("2026-11-10T00:00:00Z"), Status::Ok);
        assert_eq!(status("1999-01-01T00:00:00Z"), Status::Stale);
    }

    #[test]
    fn unknown_adapters_and_options_are_named() {
        let error = |id: &str, options: Value| adapter(id, Some(&options), Profile::Spec).unwrap_err().to_string();
        assert!(error("availabilty", json!({})).contains("did you mean 'availability'?"));
        assert!(error("availability", json!({"x": 1})).contains("it has none"));
        assert!(error("ethos", json!({"basline": 1})).contains("unknown field"));
        assert!(error("output-verification", json!({"volumeCap": 0})).contains("volumeCap 0"));
    }
}
