//! One call, as a model sees it.

use std::cell::OnceCell;

use credence_protocol::Timestamp;

use super::{
    ages::Age,
    echo::Argument,
    model::Last,
    observe::{NONE, ObservedValue, ValueKind, fold, mix},
};

/// Fields remembered of the last result for the same arguments.
const REMEMBERED_FIELDS: usize = 96;

/// Classes of results by the bytes of their texts and numbers: acknowledgements and errors, records, lists and documents.
pub(super) const SIZES: usize = 3;
const SMALL: usize = 64;
const LARGE: usize = 512;
const NUMBER_BYTES: usize = 4;

/// Everything that judging one call needs.
pub(crate) struct Observation<'a> {
    pub(crate) seen: Vec<ObservedValue<'a>>,
    pub(crate) arguments: Vec<Argument<'a>>,
    pub(crate) args_id: Option<u64>,
    /// 0 where there is none.
    pub(super) session: u64,
    pub(crate) latency_ms: Option<f64>,
    /// When the call was made.
    pub(super) at: Option<Timestamp>,
    /// How long before it the same arguments were answered, where that is known.
    pub(super) age: Option<Age>,
    /// The whole result in one number, whatever the order of its keys.
    pub(super) digest: u64,
    /// Known paths with the digest of all their values and the first place, ordered; made when first wanted.
    pub(super) fields: OnceCell<Vec<(u32, u32, usize)>>,
}

impl<'a> Observation<'a> {
    pub(super) fn fields(&self) -> &[(u32, u32, usize)] {
        self.fields.get_or_init(|| {
            let mut fields: Vec<(u32, u32, usize)> = Vec::with_capacity(self.seen.len());
            let known = self.seen.iter().enumerate().filter(|(_, seen)| seen.node != NONE);
            fields.extend(known.map(|(place, seen)| (seen.node, seen.digest(), place)));
            fields.sort_unstable();
            fields.dedup_by(|next, first| {
                let same = next.0 == first.0;
                if same {
                    first.1 = first.1.wrapping_mul(31).wrapping_add(next.1);
                }
                same
            });
            fields.truncate(REMEMBERED_FIELDS);
            fields
        })
    }

    /// The result and the arguments, as numbers.
    pub(crate) fn id(&self) -> (u64, u64) {
        (self.digest, self.args_id.unwrap_or_default())
    }

    /// How much the result holds, as a class below [`SIZES`].
    pub(super) fn class(&self) -> usize {
        let bytes = self.seen.iter().map(|seen| match seen.what {
            ValueKind::Text { text, .. } => text.len(),
            ValueKind::Number(_) => NUMBER_BYTES,
            _ => 0,
        });
        let mut sum = 0;
        for bytes in bytes {
            sum += bytes;
            if sum >= LARGE {
                return 2;
            }
        }
        usize::from(sum >= SMALL)
    }

    /// Both in one number.
    pub(crate) fn both(&self) -> u32 {
        let (result, args) = self.id();
        fold(mix(args, result))
    }

    pub(crate) fn new(
        seen: Vec<ObservedValue<'a>>,
        arguments: Vec<Argument<'a>>,
        (args_id, session): (Option<u64>, Option<u64>),
        latency_ms: Option<f64>,
    ) -> Self {
        let session = session.unwrap_or_default();
        let digest = seen.first().map_or(0, |root| root.hash);
        Self { seen, arguments, args_id, session, latency_ms, at: None, age: None, digest, fields: OnceCell::new() }
    }

    /// Made at this time, after what is remembered of the same arguments.
    pub(crate) fn at(self, at: Option<Timestamp>, last: Option<&Last>) -> Self {
        // A clock that was set back says nothing.
        let since = |last: &Last| at?.micros().checked_sub(last.at?.micros()).and_then(|age| u64::try_from(age).ok());
        Self { at, age: last.and_then(since), ..self }
    }
}
