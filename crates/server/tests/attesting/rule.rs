//! Scores that are written by rule: where they moved, once a day, and never unless it is switched on.

use credence_chain::attest::Writer;
use credence_pipeline::{Authority, attestations::AttestationState as State, query};
use credence_server::attesting::{Attester, AttestingChain};

use crate::house::{House, chain, id};

fn by_rule(house: &House) -> Attester<Authority> {
    let chain = AttestingChain { by_rule: true, ..chain(Writer::Evm(house.world.writer())) };
    house.attester_of(house.authority(), chain)
}

/// Rounds with blocks between them.
async fn rounds(house: &House, attester: &Attester<Authority>) -> usize {
    for _ in 0..10 {
        attester.round().await.unwrap();
        house.world.anvil.mine(1);
    }
    let authority = house.authority();
    let rows = query::attestations_of(&*authority.ledger().view().unwrap(), Some(&id("bot0")), 100).unwrap();
    assert!(rows.iter().all(|(_, row)| row.state == State::Final), "{rows:?}");
    rows.len()
}

#[tokio::test]
async fn scores_are_written_where_they_moved_and_once_a_day() {
    let Some(house) = House::with_agents(1) else { return };
    let silent = house.attester();
    assert_eq!(rounds(&house, &silent).await, 0, "the rule is off");
    drop(silent);
    let attester = by_rule(&house);
    assert_eq!(rounds(&house, &attester).await, 1, "never written before");
    house.advance(3601);
    assert_eq!(rounds(&house, &attester).await, 1, "nothing moved");
    let before = house.score(0);
    house.measure("bot0", 50.0);
    assert!(before - house.score(0) >= 3, "{before} {}", house.score(0));
    house.advance(3601);
    assert_eq!(rounds(&house, &attester).await, 1, "once a day");
    house.advance(86_400);
    assert_eq!(rounds(&house, &attester).await, 2);
    assert_eq!(house.world.attested(0), [(before, false), (house.score(0), false)]);
    house.advance(2 * 86_400);
    let now = house.score(0);
    assert_eq!(rounds(&house, &attester).await, 2, "{now}");
    drop(attester);
    house.assert_sound();
}
