use std::path::PathBuf;

use credence_protocol::{Timestamp, Uuid};

/// What can go wrong with kept results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuarantineError {
    /// A file or folder cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, std::io::Error),
    /// The key file cannot be used.
    #[error("quarantine key {path}: {1}", path = .0.display())]
    Key(PathBuf, String),
    /// There are kept results and no key: they cannot be read any more.
    #[error("{path} is missing: what is kept cannot be read without it; `credence guard forget --all` removes it", path = .0.display())]
    NoKey(PathBuf),
    /// A kept result that was changed, cut off, or encrypted under another key.
    #[error(
        "{path} cannot be read: it is damaged, or was encrypted under another key than {key}; `credence guard forget {call}` removes it",
        path = .path.display(), key = .key.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The key file that was used.
        key: PathBuf,
        /// The call it should hold.
        call: Uuid,
    },
    /// The system gives no randomness.
    #[error("the system gives no randomness")]
    NoRandomness,
    /// The state folder is another user's.
    #[error(
        "{path} belongs to {owner}, and this command runs as uid {uid}: run it as that user, such as \
         `sudo -u {owner} credence guard … --state {path}`", path = .path.display()
    )]
    OtherUser {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: String,
        /// Who asks.
        uid: u32,
    },
    /// No guard of this folder made the call.
    #[error(
        "no call {0} is known here: `credence guard review --list` shows those that wait, --state names another folder"
    )]
    UnknownCall(Uuid),
    /// The call has a receipt, and nothing is kept of it.
    #[error(
        "of call {0} nothing is kept: it was accepted and showed no change, forgotten, let go when it was old or room was needed, or the \
         quarantine was off"
    )]
    NotKept(Uuid),
    /// It was answered before.
    #[error("call {call} was {answer} at {at} by {by}: nothing was changed (--change gives another answer)")]
    Answered {
        /// The call.
        call: Uuid,
        /// `accepted` or `rejected`.
        answer: &'static str,
        /// When.
        at: Timestamp,
        /// By whom.
        by: String,
    },
    /// The content is not kept: it was too large, or could not be read as a message.
    #[error("the content of call {call} is not kept: {why}")]
    NoContent {
        /// The call.
        call: Uuid,
        /// Why.
        why: String,
    },
    /// The journal of operations, or the receipts.
    #[error(transparent)]
    Receipts(#[from] credence_receipts::Error),
}
