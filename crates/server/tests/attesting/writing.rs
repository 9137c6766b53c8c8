//! The usual way, and what can be in it: fees, wallets, stuck transactions, contracts that refuse, revocations.

use alloy_primitives::U256;
use credence_chain::{attest::Writer, evm::FeePolicy};
use credence_output::attestation::{keccak, verify};
use credence_pipeline::{
    Error,
    attestations::{AttestationState as State, AttestationStep as Step, spent},
    query,
};
use credence_server::attesting::{AttestError, AttestingChain, Next};
use serde_json::json;

use crate::{
    house::{House, REPLACE_AFTER, chain, id},
    world::{CONFIRMATIONS, GWEI, pauseCall},
};

#[tokio::test]
async fn a_score_is_written_confirmed_final_and_taken_back() {
    let Some(mut house) = House::with_agents(2) else { return };
    let attestation = house.intend(0).await;
    // The same registration is not attested twice at once.
    let again = house.intend_by(&house.attester(), 0).await.unwrap_err().to_string();
    assert!(again.contains(&attestation.to_string()) && again.contains("intent"), "{again}");
    house.finish(attestation, false).await;
    house.assert_one(0, attestation);
    assert_eq!(house.steps(attestation), ["intent", "sent", "confirmed", "final"]);
    let row = house.row(attestation);
    let inclusion = row.inclusion.clone().unwrap();
    assert_eq!((inclusion.index, &inclusion.transaction), (Some(1), &Some(row.transactions[0].transaction.id.clone())));
    let fee = inclusion.fee.unwrap().0;
    assert!(fee > 0 && fee <= row.transactions[0].transaction.max_fee.0);

    // The document's bytes are those whose hash is on the chain.
    let authority = house.authority();
    let view = authority.ledger().view().unwrap();
    let document = query::attestation_document(&*view, attestation).unwrap().unwrap();
    assert_eq!(keccak(document.as_bytes()), row.hash);
    let keys =
        [query::keys(&*view).unwrap().into_iter().find(|(_, row)| row.source == id("credence")).unwrap().1.public_key];
    let claim = verify(document.as_bytes(), &keys).unwrap();
    assert_eq!(
        (claim.attestation, claim.event, claim.score().map(i128::from)),
        (attestation, row.event, Some(house.score(0)))
    );
    assert_eq!(spent(&*view, "eip155:31337", house.now(), None).unwrap(), fee);
    house.advance(86_401);
    assert_eq!(spent(&*view, "eip155:31337", house.now(), None).unwrap(), 0);
    assert!(query::has_attestation(&*view, &id("bot0")).unwrap());
    assert!(!query::has_attestation(&*view, &id("bot1")).unwrap());
    drop(view);
    drop(authority);

    // Its standing is revoked: what was written is taken back, once.
    house.authority().set_standing(id("bot0"), true, None).unwrap();
    let attester = house.attester();
    for _ in 0..20 {
        attester.round().await.unwrap();
        house.world.anvil.mine(1);
        if house.state(attestation) == State::Revoked {
            break;
        }
    }
    assert_eq!(house.steps(attestation)[4..], ["revocation_sent", "revoked"]);
    assert_eq!(house.world.attested(0), [(house.score(0), true)]);
    attester.round().await.unwrap();
    assert_eq!(house.steps(attestation).len(), 6, "nothing is left to do");
    let refused = house.intend_by(&attester, 0).await.unwrap_err().to_string();
    assert!(refused.contains("standing"), "{refused}");
    house.assert_sound();
}

#[tokio::test]
async fn a_stuck_transaction_is_replaced_and_one_of_them_is_included() {
    let Some(mut house) = House::with_agents(1) else { return };
    house.world.anvil.ask("evm_setAutomine", json!([false]));
    let attestation = house.intend(0).await;
    let attester = house.attester();
    attester.step(attestation).await.unwrap();
    assert_eq!(attester.look(attestation).await.unwrap().next, Next::Wait, "the node holds it");
    for replaced in 1..=3 {
        house.advance(REPLACE_AFTER + 1);
        assert!(attester.step(attestation).await.unwrap());
        assert_eq!(house.steps(attestation).len(), 2 + replaced);
    }
    let row = house.row(attestation);
    let nonces: Vec<_> = row.transactions.iter().map(|sent| sent.transaction.nonce).collect();
    assert_eq!(nonces, [Some(0); 4]);
    // The node forgets them: the newest is sent again.
    house.world.anvil.ask("anvil_dropAllTransactions", json!([]));
    assert!(
        matches!(attester.look(attestation).await.unwrap().next, Next::Send(sent) if sent.id == row.transactions[3].transaction.id)
    );
    drop(attester);
    house.finish(attestation, true).await;
    house.assert_one(0, attestation);
    assert_eq!(house.steps(attestation), ["intent", "sent", "replaced", "replaced", "replaced", "confirmed", "final"]);
}

#[tokio::test]
async fn fees_above_the_cap_and_empty_wallets_wait_and_are_given_up_after_a_day() {
    let Some(mut house) = House::with_agents(1) else { return };
    let attestation = house.intend(0).await;
    house.world.anvil.ask("anvil_setNextBlockBaseFeePerGas", json!([format!("{:#x}", 400 * GWEI)]));
    house.world.anvil.mine(1);
    let before = house.entries();
    let error = house.attester().step(attestation).await.unwrap_err();
    assert!(error.to_string().contains("cap"), "{error}");
    house.world.anvil.ask("anvil_setNextBlockBaseFeePerGas", json!([format!("{GWEI:#x}")]));
    house.world.anvil.mine(1);
    house.world.anvil.ask("anvil_setBalance", json!([house.world.attester_account(), "0x64"]));
    let error = house.attester().step(attestation).await.unwrap_err();
    assert!(error.to_string().contains("send funds"), "{error}");
    assert_eq!((house.entries(), house.world.attested(0)), (before, vec![]), "nothing is half-written");
    // Funds come: it goes on by itself.
    house.world.anvil.ask("anvil_setBalance", json!([house.world.attester_account(), "0xde0b6b3a7640000"]));
    house.finish(attestation, false).await;
    house.assert_one(0, attestation);

    house.measure("bot0", 60.0);
    let late = house.intend(0).await;
    house.advance(86_401);
    house.attester().step(late).await.unwrap();
    assert_eq!((house.state(late), house.world.attested(0).len()), (State::GivenUp, 1));
    house.assert_sound();
}

#[tokio::test]
async fn a_day_costs_no_more_than_its_budget() {
    let Some(mut house) = House::with_agents(2) else { return };
    let first = house.intend(0).await;
    house.finish(first, false).await;
    let cost = house.row(first).inclusion.unwrap().fee.unwrap().0;
    let tight = || AttestingChain { daily_budget: Some(cost + 1), ..chain(Writer::Evm(house.world.writer())) };
    let attester = house.attester_of(house.authority(), tight());
    let draft = attester.draft(&id("bot1"), "eip155:31337", None, true).await.unwrap();
    let refused = attester.check_fee(attester.chain("eip155:31337").unwrap(), &draft).await.unwrap_err();
    assert!(matches!(refused, AttestError::Pipeline(Error::AttestationBudget { .. })), "{refused}");
    let second = draft.attestation;
    attester.intend(draft).await.unwrap();
    let refused = attester.step(second).await.unwrap_err().to_string();
    assert!(refused.contains("daily_budget") && refused.contains(&cost.to_string()), "{refused}");
    assert_eq!((house.state(second), house.world.attested(1)), (State::Intent, vec![]));
    drop(attester);
    house.advance(86_000);
    house.attester().step(second).await.unwrap();
    house.finish(second, false).await;
    house.assert_one(1, second);
}

#[tokio::test]
async fn what_the_contract_refuses_is_given_up_and_what_reverts_is_paid_once() {
    let Some(mut house) = House::with_agents(2) else { return };
    let reputation = house.world.chain.reputation;
    house.world.call(0, reputation, pauseCall { on: true });
    let refused = house.intend(0).await;
    house.attester().step(refused).await.unwrap();
    assert_eq!(house.state(refused), State::GivenUp);
    assert!(house.row(refused).reason.unwrap().contains("registry is paused"));
    house.world.call(0, reputation, pauseCall { on: false });

    // Fine when it was signed, paused when it is included.
    let reverted = house.intend(1).await;
    let attester = house.attester();
    let look = attester.look(reverted).await.unwrap();
    assert!(attester.record(&look).await.unwrap());
    house.world.call(0, reputation, pauseCall { on: true });
    attester.send(&look).await.unwrap();
    drop(attester);
    house.world.anvil.mine(1);
    house.attester().step(reverted).await.unwrap();
    assert_eq!(house.state(reverted), State::Sent, "a short reorganisation could still undo it");
    house.finish(reverted, true).await;
    assert_eq!(house.steps(reverted), ["intent", "sent", "reverted"]);
    assert_eq!(house.row(reverted).transactions.len(), 1, "paid once");
    assert_eq!(house.world.attested(1), []);
    house.assert_sound();
}

#[tokio::test]
async fn a_nonce_taken_by_another_program_is_lost_and_another_one_used() {
    let Some(mut house) = House::with_agents(1) else { return };
    let attestation = house.intend(0).await;
    let attester = house.attester();
    let look = attester.look(attestation).await.unwrap();
    attester.record(&look).await.unwrap();
    let transfer = json!([{"from": house.world.attester_account(), "to": house.world.account(1), "value": "0x1"}]);
    house.world.anvil.ask("eth_sendTransaction", transfer);
    house.world.anvil.mine(1);
    attester.send(&look).await.unwrap();
    assert!(!matches!(attester.look(attestation).await.unwrap().next, Next::Record(..)), "it could come back");
    house.world.anvil.mine(CONFIRMATIONS);
    drop(attester);
    house.finish(attestation, true).await;
    house.assert_one(0, attestation);
    assert_eq!(house.steps(attestation), ["intent", "sent", "sent", "confirmed", "final"]);
}

#[tokio::test]
async fn an_attestation_needs_a_proven_registration_and_a_score() {
    let Some(house) = House::with_agents(1) else { return };
    let attester = house.attester();
    house.authority().add_agent(credence_pipeline::NewAgent::new(id("nobody"))).unwrap();
    let unrated = attester.draft(&id("nobody"), "eip155:31337", None, true).await.unwrap_err().to_string();
    assert!(unrated.contains("no published score"), "{unrated}");
    house.measure("nobody", 80.0);
    let unlinked = attester.draft(&id("nobody"), "eip155:31337", None, true).await.unwrap_err().to_string();
    assert!(unlinked.contains("credence agent link"), "{unlinked}");
    // Another's registration cannot be named either.
    let theirs = house.world.subject(0);
    let draft = attester.draft(&id("nobody"), "eip155:31337", Some(&theirs), true).await.unwrap();
    let refused = attester.intend(draft).await.unwrap_err().to_string();
    assert!(refused.contains("is not proven to be of 'nobody'"), "{refused}");
    let elsewhere = attester.draft(&id("bot0"), "eip155:1", None, true).await.unwrap_err().to_string();
    assert!(elsewhere.contains("[chain.attest]"), "{elsewhere}");
    // A registration that the chain does not have: the contract refuses, and nothing is paid.
    let before = house.world.anvil.ask("eth_getBalance", json!([house.world.attester_account(), "latest"]));
    assert_ne!(before.as_str().unwrap().parse::<U256>().unwrap(), U256::ZERO);
}

#[tokio::test]
async fn a_replacement_beyond_the_cap_leaves_what_was_sent() {
    let Some(mut house) = House::with_agents(1) else { return };
    house.world.anvil.ask("evm_setAutomine", json!([false]));
    let attestation = house.intend(0).await;
    house.attester().step(attestation).await.unwrap();
    house.advance(REPLACE_AFTER + 1);
    let policy = FeePolicy { max_fee_per_gas: 1, ..FeePolicy::default() };
    let url = house.world.anvil.url().to_owned();
    let capped = chain(Writer::Evm(house.world.writer_with(&url, policy)));
    let attester = house.attester_of(house.authority(), capped);
    assert!(!attester.step(attestation).await.unwrap());
    assert_eq!(house.steps(attestation), ["intent", "sent"]);
    drop(attester);
    // A budget that is used up keeps what was sent, too.
    let spent = AttestingChain { daily_budget: Some(1), ..chain(Writer::Evm(house.world.writer())) };
    let attester = house.attester_of(house.authority(), spent);
    assert!(!attester.step(attestation).await.unwrap());
    drop(attester);
    house.finish(attestation, false).await;
    house.assert_one(0, attestation);
    assert!(house.is_at(attestation, Step::Final));
}
