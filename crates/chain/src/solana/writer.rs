//! Writing: feedback of our own, and taking it back.
//!
//! Nothing here remembers anything. The cluster is checked before each signature. The fee is known beforehand (`getFeeForMessage`) and
//! held against the cap and the balance, and the node tries the transaction before it is signed, so that a call that fails costs nothing.
//!
//! Solana has no nonce: a transaction is valid until a block height, and nothing replaces it before. So a second one is prepared only
//! when the first is [`TransactionState::Dead`]; until then the same bytes are sent again, which the cluster takes once.

use alloy_primitives::B256;
use credence_protocol::ExternalSubject;
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AgentAccount, SolanaChain, SolanaKey, find, instruction,
    message::{self, Instruction, MAX_TRANSACTION_BYTES},
    node::{self, At, Blockhash, Commitment},
    seal::{Content, Encoding},
    state,
};
use crate::{
    ChainError,
    attest::{Attestation, Prepared, Quote, TransactionState},
    rpc::{NodeError, Refusal, Rpc},
};

/// What the operator is willing to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SolanaFees {
    /// The most for one transaction, in lamports.
    pub max_fee: u64,
    /// Compute units that one transaction may use.
    pub unit_limit: u32,
    /// What a compute unit is worth on a busy cluster, in millionths of a lamport. 0 pays the base fee alone.
    pub unit_price: u64,
}

impl Default for SolanaFees {
    /// 100,000 lamports at most, 400,000 compute units as the registry's client asks for, the base fee alone.
    fn default() -> Self {
        Self { max_fee: 100_000, unit_limit: 400_000, unit_price: 0 }
    }
}

/// Writes to one cluster with one key.
#[derive(Debug)]
pub struct SolanaWriter {
    rpc: Rpc,
    chain: SolanaChain,
    key: SolanaKey,
    fees: SolanaFees,
}

/// A transaction that is not signed yet.
struct Draft {
    message: Vec<u8>,
    valid_until: u64,
    fee: u64,
}

impl SolanaWriter {
    /// Writes to `chain` through the node at `rpc`.
    pub fn new(rpc: Rpc, chain: SolanaChain, key: SolanaKey, fees: SolanaFees) -> Self {
        Self { rpc, chain, key, fees }
    }

    /// The chain, as a CAIP-2 id.
    pub fn chain(&self) -> &str {
        self.chain.caip2()
    }

    /// The address that signs.
    pub fn address(&self) -> String {
        self.key.address().to_string()
    }

    /// Fails unless the node serves the configured cluster.
    pub async fn check_chain(&self) -> Result<(), ChainError> {
        node::check_chain(&self.rpc, &self.chain).await
    }

    /// What an attestation can cost now. Where the balance is enough, the node tries it, and what it refuses is an error.
    pub async fn quote(&self, attestation: &Attestation) -> Result<Quote, ChainError> {
        self.check_chain().await?;
        let draft = self.draft(self.feedback(attestation).await?).await?;
        let (balance, needed) = self.balance_and_need(draft.fee).await?;
        if balance >= needed {
            self.simulate(&draft.message).await?;
        }
        let (balance, needed) = (u128::from(balance), u128::from(needed));
        Ok(Quote { max_fee: u128::from(draft.fee), needed, balance, unit: "lamports" })
    }

    /// Signs an attestation. There are no nonces: `nonce` is not used.
    pub async fn prepare(
        &self,
        attestation: &Attestation,
        _nonce: Option<u64>,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        self.check_chain().await?;
        self.check_replaced(replaces).await?;
        self.sign(self.feedback(attestation).await?).await
    }

    /// Signs the revocation of a feedback of ours, which is looked for among our transactions: the registry wants its seal.
    pub async fn prepare_revocation(
        &self,
        subject: &ExternalSubject,
        index: u64,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        self.check_chain().await?;
        self.check_replaced(replaces).await?;
        let (client, asset) = (self.key.address(), self.chain.asset(subject)?);
        let given = find::find(&self.rpc, &self.chain, client, asset, |given| given.index == index).await?;
        let refused = |reason: &str| Err(ChainError::Reverted { reason: reason.into() });
        match given {
            Some(given) if given.revoked => refused("this feedback is revoked already"),
            Some(given) => self.sign(instruction::revoke(&self.chain, client, asset, index, given.seal)?).await,
            None => refused("no feedback of ours has this index"),
        }
    }

    /// Sends the signed bytes.
    pub async fn send(&self, prepared: &Prepared) -> Result<(), ChainError> {
        let answered: String = match self.rpc.ask("sendTransaction", state::sent(prepared)).await {
            Ok(signature) => signature,
            Err(refusal) => return self.refused(prepared, node::own_refusal(refusal)?).await,
        };
        if answered == prepared.id {
            return Ok(());
        }
        Err(ChainError::Malformed("the node names another transaction than the one it was sent".into()))
    }

    /// What a refused transaction means. That it is in a block, or that its blockhash is too old or too new, is for the state to tell.
    async fn refused(&self, prepared: &Prepared, error: NodeError) -> Result<(), ChainError> {
        let reason = node::preflight_reason(&error).unwrap_or_default();
        if ["AlreadyProcessed", "BlockhashNotFound"].contains(&reason.as_str())
            || error.says(&["already been processed", "blockhash not found"])
        {
            return Ok(());
        }
        if ["InsufficientFundsForFee", "AccountNotFound"].contains(&reason.as_str()) {
            let balance = node::balance(&self.rpc, self.key.address()).await?;
            return Err(ChainError::InsufficientFunds { needed: prepared.max_fee, balance: u128::from(balance) });
        }
        Err(Refusal::Node(error).into())
    }

    /// Where a transaction is.
    pub async fn state(&self, prepared: &Prepared) -> Result<TransactionState, ChainError> {
        state::of(&self.rpc, self.key.address(), prepared).await
    }

    /// The index of our own feedback with this value and document.
    pub async fn find(&self, attestation: &Attestation) -> Result<Option<u64>, ChainError> {
        self.check_chain().await?;
        let (client, asset) = (self.key.address(), self.chain.asset(&attestation.subject)?);
        let seal: B256 = content(attestation)?.seal(Encoding::I128)?;
        let same = |given: &find::Given| given.seal == seal && !given.revoked;
        Ok(find::find(&self.rpc, &self.chain, client, asset, same).await?.map(|given| given.index))
    }

    async fn check_replaced(&self, replaces: Option<&Prepared>) -> Result<(), ChainError> {
        let Some(replaced) = replaces else { return Ok(()) };
        match self.state(replaced).await? {
            TransactionState::Dead { .. } => Ok(()),
            _ => Err(ChainError::NotReplaceable { until: replaced.valid_until.unwrap_or_default() }),
        }
    }

    /// The call that gives the feedback. The agent's collection stands in its account.
    async fn feedback(&self, attestation: &Attestation) -> Result<Instruction, ChainError> {
        let (asset, content) = (self.chain.asset(&attestation.subject)?, content(attestation)?);
        let address = self.chain.agent_address(asset)?;
        let (_, accounts) = node::accounts(&self.rpc, &[address], Commitment::Confirmed, 0).await?;
        let account = accounts.into_iter().next().flatten();
        let account = account.ok_or_else(|| ChainError::NoSuchAgent(attestation.subject.id().to_owned()))?;
        let agent = AgentAccount::parse(&account, self.chain.registry, asset)?;
        instruction::give(&self.chain, self.key.address(), asset, agent.collection, &content)
    }

    /// A transaction with the newest blockhash, and its fee.
    async fn draft(&self, call: Instruction) -> Result<Draft, ChainError> {
        let (_, Blockhash { blockhash, last_valid_block_height: valid_until }) =
            node::blockhash(&self.rpc, Commitment::Confirmed).await?;
        let mut calls = vec![instruction::unit_limit(self.fees.unit_limit)];
        calls.extend((self.fees.unit_price > 0).then(|| instruction::unit_price(self.fees.unit_price)));
        calls.push(call);
        let message = message::compile(self.key.address(), blockhash, &calls);
        let limit = || ChainError::Limit { what: "the transaction in bytes", limit: MAX_TRANSACTION_BYTES as u64 };
        let fits = |message: &Vec<u8>| message::transaction(&[0; 64], message).len() <= MAX_TRANSACTION_BYTES;
        let message = message.filter(fits).ok_or_else(limit)?;
        let params = json!([BASE64.encode(&message), {"commitment": "confirmed"}]);
        let fee: At<Option<u64>> = self.rpc.ask("getFeeForMessage", params).await?;
        let unknown = || ChainError::Malformed("the node does not know the blockhash that it gave: ask again".into());
        let fee = fee.value.ok_or_else(unknown)?;
        if fee > self.fees.max_fee {
            return Err(ChainError::FeeAboveCap { wanted: u128::from(fee), cap: u128::from(self.fees.max_fee) });
        }
        Ok(Draft { message, valid_until, fee })
    }

    async fn sign(&self, call: Instruction) -> Result<Prepared, ChainError> {
        let draft = self.draft(call).await?;
        self.check_balance(draft.fee).await?;
        self.simulate(&draft.message).await?;
        let signature = self.key.sign(&draft.message);
        Ok(Prepared {
            id: bs58::encode(signature).into_string(),
            nonce: None,
            valid_until: Some(draft.valid_until),
            max_fee: u128::from(draft.fee),
            raw: BASE64.encode(&message::transaction(&signature, &draft.message)),
        })
    }

    /// The balance, and what it has to be: the fee, and what an account must keep to stay.
    async fn balance_and_need(&self, fee: u64) -> Result<(u64, u64), ChainError> {
        let reserve: u64 = self.rpc.ask("getMinimumBalanceForRentExemption", json!([0])).await?;
        Ok((node::balance(&self.rpc, self.key.address()).await?, reserve.saturating_add(fee)))
    }

    async fn check_balance(&self, fee: u64) -> Result<(), ChainError> {
        let (balance, needed) = self.balance_and_need(fee).await?;
        if balance >= needed {
            return Ok(());
        }
        Err(ChainError::InsufficientFunds { needed: u128::from(needed), balance: u128::from(balance) })
    }

    /// Lets the node try the transaction, without a signature.
    async fn simulate(&self, message: &[u8]) -> Result<(), ChainError> {
        #[derive(Deserialize)]
        struct Outcome {
            err: Option<Value>,
        }
        let unsigned = BASE64.encode(&message::transaction(&[0; 64], message));
        let options = json!({"encoding": "base64", "sigVerify": false, "commitment": "confirmed"});
        let outcome: At<Outcome> = self.rpc.ask("simulateTransaction", json!([unsigned, options])).await?;
        match outcome.value.err {
            None => Ok(()),
            Some(error) => Err(ChainError::Reverted { reason: node::refusal_reason(&error) }),
        }
    }
}

/// What is sealed. Without a score: see [`instruction`].
fn content(attestation: &Attestation) -> Result<Content<'_>, ChainError> {
    Ok(Content {
        value: i128::from(attestation.value),
        decimals: attestation.decimals,
        score: None,
        file: Some(attestation.document_hash()?),
        tag1: &attestation.tag1,
        tag2: &attestation.tag2,
        endpoint: &attestation.endpoint,
        uri: &attestation.uri,
    })
}
