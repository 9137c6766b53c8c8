//! What can be wrong with a document.

use credence_protocol::KeyId;

/// Why a document was not made, or is not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the protocol: canonical form, key, signature.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
    /// It is not the kind of document it should be.
    #[error("{0}")]
    Malformed(String),
    /// Signed by a key that was not given.
    #[error("it is signed by key {0}, which is not the one given")]
    UnknownKey(KeyId),
    /// A part is over its cap.
    #[error("{what} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Which.
        what: String,
        /// Its size.
        bytes: usize,
        /// The cap.
        limit: usize,
    },
    /// A picture that does not show what its claim says.
    #[error("the picture is not the one that its signed claim makes")]
    Redrawn,
    /// A status list index that is out of range.
    #[error("index {index} is not in the status list of {length}")]
    Index {
        /// Which.
        index: usize,
        /// How many there are.
        length: usize,
    },
}
