//! Why a chain could not be read or written.

use std::time::Duration;

use credence_egress::EgressError;

/// Why a chain could not be read or written. Nothing was recorded and, unless a variant says so, nothing was sent.
///
/// No text of a contract or a node is repeated, but for the sanitised reason of a reverted call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// The node could not be reached or broke off. Try again later; a transaction may or may not have arrived, its state tells.
    #[error("the node could not be asked: {0}")]
    Transport(String),
    /// The node asks for a pause. Ask again after it.
    #[error("the node limits requests: ask again in {} s", .retry_after.map_or(1, |pause| pause.as_secs().max(1)))]
    RateLimited {
        /// How long to wait, where the node said it.
        retry_after: Option<Duration>,
    },
    /// Correct the node's address or the configured chain. Nothing was signed.
    #[error("the node serves chain {answered}, and {configured} is configured: correct its address or the chain")]
    WrongChain {
        /// What the operator configured.
        configured: String,
        /// What the node answered.
        answered: String,
    },
    /// The node or the contract answered in another shape, or contradicts itself. Check the contract addresses; use another node.
    #[error("the answer is not usable: {0}")]
    Malformed(String),
    /// A limit of ours was reached: the answer is left alone.
    #[error("{what} exceeds the limit of {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The subject is in another registry or on another chain than this client serves.
    #[error("{0}")]
    OtherRegistry(String),
    /// The registry knows no such agent. Check the id.
    #[error("the registry has no agent {0}")]
    NoSuchAgent(String),
    /// The contract refuses the call. Nothing was sent.
    #[error("the contract refuses the call: {reason}")]
    Reverted {
        /// The contract's reason: printable ASCII, shortened.
        reason: String,
    },
    /// Fees are above the operator's cap. Wait, or raise the cap.
    #[error("the fee would be {wanted}, and the cap is {cap} (wei per gas, or lamports): wait, or raise the cap")]
    FeeAboveCap {
        /// What inclusion costs now, in wei per gas or in lamports.
        wanted: u128,
        /// The cap, in the same unit.
        cap: u128,
    },
    /// Send funds to the attesting address.
    #[error(
        "the attesting address holds {balance}, and needs {needed} for the transaction (wei or lamports): send funds to it"
    )]
    InsufficientFunds {
        /// The most that the transaction can cost, in the chain's smallest unit. On Solana with what the account must keep.
        needed: u128,
        /// What the address holds.
        balance: u128,
    },
    /// The node holds another transaction of this nonce with a higher fee. Ask for the state; replace it with a higher fee.
    #[error("the node holds another transaction of this nonce with a higher fee: prepare a replacement")]
    Underpriced,
    /// Solana replaces no transaction. Send the same one again; prepare another when its state is dead.
    #[error(
        "the transaction is not dead and cannot be replaced before block height {until} has passed: send it again, or wait"
    )]
    NotReplaceable {
        /// The last block height at which it can be included.
        until: u64,
    },
    /// The key cannot be used. The words name the file or variable, never the key.
    #[error("the attesting key cannot be used: {0}")]
    Key(String),
    /// A setting of the chain is wrong. Correct it; the words name it.
    #[error("{0}")]
    Configuration(String),
    /// The node refuses even the smallest range of logs. Read without logs, or use another node.
    #[error("the node refuses to search logs: use another node, or read without logs")]
    RangeRefused,
    /// A block is not what it was a moment ago. Read again.
    #[error("the chain was reorganised during the reading, or the node contradicts itself: read again")]
    Reorganised,
    /// The node's newest block is old: it is not in step with its chain. Use another node, or wait.
    #[error("the node's newest block is {age_seconds} s old: it is not in step with its chain")]
    StaleHead {
        /// How old it is.
        age_seconds: u64,
    },
}

impl ChainError {
    /// A stable code.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Transport(_) => "transport",
            Self::RateLimited { .. } => "rate_limited",
            Self::WrongChain { .. } => "wrong_chain",
            Self::Malformed(_) => "malformed",
            Self::Limit { .. } => "limit",
            Self::OtherRegistry(_) => "other_registry",
            Self::NoSuchAgent(_) => "no_such_agent",
            Self::Reverted { .. } => "reverted",
            Self::FeeAboveCap { .. } => "fee_above_cap",
            Self::InsufficientFunds { .. } => "insufficient_funds",
            Self::Underpriced => "underpriced",
            Self::NotReplaceable { .. } => "not_replaceable",
            Self::Key(_) => "key",
            Self::Configuration(_) => "configuration",
            Self::RangeRefused => "range_refused",
            Self::Reorganised => "reorganised",
            Self::StaleHead { .. } => "stale_head",
        }
    }
}

impl From<EgressError> for ChainError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::Paused { left, .. } => Self::RateLimited { retry_after: Some(left) },
            other => Self::Transport(other.to_string()),
        }
    }
}
