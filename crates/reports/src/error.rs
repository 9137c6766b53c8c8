//! Why a report was not drafted, decided about or shown.

use credence_protocol::{EntityId, Uuid};

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done; nothing is public then that was not before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the pipeline: an unknown agent, a rule of the ledger, the ledger itself.
    #[error(transparent)]
    Pipeline(#[from] credence_pipeline::Error),
    /// A document that could not be signed.
    #[error(transparent)]
    Output(#[from] credence_output::Error),
    /// From the protocol.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
    /// The private database cannot be read or written: look at the disk and at the file's permissions.
    #[error("{place}: {why}")]
    Database {
        /// Its file.
        place: String,
        /// What the database said.
        why: String,
    },
    /// There is no such report, or the caller may not see it.
    #[error("there is no report {0} that you may see: `credence report list` shows those there are")]
    Unknown(Uuid),
    /// The token may not decide.
    #[error("this needs a token with scope 'review', and '{0}' has none: `admin` does not include it")]
    NeedsReview(EntityId),
    /// The drafter must not decide about its own draft.
    #[error("'{0}' drafted this report: somebody else has to decide about it")]
    OwnDraft(EntityId),
    /// It cannot go there from where it stands.
    #[error("report {report} cannot be {wanted}: it is {state}")]
    State {
        /// Which.
        report: Uuid,
        /// Where it stands.
        state: &'static str,
        /// What was wanted.
        wanted: &'static str,
    },
    /// The reviewer looked at other contents than these.
    #[error("report {0} has other contents than those with the digest that you name: look at it again")]
    OtherDigest(Uuid),
    /// The database was changed behind the back of the rules.
    #[error(
        "reports.db was changed: {why} (report {report}). It is neither shown nor signed: restore the file, or draft the report again"
    )]
    Changed {
        /// Which.
        report: Uuid,
        /// What differs.
        why: String,
    },
    /// The token that approved was revoked since.
    #[error("the token with which '{0}' approved was revoked since: another reviewer has to approve the report again")]
    ApprovalRevoked(EntityId),
    /// A summary that is too long or has characters that deceive its readers.
    #[error(
        "summary: at most {0} characters, and no control characters but line breaks, none that change the direction of text and none that are not shown, because people read it"
    )]
    Summary(usize),
    /// The drafter has too many drafts that nobody decided about.
    #[error("'{name}' has {limit} drafts that nobody has decided about: have them reviewed first")]
    TooManyDrafts {
        /// Whose.
        name: EntityId,
        /// The limit.
        limit: u64,
    },
    /// A number in the report is not in the entry that it cites.
    #[error("entry {seq} does not say what the report says of it ({what}): nothing is signed")]
    NotInEntry {
        /// Which entry.
        seq: u64,
        /// What differs.
        what: &'static str,
    },
    /// The authority's key cannot sign.
    #[error("the report cannot be signed: {0}")]
    Key(String),
}

impl From<credence_ledger::Error> for Error {
    fn from(error: credence_ledger::Error) -> Self {
        Self::Pipeline(error.into())
    }
}
