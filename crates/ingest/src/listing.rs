//! Lists in pages, in which a subject is looked for. A list that is the same for every subject is read once and shared: asked for each
//! subject apart, a list of twenty pages would be twenty requests for each.
//!
//! Pages are turned until the subject is found; where a list is the subject's as a whole (`join`), to its end. A list that is longer than
//! what is read says nothing of subjects that are not on it ([`NoReading::Beyond`]), and nothing as a whole ([`NoReading::Partial`]).

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use credence_protocol::{ExternalSubject, Timestamp};
use tokio::sync::Mutex;
use url::Url;

use crate::{
    Answered, Asked, Crawler, Failure, NoReading, Source,
    crawler::quota,
    reading::{self, Document, Page},
    source::PageRule,
    template::Parts,
};

/// How long a list is shared, at most; a quarter of the time to live where that is less.
const SHARED: Duration = Duration::from_secs(3600);
/// How long one failure to read on answers everyone who asks, at most.
const FAILED: Duration = Duration::from_secs(60);
/// Bytes of all pages of a list.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What was read of a list.
#[derive(Default)]
pub(crate) struct Listing {
    pages: Vec<Page>,
    bytes: usize,
    quota: Option<u64>,
    end: Option<End>,
}

enum End {
    /// It was read to its end.
    Last,
    /// There is more, and it is not read.
    Cut,
    /// The next page could not be read.
    Failed(Instant, Result<NoReading, Failure>),
}

/// How long a failure answers everyone who asks: as long as the source is left alone, where it asked for that.
fn holds(why: &Result<NoReading, Failure>) -> Duration {
    why.as_ref().err().and_then(|failure| failure.retry_after).map_or(FAILED, |pause| pause.min(FAILED))
}

/// A list that several ask about, and since when.
pub(crate) type Shared = (Instant, Arc<Mutex<Listing>>);

impl Crawler {
    /// Looks for `subject` in the list at `url`.
    pub(crate) async fn ask_list(
        &self,
        source: &Source,
        rule: &PageRule,
        subject: &ExternalSubject,
        parts: &Parts,
        url: &Url,
        now: Timestamp,
    ) -> Result<Asked, Failure> {
        let list = self.list(source);
        let mut list = list.lock().await;
        let mut read = 0;
        let outcome = loop {
            if let Some(page) = list.pages.get(read).filter(|_| rule.join.is_none()) {
                read += 1;
                if reading::select(source, parts, &page.value).is_empty() {
                    continue;
                }
                break Document::of(source, subject, &list.pages[..read])
                    .and_then(|found| found.read(source, None, now));
            }
            match &list.end {
                Some(End::Last) => {
                    let whole = Document::of(source, subject, &list.pages);
                    break whole.and_then(|whole| whole.read(source, None, now));
                }
                Some(End::Cut) if rule.join.is_some() => break Err(NoReading::Partial(rule.most)),
                Some(End::Cut) => break Err(NoReading::Beyond(rule.most)),
                Some(End::Failed(at, why)) if at.elapsed() < holds(why) => match why {
                    Ok(no) => break Err(no.clone()),
                    Err(failure) => return Err(failure.clone()),
                },
                _ => self.next(source, rule, parts, url, &mut list).await,
            }
        };
        Ok(Asked::Answered(Box::new(Answered { outcome, validators: Default::default(), quota: list.quota })))
    }

    /// The list of a source: everyone's, where nothing of the subject is in the request.
    fn list(&self, source: &Source) -> Arc<Mutex<Listing>> {
        let own = || Arc::new(Mutex::new(Listing::default()));
        if !source.request.address.places().is_empty() || source.request.body.is_some() {
            return own();
        }
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = SHARED.min(source.ttl / 4);
        lists.retain(|_, (since, _)| since.elapsed() < SHARED);
        let list = lists.entry(source.digest.clone()).or_insert_with(|| (Instant::now(), own()));
        if list.0.elapsed() >= fresh {
            *list = (Instant::now(), own());
        }
        Arc::clone(&list.1)
    }

    /// Reads one more page, or finds out that there is none.
    async fn next(&self, source: &Source, rule: &PageRule, parts: &Parts, url: &Url, list: &mut Listing) {
        list.end = None;
        let failed = |why| Some(End::Failed(Instant::now(), why));
        let value = match list.pages.last() {
            None => None,
            Some(last) => match rule.next.value(&last.value, list.pages.len() as u64) {
                Some(value) => Some(value),
                None => return list.end = Some(End::Last),
            },
        };
        if list.pages.len() >= rule.most as usize || list.bytes > MAX_BYTES {
            list.end = Some(End::Cut);
            return;
        }
        let value = value.as_deref();
        let next =
            value.filter(|_| !rule.in_body).map_or_else(|| url.clone(), |value| with_parameter(url, rule, value));
        let in_body = value.filter(|_| rule.in_body).map(|value| (rule.parameter.as_str(), value));
        let answer = match self.send(source, parts, &next, None, in_body).await {
            Ok(answer) => match self.failure_of(&answer, url) {
                None => answer,
                Some(failure) => return list.end = failed(Err(failure)),
            },
            Err(failure) => return list.end = failed(Err(failure)),
        };
        list.quota = quota(&answer).or(list.quota);
        match Page::parse(source, &answer.body) {
            Ok(page) => {
                list.bytes += answer.body.len();
                list.pages.push(page);
            }
            Err(no) => list.end = failed(Ok(no)),
        }
    }
}

fn with_parameter(url: &Url, rule: &PageRule, value: &str) -> Url {
    let mut next = url.clone();
    let others: Vec<(String, String)> =
        url.query_pairs().filter(|(name, _)| *name != rule.parameter).map(|(n, v)| (n.into(), v.into())).collect();
    next.query_pairs_mut().clear().extend_pairs(others).append_pair(&rule.parameter, value);
    next
}
