//! What is written, what it costs, and what is refused before anything is paid.

use alloy_primitives::{B256, U256, keccak256};
use credence_chain::{
    ChainError,
    attest::{TransactionState, Writer},
    evm::{FeePolicy, LogBook},
};
use serde_json::json;

use crate::world::{CONFIRMATIONS, GWEI, World, attester, local, now, pauseCall, validationRequestCall};

#[tokio::test]
async fn an_attestation_is_written_found_and_taken_back() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    let writer = Writer::Evm(world.writer());
    assert_eq!((writer.chain(), writer.address()), ("eip155:31337", world.attester_account().to_lowercase()));
    writer.check_chain().await.unwrap();
    let attestation = world.attestation(0, 8_312);
    let quote = writer.quote(&attestation).await.unwrap();
    assert!(quote.unit == "wei" && quote.max_fee > 0 && quote.balance > quote.max_fee, "{quote:?}");
    assert_eq!(writer.find(&attestation).await, Ok(None));

    let prepared = writer.prepare(&attestation, None, None).await.unwrap();
    assert_eq!(prepared.nonce, Some(0));
    assert_eq!(writer.state(&prepared).await, Ok(TransactionState::Unknown), "signed is not sent");
    assert_eq!(world.attested(0), []);
    writer.send(&prepared).await.unwrap();
    let TransactionState::Included { confirmations: 1, succeeded: true, fee, index: Some(1), block, block_hash } =
        settled(&writer, &prepared).await
    else {
        panic!("not included")
    };
    assert!(fee > 0 && fee <= prepared.max_fee && block > 0 && block_hash.len() == 66, "{fee} of {}", prepared.max_fee);
    // Sent once more, it is still one.
    writer.send(&prepared).await.unwrap();
    assert_eq!(world.attested(0), [(8_312, false)]);
    assert_eq!(writer.find(&attestation).await, Ok(Some(1)));
    assert_eq!(writer.find(&world.attestation(0, 8_313)).await, Ok(None));
    let other_document =
        credence_chain::attest::Attestation { document: world.attestation(0, 1).document, ..attestation.clone() };
    assert_eq!(writer.find(&other_document).await, Ok(None), "the same value of another document");

    // Its events carry document and address; nobody reads it as feedback.
    world.settle();
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let mut book = LogBook::new();
    reader.read_logs(&mut book, head).await.unwrap();
    let book_text = serde_json::to_string(&book).unwrap();
    assert!(book_text.contains(&attestation.document) && book_text.contains(&attestation.uri));
    let reading = reader.read(&world.subject(0), head, Some(&book), &local).await.unwrap();
    assert!(reading.signals.iter().all(|signal| signal.tag.as_str() == "identity_key_continuity"), "{reading:?}");

    let revocation = writer.prepare_revocation(&attestation.subject, 1, None).await.unwrap();
    writer.send(&revocation).await.unwrap();
    settled(&writer, &revocation).await;
    assert_eq!(world.attested(0), [(8_312, true)]);
    assert_eq!(writer.find(&attestation).await, Ok(None));
    let twice = writer.prepare_revocation(&attestation.subject, 1, None).await.unwrap_err();
    assert_eq!(twice, ChainError::Reverted { reason: "Already revoked".into() });
}

/// The state once the node has put it into a block.
pub async fn settled(writer: &Writer, prepared: &credence_chain::attest::Prepared) -> TransactionState {
    for _ in 0..500 {
        let state = writer.state(prepared).await.unwrap();
        if matches!(state, TransactionState::Included { .. }) {
            return state;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{:?}", writer.state(prepared).await)
}

#[tokio::test]
async fn nothing_is_signed_for_another_chain_or_a_call_that_fails() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    let writer = world.writer();
    let nobody = writer.prepare(&world.attestation(5, 8_000), None, None).await.unwrap_err();
    assert_eq!(nobody.reason(), "reverted");
    world.call(0, world.chain.reputation, pauseCall { on: true });
    let paused = writer.prepare(&world.attestation(0, 8_000), None, None).await.unwrap_err();
    assert_eq!(paused, ChainError::Reverted { reason: "registry is paused".into() });
    world.call(0, world.chain.reputation, pauseCall { on: false });

    // It was fine when it was signed, and is not when it is included: paid for, and told.
    let prepared = writer.prepare(&world.attestation(0, 8_000), None, None).await.unwrap();
    world.call(0, world.chain.reputation, pauseCall { on: true });
    writer.send(&prepared).await.unwrap();
    let state = settled(&Writer::Evm(writer), &prepared).await;
    assert!(matches!(state, TransactionState::Included { succeeded: false, index: None, .. }), "{state:?}");
    assert_eq!(world.attested(0), []);

    let attestation = world.attestation(0, 8_000);
    world.chain.id = 1;
    let other = world.writer().prepare(&attestation, None, None).await.unwrap_err();
    assert_eq!(other.reason(), "other_registry");
    let subject = attestation.subject.as_str().replace("31337", "1").parse_subject();
    let attestation = credence_chain::attest::Attestation { subject, ..attestation };
    for error in [
        world.writer().prepare(&attestation, None, None).await.unwrap_err(),
        world.writer().quote(&attestation).await.unwrap_err(),
        world.writer().prepare_revocation(&attestation.subject, 1, None).await.unwrap_err(),
        world.writer().find(&attestation).await.unwrap_err(),
    ] {
        assert_eq!(error.reason(), "wrong_chain", "{error}");
    }
}

trait ParseSubject {
    fn parse_subject(&self) -> credence_protocol::ExternalSubject;
}

impl ParseSubject for String {
    fn parse_subject(&self) -> credence_protocol::ExternalSubject {
        credence_protocol::ExternalSubject::parse(self).unwrap()
    }
}

#[tokio::test]
async fn fees_stay_below_the_cap_and_within_the_wallet() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    let attestation = world.attestation(0, 8_000);
    world.anvil.ask("anvil_setNextBlockBaseFeePerGas", json!([format!("{:#x}", 400 * GWEI)]));
    world.anvil.mine(1);
    let spike = world.writer().prepare(&attestation, None, None).await.unwrap_err();
    assert!(
        matches!(spike, ChainError::FeeAboveCap { wanted, cap } if wanted > 390 * GWEI && cap == 100 * GWEI),
        "{spike:?}"
    );
    assert_eq!(world.writer().quote(&attestation).await.unwrap_err().reason(), "fee_above_cap");
    world.anvil.ask("anvil_setNextBlockBaseFeePerGas", json!([format!("{:#x}", 10 * GWEI)]));
    world.anvil.mine(1);
    let greedy = FeePolicy { max_fee_per_gas: 100 * GWEI, max_gas: 30_000, ..FeePolicy::default() };
    assert_eq!(
        world.writer_with(world.anvil.url(), greedy).prepare(&attestation, None, None).await.unwrap_err().reason(),
        "limit"
    );

    world.anvil.ask("anvil_setBalance", json!([world.attester_account(), "0x64"]));
    let empty = world.writer().prepare(&attestation, None, None).await.unwrap_err();
    assert!(matches!(empty, ChainError::InsufficientFunds { needed, balance: 100 } if needed > GWEI), "{empty:?}");
    assert_eq!(world.writer().quote(&attestation).await.unwrap().balance, 100);
    // Emptied between signing and sending.
    world.anvil.ask("anvil_setBalance", json!([world.attester_account(), "0xde0b6b3a7640000"]));
    let prepared = world.writer().prepare(&attestation, None, None).await.unwrap();
    world.anvil.ask("anvil_setBalance", json!([world.attester_account(), "0x64"]));
    let late = world.writer().send(&prepared).await.unwrap_err();
    assert_eq!(late, ChainError::InsufficientFunds { needed: prepared.max_fee, balance: 100 });
    assert_eq!(world.attested(0), []);
}

#[tokio::test]
async fn rollups_add_what_data_costs_below() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    let attestation = world.attestation(0, 8_000);
    let without = world.writer().quote(&attestation).await.unwrap().max_fee;
    world.chain.data_fee_oracle = Some(world.anvil.deploy("L1FeeOracle", "").parse().unwrap());
    let with = world.writer().quote(&attestation).await.unwrap().max_fee;
    // A gwei a byte, and the margin: a call of about 520 bytes.
    let difference = with.abs_diff(without);
    assert!((500 * GWEI..2_000_000 * GWEI).contains(&difference), "{difference}");
    let prepared = world.writer().prepare(&attestation, None, None).await.unwrap();
    assert!(prepared.max_fee > 500 * GWEI);
}

#[tokio::test]
async fn a_stuck_transaction_is_replaced_and_only_one_is_included() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    let (writer, attestation) = (Writer::Evm(world.writer()), world.attestation(0, 8_000));
    world.anvil.ask("evm_setAutomine", json!([false]));
    let stuck = writer.prepare(&attestation, None, None).await.unwrap();
    writer.send(&stuck).await.unwrap();
    writer.send(&stuck).await.unwrap();
    assert_eq!(writer.state(&stuck).await, Ok(TransactionState::Pending));
    assert_eq!(
        writer.prepare(&attestation, None, None).await.unwrap().nonce,
        Some(1),
        "the next one, after what is pending"
    );
    let faster = writer.prepare(&attestation, None, Some(&stuck)).await.unwrap();
    assert_eq!(faster.nonce, stuck.nonce);
    assert!(faster.max_fee * 8 >= stuck.max_fee * 9, "{} after {}", faster.max_fee, stuck.max_fee);
    writer.send(&faster).await.unwrap();
    world.anvil.mine(1);
    assert!(matches!(
        writer.state(&faster).await,
        Ok(TransactionState::Included { succeeded: true, index: Some(1), .. })
    ));
    assert_eq!(writer.state(&stuck).await, Ok(TransactionState::Unknown), "not deep enough to be called dead");
    writer.send(&stuck).await.unwrap();
    world.anvil.mine(CONFIRMATIONS);
    let dead = writer.state(&stuck).await.unwrap();
    assert!(matches!(dead, TransactionState::Dead { .. }), "{dead:?}");
    assert!(
        matches!(writer.state(&faster).await, Ok(TransactionState::Included { confirmations, .. }) if confirmations > CONFIRMATIONS)
    );
    assert_eq!(world.attested(0), [(8_000, false)]);
}

#[tokio::test]
async fn a_nonce_taken_by_another_program_is_told_and_another_one_used() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    let (writer, attestation) = (Writer::Evm(world.writer()), world.attestation(0, 8_000));
    let prepared = writer.prepare(&attestation, None, None).await.unwrap();
    world.anvil.ask(
        "eth_sendTransaction",
        json!([{"from": world.attester_account(), "to": world.account(1), "value": "0x1"}]),
    );
    world.anvil.mine(1);
    writer.send(&prepared).await.unwrap();
    assert_eq!(
        writer.state(&prepared).await,
        Ok(TransactionState::Unknown),
        "it could come back with a reorganisation"
    );
    world.anvil.mine(CONFIRMATIONS);
    let dead = writer.state(&prepared).await.unwrap();
    assert!(matches!(dead, TransactionState::Dead { .. }), "{dead:?}");
    assert_eq!(writer.find(&attestation).await, Ok(None));
    let again = writer.prepare(&attestation, None, None).await.unwrap();
    assert_eq!(again.nonce, Some(1));
    writer.send(&again).await.unwrap();
    settled(&writer, &again).await;
    assert_eq!(world.attested(0), [(8_000, false)]);
}

#[tokio::test]
async fn a_request_to_validate_is_answered() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    let attestation = world.attestation(0, 8_750);
    assert_eq!(world.writer().validation_requests(&attestation).await, Ok(vec![]));
    let registry = world.anvil.deploy("ValidationRegistry", "").parse().unwrap();
    world.chain.validation = Some(registry);
    let ask = |agent: u64, request_hash: B256| validationRequestCall {
        validator: attester().address(),
        agentId: U256::from(agent),
        requestURI: String::new(),
        requestHash: request_hash,
    };
    let request = keccak256("please");
    world.call(1, registry, ask(0, request));
    world.call(1, registry, ask(3, keccak256("another agent")));
    let writer = world.writer();
    let open = writer.validation_requests(&attestation).await.unwrap();
    assert_eq!(open, [alloy_primitives::hex::encode(request)]);
    let prepared = writer.prepare_validation(&open[0], &attestation, None).await.unwrap();
    writer.send(&prepared).await.unwrap();
    let writer = Writer::Evm(writer);
    let state = settled(&writer, &prepared).await;
    assert!(matches!(state, TransactionState::Included { succeeded: true, index: None, .. }), "{state:?}");
    assert_eq!(world.writer().validation_requests(&attestation).await, Ok(vec![]));
    assert_eq!(
        world.writer().prepare_validation(&"0".repeat(64), &attestation, None).await.unwrap_err().reason(),
        "reverted"
    );
}

#[tokio::test]
async fn the_key_is_in_no_text() {
    let Some(world) = World::start() else { return };
    let writer = Writer::Evm(world.writer());
    let shown = format!("{writer:?}");
    assert!(shown.contains("address") && !shown.contains("365820b3"), "{shown}");
    let attestation = world.attestation(9, 8_000);
    let error = writer.prepare(&attestation, None, None).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("365820b3"));
}
