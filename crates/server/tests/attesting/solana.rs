//! The same outbox on Solana: no nonces, blockhashes that expire, blocks that are final or gone. And the registry as a crawled source.

use std::sync::Arc;

use credence_chain::solana::Pubkey;
use credence_pipeline::{NewSource, attestations::AttestationState as State, query};
use credence_protocol::SecretKey;
use credence_server::{
    attesting::Next,
    crawl::{ChainSource, CrawlSettings, Installed, Runner, Selection},
};
use tokio::sync::watch;

use crate::{
    house::{House, id},
    node::Node,
    solana_world::{World, address, atom_stats},
    world::now,
};

/// Past the last block height of what was signed, at the finalized commitment.
const EXPIRES: u64 = 250;
const FINAL: u64 = 40;
const PARTS: usize = 3;
/// Sent, confirmed, final.
const STEPS: usize = 3;

async fn house(agents: u64) -> House<World> {
    House::on(World::start().await, agents).unwrap()
}

fn advance(house: &House<World>, slots: u64) {
    house.world.cluster.ledger().advance(slots);
}

#[tokio::test]
async fn a_process_that_dies_between_any_two_parts_of_any_step_writes_once() {
    let mut house = house((PARTS * STEPS) as u64).await;
    for agent in 0..PARTS * STEPS {
        let (dies_in, part, n) = (agent / PARTS, agent % PARTS, agent as u64);
        let attestation = house.intend(n).await;
        for _ in 0..dies_in {
            house.attester().step(attestation).await.unwrap();
            advance(&house, FINAL);
        }
        let attester = house.attester();
        let look = attester.look(attestation).await.unwrap();
        assert!(matches!(look.next, Next::Record(..)), "{dies_in} {part}: {look:?}");
        if part > 0 {
            assert!(attester.record(&look).await.unwrap());
        }
        if part > 1 {
            attester.send(&look).await.unwrap();
        }
        drop(attester);
        house.finish(attestation, true).await;
        house.assert_one(n, attestation);
    }
}

#[tokio::test]
async fn what_expires_unsent_is_signed_again_and_what_was_sent_is_not() {
    let mut house = house(3).await;
    // Recorded and not sent, until its blockhash is too old: it can never be included, so another is signed.
    let never = house.intend(0).await;
    let attester = house.attester();
    let look = attester.look(never).await.unwrap();
    assert!(attester.record(&look).await.unwrap());
    drop(attester);
    advance(&house, EXPIRES);
    house.finish(never, true).await;
    assert_eq!(house.steps(never), ["intent", "sent", "sent", "confirmed", "final"]);
    house.assert_one(0, never);

    // Included while nobody looked: past the same height it is found, not sent again.
    let found = house.intend(1).await;
    house.attester().step(found).await.unwrap();
    advance(&house, EXPIRES);
    house.finish(found, true).await;
    assert_eq!(house.row(found).transactions.len(), 1);
    house.assert_one(1, found);

    // A node that forgot it gets the same bytes again.
    let forgotten = house.intend(2).await;
    house.attester().step(forgotten).await.unwrap();
    house.world.cluster.ledger().pool.clear();
    house.finish(forgotten, true).await;
    assert_eq!(house.row(forgotten).transactions.len(), 1);
    house.assert_one(2, forgotten);
}

#[tokio::test]
async fn a_block_on_a_dropped_fork_leaves_one() {
    let mut house = house(1).await;
    let attestation = house.intend(0).await;
    house.attester().step(attestation).await.unwrap();
    advance(&house, 2);
    house.attester().step(attestation).await.unwrap();
    assert_eq!(house.state(attestation), State::Confirmed);
    {
        let mut ledger = house.world.cluster.ledger();
        ledger.landed.pop();
        ledger.feedback.clear();
    }
    house.attester().step(attestation).await.unwrap();
    assert_eq!(house.steps(attestation)[3], "reorganised");
    house.finish(attestation, true).await;
    assert_eq!(house.row(attestation).transactions.len(), 1, "the same bytes again");
    house.assert_one(0, attestation);
}

#[tokio::test]
async fn a_fee_is_quoted_and_what_fails_or_is_withdrawn_is_not_left_standing() {
    let mut house = house(2).await;
    let attester = house.attester();
    let draft = attester.draft(&id("bot0"), &house.world.chain_id(), None, false).await.unwrap();
    let quote = attester.check_fee(attester.chain(&house.world.chain_id()).unwrap(), &draft).await.unwrap();
    assert_eq!((quote.max_fee, quote.balance, quote.unit), (5_000, 1_000_000_000, "lamports"));
    assert!(house.world.cluster.ledger().landed.is_empty());
    drop(attester);

    let written = house.intend(0).await;
    house.finish(written, true).await;
    house.assert_one(0, written);
    house.authority().set_standing(id("bot0"), true, None).unwrap();
    house.finish(written, true).await;
    assert_eq!(house.state(written), State::Revoked);
    assert_eq!(house.world.written(0), [(house.score(0), true)]);

    // The wallet is empty: nothing is signed, and nothing was paid.
    house.world.cluster.ledger().balances.clear();
    let poor = house.intend(1).await;
    assert!(house.attester().step(poor).await.unwrap_err().to_string().contains("895880"));
    assert_eq!(house.steps(poor), ["intent"]);
    house.assert_sound();
}

#[tokio::test]
async fn a_registration_on_solana_is_read_by_the_crawler() {
    let house = house(0).await;
    let (world, authority) = (&house.world, house.authority());
    world.cluster.ledger().now = now();
    // The agent of the library's tests, which has statistics.
    let agent = id("rated");
    house.add_agent_with("rated", &crate::solana_world::subject());
    let source = ChainSource::solana(world.reader()).unwrap();
    let (name, key) = (source.id().clone(), SecretKey::from_seed(&[8; 32]));
    assert!(name.as_str().starts_with("chain-solana-"), "{name}");
    let registered =
        NewSource { roots: vec![source.root().clone()], ..NewSource::new(name.clone(), ChainSource::WEIGHT) };
    authority.add_source(registered).unwrap();
    authority.add_key(&key.public(), name.clone()).unwrap();
    let clock =
        Arc::new(|| credence_protocol::Timestamp::from_micros(i64::try_from(now()).unwrap() * 1_000_000).unwrap());
    // Proofs of links are looked for where nobody listens, and stay as they are.
    let mirror = Some("http://127.0.0.1:1/".parse().unwrap());
    let settings =
        CrawlSettings { contact: None, mirror, secrets: Arc::new(|_| None), clock, registries: Arc::default() };
    let runner = Runner::new(authority.clone(), vec![Installed::chain(source, key)], &settings).unwrap();
    let everything = Selection { now: true, source: Some(name), ..Selection::default() };
    let read = async || runner.run(&everything, &watch::channel(false).1, &mut |_| {}).await.unwrap();
    let totals = read().await;
    assert_eq!((totals.asked, totals.signals, totals.nothing), (1, 1, 0));
    let rows = query::registrations_of(&*authority.ledger().view().unwrap(), &agent).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].1.registration().unwrap().owner, Some(Pubkey([11; 32]).to_string()));
    // The same again is no news; other statistics are.
    assert_eq!(read().await.signals, 0);
    world.cluster.ledger().accounts.insert(address("stats"), (world.chain.atom, atom_stats(3_000, 6_500, 60)));
    assert_eq!(read().await.signals, 1);
    // Statistics of somebody else's program, or out of range, are no signal.
    world.cluster.ledger().accounts.insert(address("stats"), (world.chain.registry, atom_stats(9_000, 6_500, 61)));
    let lied = read().await;
    assert_eq!((lied.signals, lied.nothing), (0, 1));
}
