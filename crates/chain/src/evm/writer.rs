//! Writing: feedback of our own, taking it back, and answers to validation requests.
//!
//! Nothing here remembers anything. The chain's id is checked before each signature; fees come from the node and stay below the cap;
//! the nonce is the account's next one unless the caller names one or replaces a transaction.

use std::collections::BTreeSet;

use alloy_consensus::{SignableTransaction, Transaction, TxEip1559, TxEnvelope};
use alloy_eips::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, Bytes, TxKind, U64, U256, hex};
use alloy_sol_types::SolCall;
use credence_protocol::ExternalSubject;
use serde_json::json;

use super::{
    EvmChain, EvmKey, FeePolicy, Rpc,
    abi::{GasPriceOracle, Reputation, Validation},
    blocks,
    fees::Offer,
    find,
    rpc::{Block, NodeError, Refusal},
    state,
};
use crate::{
    ChainError,
    attest::{Attestation, Prepared, Quote, TransactionState},
};

/// The tip where the node suggests none: 0.001 gwei.
const LEAST_TIP: u128 = 1_000_000;
/// Validation requests that are looked at, newest: anyone with a registration can make them.
const MAX_REQUESTS: usize = 256;

use Validation::getValidationStatusReturn as Status;

/// Writes to one chain with one key.
#[derive(Debug)]
pub struct EvmWriter {
    rpc: Rpc,
    chain: EvmChain,
    caip2: String,
    key: EvmKey,
    fees: FeePolicy,
}

impl EvmWriter {
    /// Writes to `chain` through the node at `rpc`.
    pub fn new(rpc: Rpc, chain: EvmChain, key: EvmKey, fees: FeePolicy) -> Self {
        Self { rpc, caip2: chain.caip2(), chain, key, fees }
    }

    /// `eip155:8453`.
    pub fn chain(&self) -> &str {
        &self.caip2
    }

    /// The address that signs, in lower case.
    pub fn address(&self) -> String {
        super::chain::lower(self.key.address())
    }

    /// Fails unless the node serves the configured chain.
    pub async fn check_chain(&self) -> Result<(), ChainError> {
        blocks::check_chain(&self.rpc, &self.chain).await
    }

    /// What an attestation can cost now.
    pub async fn quote(&self, attestation: &Attestation) -> Result<Quote, ChainError> {
        self.check_chain().await?;
        let call = feedback(&self.chain, attestation)?;
        let transaction = self.draft(self.chain.reputation, call.abi_encode().into(), 0, None).await?;
        let max_fee = self.most(&transaction).await?;
        Ok(Quote { max_fee, needed: max_fee, balance: self.balance().await?, unit: "wei" })
    }

    /// Signs an attestation.
    pub async fn prepare(
        &self,
        attestation: &Attestation,
        nonce: Option<u64>,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        let call = feedback(&self.chain, attestation)?;
        self.sign(self.chain.reputation, call.abi_encode().into(), nonce, replaces).await
    }

    /// Signs the revocation of a feedback of ours.
    pub async fn prepare_revocation(
        &self,
        subject: &ExternalSubject,
        index: u64,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        let call = Reputation::revokeFeedbackCall { agentId: self.chain.agent_id(subject)?, feedbackIndex: index };
        self.sign(self.chain.reputation, call.abi_encode().into(), None, replaces).await
    }

    /// Requests to validate an agent that name our address and are not answered with this document yet. None without a validation registry.
    pub async fn validation_requests(&self, attestation: &Attestation) -> Result<Vec<String>, ChainError> {
        let Some(registry) = self.chain.validation else { return Ok(Vec::new()) };
        let (agent, document) = (self.chain.agent_id(&attestation.subject)?, attestation.document_hash()?);
        let made = self.requests(registry).await?.into_iter();
        let open = made.filter(|(_, status)| status.agentId == agent && status.responseHash != document);
        Ok(open.map(|(request, _)| hex::encode(request)).collect())
    }

    /// The registrations with requests that name our address. None without a validation registry.
    pub async fn requested_validations(&self) -> Result<BTreeSet<ExternalSubject>, ChainError> {
        let Some(registry) = self.chain.validation else { return Ok(BTreeSet::new()) };
        let made = self.requests(registry).await?.into_iter();
        Ok(made.filter_map(|(_, status)| self.chain.subject(status.agentId)).collect())
    }

    /// The newest requests that name our address, oldest first.
    async fn requests(&self, registry: Address) -> Result<Vec<(B256, Status)>, ChainError> {
        self.check_chain().await?;
        let call = Validation::getValidatorRequestsCall { validatorAddress: self.key.address() };
        let all = self.rpc.call(registry, &call, Block::Latest).await?;
        let mut made = Vec::new();
        for request in all.iter().skip(all.len().saturating_sub(MAX_REQUESTS)) {
            let call = Validation::getValidationStatusCall { requestHash: *request };
            made.push((*request, self.rpc.call(registry, &call, Block::Latest).await?));
        }
        Ok(made)
    }

    /// Signs the answer to a validation request: the score as a whole number, with the same document.
    pub async fn prepare_validation(
        &self,
        request: &str,
        attestation: &Attestation,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        let missing = || ChainError::OtherRegistry("no validation registry is configured for this chain".into());
        let registry = self.chain.validation.ok_or_else(missing)?;
        let wrong = || ChainError::Malformed("the request is not 32 bytes in hexadecimal".into());
        let call = Validation::validationResponseCall {
            requestHash: request.parse().map_err(|_| wrong())?,
            response: whole_score(attestation)?,
            responseURI: attestation.uri.clone(),
            responseHash: attestation.document_hash()?,
            tag: attestation.tag1.clone(),
        };
        self.sign(registry, call.abi_encode().into(), None, replaces).await
    }

    /// Sends the signed bytes.
    pub async fn send(&self, prepared: &Prepared) -> Result<(), ChainError> {
        let raw = raw_bytes(prepared)?;
        let answered: B256 = match self.rpc.ask("eth_sendRawTransaction", json!([raw])).await {
            Ok(hash) => hash,
            Err(Refusal::Node(error)) => return self.refused(prepared, error).await,
            Err(refusal) => return Err(refusal.into()),
        };
        if answered == transaction_id(prepared)? {
            return Ok(());
        }
        Err(ChainError::Malformed("the node names another transaction than the one it was sent".into()))
    }

    /// What a refused transaction means. That the node has it, or that its nonce is used, is for the state to tell.
    async fn refused(&self, prepared: &Prepared, error: NodeError) -> Result<(), ChainError> {
        const KNOWN: [&str; 5] =
            ["already known", "already imported", "known transaction", "already exists", "nonce too low"];
        if error.says(&KNOWN) {
            return Ok(());
        }
        if error.says(&["underpriced"]) {
            return Err(ChainError::Underpriced);
        }
        if error.says(&["insufficient funds"]) {
            return Err(ChainError::InsufficientFunds { needed: prepared.max_fee, balance: self.balance().await? });
        }
        Err(Refusal::Node(error).into())
    }

    /// Where a transaction is.
    pub async fn state(&self, prepared: &Prepared) -> Result<TransactionState, ChainError> {
        state::of(&self.rpc, &self.chain, self.key.address(), prepared).await
    }

    /// The index of our own feedback with this value and document.
    pub async fn find(&self, attestation: &Attestation) -> Result<Option<u64>, ChainError> {
        self.check_chain().await?;
        find::find(&self.rpc, &self.chain, self.key.address(), attestation, attestation.document_hash()?).await
    }

    async fn sign(
        &self,
        to: Address,
        data: Bytes,
        nonce: Option<u64>,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        self.check_chain().await?;
        let replaced = replaces.map(replaced_transaction).transpose()?;
        let nonce = match (&replaced, nonce) {
            (Some((nonce, _)), _) => *nonce,
            (None, Some(nonce)) => nonce,
            (None, None) => {
                let next: U64 = self.rpc.ask("eth_getTransactionCount", json!([self.key.address(), "pending"])).await?;
                next.to()
            }
        };
        let transaction = self.draft(to, data, nonce, replaced.map(|(_, offer)| offer)).await?;
        let max_fee = self.most(&transaction).await?;
        let balance = self.balance().await?;
        if balance < max_fee {
            return Err(ChainError::InsufficientFunds { needed: max_fee, balance });
        }
        let signature = self.key.sign(transaction.signature_hash());
        let signed = transaction.into_signed(signature);
        let (id, raw) = (signed.hash().to_string(), hex::encode(signed.encoded_2718()));
        Ok(Prepared { id, nonce: Some(nonce), valid_until: None, max_fee, raw })
    }

    /// A transaction with gas and fees as they are now.
    async fn draft(
        &self,
        to: Address,
        data: Bytes,
        nonce: u64,
        replaced: Option<Offer>,
    ) -> Result<TxEip1559, ChainError> {
        // At the newest block, not at the pending one: there, what is replaced has been done already, and doing it again costs less.
        let call = json!([{"from": self.key.address(), "to": to, "data": data}, "latest"]);
        let estimate: U64 = self.rpc.ask("eth_estimateGas", call).await?;
        let newest = blocks::latest(&self.rpc).await?;
        let without = || ChainError::Malformed("the chain has no base fee (EIP-1559)".into());
        let base = newest.base_fee_per_gas.ok_or_else(without)?.saturating_to();
        let tip = match self.rpc.ask::<U256>("eth_maxPriorityFeePerGas", json!([])).await {
            Ok(tip) => tip.saturating_to::<u128>().max(LEAST_TIP),
            Err(Refusal::Node(error)) if !error.is_rate_limit() => LEAST_TIP,
            Err(refusal) => return Err(refusal.into()),
        };
        let offer = self.fees.offer(base, tip, replaced)?;
        Ok(TxEip1559 {
            chain_id: self.chain.id,
            nonce,
            gas_limit: self.fees.gas(estimate.to())?,
            max_fee_per_gas: offer.max_fee,
            max_priority_fee_per_gas: offer.tip,
            to: TxKind::Call(to),
            value: U256::ZERO,
            access_list: Default::default(),
            input: data,
        })
    }

    /// The most that a transaction can cost. On rollups with what its data costs below, which is not capped by the transaction: as it is now, with the margin.
    async fn most(&self, transaction: &TxEip1559) -> Result<u128, ChainError> {
        let gas = u128::from(transaction.gas_limit).saturating_mul(transaction.max_fee_per_gas);
        let Some(oracle) = self.chain.data_fee_oracle else { return Ok(gas) };
        let call = GasPriceOracle::getL1FeeCall { data: transaction.encoded_for_signing().into() };
        let fee = self.rpc.call(oracle, &call, Block::Latest).await?;
        Ok(gas.saturating_add(self.fees.with_margin(fee.saturating_to())))
    }

    async fn balance(&self) -> Result<u128, ChainError> {
        let balance: U256 = self.rpc.ask("eth_getBalance", json!([self.key.address(), "latest"])).await?;
        Ok(balance.saturating_to())
    }
}

fn feedback(chain: &EvmChain, attestation: &Attestation) -> Result<Reputation::giveFeedbackCall, ChainError> {
    Ok(Reputation::giveFeedbackCall {
        agentId: chain.agent_id(&attestation.subject)?,
        value: i128::from(attestation.value),
        valueDecimals: attestation.decimals,
        tag1: attestation.tag1.clone(),
        tag2: attestation.tag2.clone(),
        endpoint: attestation.endpoint.clone(),
        feedbackURI: attestation.uri.clone(),
        feedbackHash: attestation.document_hash()?,
    })
}

/// The score as a whole number of 0 to 100, rounded to the nearest.
fn whole_score(attestation: &Attestation) -> Result<u8, ChainError> {
    let unit = 10_i128.checked_pow(u32::from(attestation.decimals));
    let rounded = unit.map(|unit| (i128::from(attestation.value) + unit / 2).div_euclid(unit));
    let score = rounded.and_then(|score| u8::try_from(score).ok()).filter(|score| *score <= 100);
    score.ok_or_else(|| ChainError::Malformed("the score is not in 0 to 100".into()))
}

/// The signed bytes, in the spelling of JSON-RPC.
fn raw_bytes(prepared: &Prepared) -> Result<Bytes, ChainError> {
    let wrong = |_| ChainError::Malformed("the prepared transaction is not hexadecimal".into());
    hex::decode(&prepared.raw).map(Bytes::from).map_err(wrong)
}

/// The hash of a prepared transaction.
pub(super) fn transaction_id(prepared: &Prepared) -> Result<B256, ChainError> {
    prepared.id.parse().map_err(|_| ChainError::Malformed("the prepared transaction has no hash".into()))
}

/// The nonce and the offer of a prepared transaction, read from its bytes.
fn replaced_transaction(prepared: &Prepared) -> Result<(u64, Offer), ChainError> {
    let bytes = raw_bytes(prepared)?;
    let wrong = |_| ChainError::Malformed("the prepared transaction cannot be decoded".into());
    let transaction = TxEnvelope::decode_2718(&mut bytes.as_ref()).map_err(wrong)?;
    let tip = transaction.max_priority_fee_per_gas().unwrap_or_default();
    Ok((transaction.nonce(), Offer { max_fee: transaction.max_fee_per_gas(), tip }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_rounded_to_whole_numbers() {
        let subject = ExternalSubject::parse("erc8004:eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432/1").unwrap();
        let score = |value, decimals| {
            let text = String::new;
            let (subject, document) = (subject.clone(), text());
            let attestation = Attestation {
                subject,
                value,
                decimals,
                tag1: text(),
                tag2: text(),
                endpoint: text(),
                uri: text(),
                document,
            };
            whole_score(&attestation).ok()
        };
        assert_eq!(score(8_749, 2), Some(87));
        assert_eq!(score(8_750, 2), Some(88));
        assert_eq!(score(100, 0), Some(100));
        assert_eq!(score(0, 18), Some(0));
        for wrong in [score(101, 0), score(-1, 0), score(i64::MAX, 0), score(5, 200)] {
            assert_eq!(wrong, None);
        }
    }
}
