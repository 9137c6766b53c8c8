//! Requests of a validation registry, answered by the runner on a real node.

use alloy_primitives::{Address, B256, U256, hex, keccak256};
use alloy_sol_types::{SolCall, sol};
use credence_pipeline::attestations::{AttestationState as State, MAX_ANSWERS};
use serde_json::json;

use crate::{
    house::House,
    world::{attester, validationRequestCall},
};

sol! {
    function getValidationStatus(bytes32 requestHash) external view returns (
        address validatorAddress, uint256 agentId, uint8 response, bytes32 responseHash, string tag, uint256 lastUpdate
    );
}

const CHAIN: &str = "eip155:31337";
/// `ValidationResponse(address,uint256,bytes32,uint8,string,bytes32,string)`
const RESPONSE: &str = "0xafddf629e874ccc3963b6a888c477bd464a6c8525024fc88759ea3b2326349ae";

/// Asks to have an agent validated.
fn ask(house: &House, registry: Address, agent: u64, text: &str) -> B256 {
    let request = keccak256(text);
    let call = validationRequestCall {
        validator: attester().address(),
        agentId: U256::from(agent),
        requestURI: String::new(),
        requestHash: request,
    };
    house.world.call(1, registry, call);
    request
}

/// Answers to a request on the chain, and the score and document of the newest.
fn answered(house: &House, registry: Address, request: B256) -> (usize, u8, String) {
    let anvil = &house.world.anvil;
    let filter = json!([{"address": registry, "fromBlock": "0x0", "topics": [RESPONSE, null, null, request]}]);
    let answers = anvil.ask("eth_getLogs", filter).as_array().unwrap().len();
    let data = hex::encode_prefixed(getValidationStatusCall { requestHash: request }.abi_encode());
    let answer = anvil.ask("eth_call", json!([{"to": registry, "data": data}, "latest"]));
    let status = getValidationStatusCall::abi_decode_returns(&hex::decode(answer.as_str().unwrap()).unwrap()).unwrap();
    (answers, status.response, hex::encode(status.responseHash))
}

#[tokio::test]
async fn requests_are_answered_once_also_by_processes_that_die() {
    let Some(mut house) = House::with_agents(2) else { return };
    let registry: Address = house.world.anvil.deploy("ValidationRegistry", "").parse().unwrap();
    house.world.chain.validation = Some(registry);
    let early = ask(&house, registry, 0, "before there is an attestation");
    house.attester().answer_requests(CHAIN).await.unwrap();
    let attestation = house.intend(0).await;
    house.finish(attestation, false).await;
    let other = ask(&house, registry, 1, "an agent that was never attested");

    // Signed and not recorded; recorded and not sent; sent by the next process.
    house.attester().look(attestation).await.unwrap();
    house.restart();
    let attester = house.attester();
    let look = attester.look(attestation).await.unwrap();
    assert!(attester.record(&look).await.unwrap());
    drop(attester);
    assert_eq!((house.state(attestation), answered(&house, registry, early).0), (State::ValidationSent, 0));
    house.finish(attestation, true).await;
    let (score, document) = (u8::try_from(house.score(0)).unwrap(), house.row(attestation).hash);
    assert_eq!(answered(&house, registry, early), (1, score, document.clone()));
    assert_eq!(house.steps(attestation)[4..], ["validation_sent", "validated"]);
    house.assert_one(0, attestation);

    // By the runner's own round, until as many are answered as one attestation answers.
    let more: Vec<B256> = (0..MAX_ANSWERS).map(|n| ask(&house, registry, 0, &format!("more {n}"))).collect();
    for _ in 0..MAX_ANSWERS + 1 {
        house.attester().answer_requests(CHAIN).await.unwrap();
        house.finish(attestation, true).await;
    }
    let answers: Vec<usize> = more.iter().map(|request| answered(&house, registry, *request).0).collect();
    assert_eq!(answers, [1, 1, 0]);
    assert_eq!(answered(&house, registry, other).0, 0);
    assert_eq!(answered(&house, registry, early).0, 1, "an answer that stands is not given again");
    house.assert_sound();

    // What is withdrawn is taken back and answers nothing.
    house.authority().set_standing(crate::house::id("bot0"), true, None).unwrap();
    house.finish(attestation, true).await;
    assert_eq!(house.state(attestation), State::Revoked);
    house.attester().answer_requests(CHAIN).await.unwrap();
    assert_eq!(answered(&house, registry, more[2]).0, 0);
}
