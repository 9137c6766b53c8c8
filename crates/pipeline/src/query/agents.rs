//! Agents: by name, by page, and by names like one that is not known.

use std::ops::ControlFlow;

use credence_ledger::{Scan, View};
use credence_protocol::{Alias, EntityId, nearest};
use serde::de::IgnoredAny;

use crate::{
    Error, Result,
    tables::{self, AgentRow, AssuredRow, ScoreRow},
};

/// Agents examined in one search: beyond, the page ends and says where to go on.
const MAX_EXAMINED: usize = 20_000;
/// Agents examined for names like one that is not known.
const MAX_COMPARED: usize = 2_000;
/// Names that are suggested.
const MAX_SUGGESTED: usize = 3;

/// Finds an agent by its id or any spelling of an alias.
pub fn resolve(view: &dyn View, name: &str) -> Result<EntityId> {
    let unknown = || Error::UnknownAgent(name.chars().take(160).collect());
    if let Ok(id) = EntityId::new(name)
        && tables::get::<AgentRow>(view, tables::AGENTS, id.as_str())?.is_some()
    {
        return Ok(id);
    }
    let alias = Alias::parse(name).map_err(|_| unknown())?;
    tables::get(view, tables::ALIASES, &alias.key())?.ok_or_else(unknown)
}

/// An agent's names, owner and standing.
pub fn agent(view: &(impl View + ?Sized), id: &EntityId) -> Result<AgentRow> {
    tables::get(view, tables::AGENTS, id.as_str())?.ok_or_else(|| Error::UnknownAgent(id.to_string()))
}

/// Which agents are wanted.
#[derive(Debug, Clone, Default)]
pub struct AgentFilter {
    /// Ids that start with this.
    pub prefix: String,
    /// Ids, names and aliases that contain this, whatever the case.
    pub search: Option<String>,
    /// Ids after this one: `next` of the page before.
    pub after: Option<String>,
}

/// An agent of a list.
#[derive(Debug)]
pub struct ListedAgent {
    /// Its id.
    pub id: String,
    /// Its names, owner and standing.
    pub row: AgentRow,
    /// Its newest recorded universal score.
    pub score: Option<ScoreRow>,
    /// Its newest recorded assured score.
    pub assured: Option<AssuredRow>,
}

/// A page of agents, by id.
#[derive(Debug)]
pub struct AgentPage {
    /// The agents.
    pub agents: Vec<ListedAgent>,
    /// Where the next page starts, if there may be one.
    pub next: Option<String>,
}

/// One agent, as in a list.
pub fn listed(view: &dyn View, agent: &EntityId) -> Result<ListedAgent> {
    let (score, assured) = (tables::universal_of(view, agent)?, tables::assured_of(view, agent)?);
    Ok(ListedAgent { id: agent.to_string(), row: self::agent(view, agent)?, score, assured })
}

/// At most `limit` agents that match `filter`. A search also ends after some twenty thousand agents that do not match.
pub fn agents(view: &dyn View, filter: &AgentFilter, limit: usize) -> Result<AgentPage> {
    let wanted = filter.search.as_deref().map(str::to_lowercase);
    let matches = |id: &str, row: &AgentRow| {
        wanted.as_deref().is_none_or(|wanted| {
            id.to_lowercase().contains(wanted)
                || row.name.as_deref().is_some_and(|name| name.to_lowercase().contains(wanted))
                || row.aliases.iter().any(|alias| alias.as_str().to_lowercase().contains(wanted))
        })
    };
    let most = if wanted.is_some() { MAX_EXAMINED } else { usize::MAX };
    let (mut rows, mut examined, mut next): (Vec<(String, AgentRow)>, usize, Option<String>) = (Vec::new(), 0, None);
    let scan = Scan { prefix: &filter.prefix, after: filter.after.as_deref(), reverse: false };
    tables::scan(view, tables::AGENTS, scan, |key, row| {
        if rows.len() == limit || examined == most {
            next.get_or_insert_with(|| rows.last().map_or(key.to_owned(), |(last, _)| last.clone()));
            return Ok(ControlFlow::Break(()));
        }
        examined += 1;
        if matches(key, &row) {
            rows.push((key.to_owned(), row));
        } else if examined == most {
            next = Some(key.to_owned());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let listed = rows.into_iter().map(|(id, row)| {
        let agent = EntityId::new(&id)?;
        let (score, assured) = (tables::universal_of(view, &agent)?, tables::assured_of(view, &agent)?);
        Ok(ListedAgent { id, row, score, assured })
    });
    Ok(AgentPage { agents: listed.collect::<Result<_>>()?, next })
}

/// Ids that someone who wrote `name` may have meant, the nearest first.
pub fn similar_agents(view: &dyn View, name: &str) -> Result<Vec<String>> {
    let lower = name.to_ascii_lowercase();
    let mut ids: Vec<String> = Vec::new();
    // A typing error is rarely in the first letter.
    let Some(first) = name.chars().next().filter(char::is_ascii) else { return Ok(ids) };
    for prefix in [first.to_ascii_lowercase(), first.to_ascii_uppercase()] {
        tables::scan(view, tables::AGENTS, Scan::prefix(&prefix.to_string()), |id, _: IgnoredAny| {
            ids.push(id.to_owned());
            Ok(if ids.len() >= MAX_COMPARED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if ids.len() >= MAX_COMPARED {
            break;
        }
    }
    ids.dedup();
    let close = nearest(name, ids.iter().map(String::as_str)).map(str::to_owned);
    let within = ids.iter().filter(|id| {
        let id = id.to_ascii_lowercase();
        lower.len() > 2 && (id.contains(&lower) || lower.contains(&id))
    });
    let mut all: Vec<String> = close.iter().chain(within.filter(|id| Some(*id) != close.as_ref())).cloned().collect();
    all.truncate(MAX_SUGGESTED);
    Ok(all)
}
