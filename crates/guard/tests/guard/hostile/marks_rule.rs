//! Where the guard enforces, what a server says reaches the client judged or marked, however the client reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use credence_protocol::receipt::{Exact, Receipt, Salts, Views, forms_of_result};

use super::reading::{self, Json, Leniency};

/// The guard's name in `_meta`.
const MARK: &str = "credence/guard";

/// The receipts of the calls that were made, by their id.
pub struct Marks(HashMap<String, (Receipt, Option<Salts>)>);

impl Marks {
    pub fn new(recorded: Vec<(Receipt, Option<Salts>)>) -> Self {
        Self(recorded.into_iter().map(|one| (one.0.call.to_string(), one)).collect())
    }

    /// What is wrong with what the client got: each nonce that a reader finds where nobody vouches for it, with the reason.
    pub fn violations(&self, delivered: &[u8], nonce: fn(&str) -> Vec<String>) -> BTreeMap<String, String> {
        let mut wrong = BTreeMap::new();
        let mut readings: BTreeSet<String> = BTreeSet::new();
        let all: BTreeSet<String> = nonce(&String::from_utf8_lossy(delivered)).into_iter().collect();
        for how in reading::ALL {
            for message in reading::values(delivered, how).into_iter().chain(reading::events(delivered, how)) {
                let mut nonces = Vec::new();
                message.texts(how, &mut |text| nonces.extend(nonce(text)));
                readings.extend(nonces.iter().cloned());
                if let Some(why) = (!nonces.is_empty()).then(|| self.wrong(&message, how)).flatten() {
                    for nonce in nonces {
                        wrong.entry(nonce).or_insert(format!("{why} ({how:?})"));
                    }
                }
            }
        }
        for nonce in all.difference(&readings) {
            wrong.entry(nonce.clone()).or_insert("it stands in no message".to_owned());
        }
        wrong
    }

    /// Why nobody vouches for this message.
    fn wrong(&self, message: &Json, how: Leniency) -> Option<String> {
        let get = |name| message.get(name, how);
        match (get("method").and_then(Json::text), get("result"), get("error")) {
            // The server's own request or notification: no reader takes it for the answer to a call.
            (Some(_), None, None) => None,
            (None, Some(result), None) => self.wrong_result(message, result, how),
            (None, None, Some(error)) => self.wrong_error(message, error, how),
            _ => Some("it is neither a request nor an answer".to_owned()),
        }
    }

    /// The receipt that a mark names, if it is the one of the call that the message answers.
    fn vouched(&self, message: &Json, mark: Option<&Json>, how: Leniency) -> Result<&(Receipt, Option<Salts>), String> {
        let mark = mark.ok_or("it has no mark")?;
        let named = mark.get("receipt", how).and_then(Json::text).ok_or("its mark names no receipt")?;
        let found = self.0.get(named).ok_or(format!("its mark names the receipt '{named}', which is not there"))?;
        let id = message.get("id", how).map(|id| match id {
            Json::Text(text) => serde_json::to_string(text).unwrap(),
            Json::Word(word) => word.clone(),
            other => format!("{other:?}"),
        });
        let same = |one: &str, other: &str| {
            one == other || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
        };
        if !found.0.request.as_deref().zip(id.as_deref()).is_some_and(|(request, id)| same(request, id)) {
            return Err(format!("its mark names the receipt of another call, {:?}, not of {id:?}", found.0.request));
        }
        Ok(found)
    }

    fn wrong_result(&self, message: &Json, result: &Json, how: Leniency) -> Option<String> {
        let mark = result.get("_meta", how).and_then(|meta| meta.get(MARK, how));
        let (receipt, salts) = match self.vouched(message, mark, how) {
            Ok(found) => found,
            Err(why) => return Some(why),
        };
        if receipt.verdict.is_none() && receipt.unjudged.is_none() {
            return Some("its receipt has neither a verdict nor a reason".to_owned());
        }
        // The receipt commits to what the client got, in every view of it.
        let (Some(salts), Some(text)) = (salts, result.exact(false)) else { return None };
        let forms = forms_of_result(&Exact::parse(&text).ok()?);
        let held = |views: &Views| {
            forms.iter().all(|(view, form)| views.get(*view) == Some(salts.result.commit(view.name(), form)))
        };
        let held = [&receipt.delivered, &receipt.result].into_iter().flatten().any(held);
        (!held).then(|| format!("its receipt {} commits to another result", receipt.call))
    }

    fn wrong_error(&self, message: &Json, error: &Json, how: Leniency) -> Option<String> {
        let mark = error.get("data", how).and_then(|data| data.get(MARK, how));
        self.vouched(message, mark, how).err().map(|why| format!("an error: {why}"))
    }
}
