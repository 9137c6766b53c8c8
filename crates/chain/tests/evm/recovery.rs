//! Exactly one attestation, whatever happens: crashes between every two steps, reorganisations, a node that forgets.

use credence_chain::{
    attest::{Attestation, Prepared, TransactionState, Writer},
    evm::{EvmWriter, FeePolicy},
};
use serde_json::json;

use crate::world::{CONFIRMATIONS, World, local, now};

/// What survives a crash.
#[derive(Default)]
struct Outbox {
    kept: Option<String>,
}

/// Where the process dies.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Crash {
    Nowhere,
    BeforeKeeping,
    BeforeSending,
    AfterSending,
}

impl Outbox {
    /// One round of a service that keeps what it signed before it sends it: look, sign, keep, send. True when it is done.
    async fn round(&mut self, writer: &EvmWriter, attestation: &Attestation, crash: Crash) -> bool {
        let kept: Option<Prepared> = self.kept.as_deref().map(|kept| serde_json::from_str(kept).unwrap());
        if let Some(prepared) = kept {
            match writer.state(&prepared).await.unwrap() {
                TransactionState::Included { confirmations, succeeded, .. } => {
                    return succeeded && confirmations >= CONFIRMATIONS;
                }
                TransactionState::Pending => return false,
                TransactionState::Unknown => {
                    writer.send(&prepared).await.unwrap();
                    return false;
                }
                TransactionState::Dead { .. } => {}
            }
        }
        if writer.find(attestation).await.unwrap().is_some() {
            return true;
        }
        let prepared = writer.prepare(attestation, None, None).await.unwrap();
        if crash == Crash::BeforeKeeping {
            return false;
        }
        self.kept = Some(serde_json::to_string(&prepared).unwrap());
        if crash == Crash::BeforeSending {
            return false;
        }
        writer.send(&prepared).await.unwrap();
        if crash == Crash::AfterSending {
            return false;
        }
        false
    }

    async fn finish(&mut self, world: &World, attestation: &Attestation) {
        for _ in 0..30 {
            // Each time a new process.
            if self.round(&world.writer(), attestation, Crash::Nowhere).await {
                return;
            }
            world.anvil.mine(1);
        }
        panic!("the attestation does not arrive");
    }
}

#[tokio::test]
async fn a_crash_between_any_two_steps_writes_once() {
    let Some(world) = World::start() else { return };
    for (agent, crash) in
        [Crash::Nowhere, Crash::BeforeKeeping, Crash::BeforeSending, Crash::AfterSending].into_iter().enumerate()
    {
        let agent = agent as u64;
        world.register(0, "");
        let attestation = world.attestation(agent, 7_000);
        let mut outbox = Outbox::default();
        outbox.round(&world.writer(), &attestation, crash).await;
        outbox.round(&world.writer(), &attestation, Crash::Nowhere).await;
        outbox.finish(&world, &attestation).await;
        assert_eq!(world.attested(agent), [(7_000, false)], "{crash:?}");
        // Even an outbox that was lost finds it.
        Outbox::default().finish(&world, &attestation).await;
        assert_eq!(world.attested(agent), [(7_000, false)], "{crash:?}");
    }
}

#[tokio::test]
async fn a_reorganisation_of_three_blocks_leaves_one() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    world.settle();
    let attestation = world.attestation(0, 7_000);
    let mut outbox = Outbox::default();
    outbox.round(&world.writer(), &attestation, Crash::Nowhere).await;
    world.anvil.mine(2);
    assert_eq!(world.attested(0).len(), 1);
    let prepared: Prepared = serde_json::from_str(outbox.kept.as_deref().unwrap()).unwrap();
    let writer = world.writer();
    let TransactionState::Included { block_hash: before, .. } = writer.state(&prepared).await.unwrap() else {
        panic!("not included")
    };
    // The three newest blocks become three empty ones.
    world.anvil.ask("anvil_reorg", json!([3, []]));
    let after = writer.state(&prepared).await.unwrap();
    assert!(!matches!(&after, TransactionState::Included { block_hash, .. } if *block_hash == before), "{after:?}");
    outbox.finish(&world, &attestation).await;
    assert_eq!(world.attested(0), [(7_000, false)]);
}

#[tokio::test]
async fn a_node_that_forgets_its_pool_and_its_newest_blocks_gets_it_again() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    let attestation = world.attestation(0, 7_000);
    let mut outbox = Outbox::default();
    world.anvil.ask("evm_setAutomine", json!([false]));
    outbox.round(&world.writer(), &attestation, Crash::Nowhere).await;
    world.anvil.ask("anvil_dropAllTransactions", json!([]));
    let prepared: Prepared = serde_json::from_str(outbox.kept.as_deref().unwrap()).unwrap();
    assert_eq!(world.writer().state(&prepared).await, Ok(TransactionState::Unknown));
    let snapshot = world.anvil.ask("evm_snapshot", json!([]));
    outbox.round(&world.writer(), &attestation, Crash::Nowhere).await;
    world.anvil.mine(3);
    assert_eq!(world.attested(0).len(), 1);
    world.anvil.ask("evm_revert", json!([snapshot]));
    world.anvil.ask("anvil_dropAllTransactions", json!([]));
    assert_eq!(world.attested(0).len(), 0);
    outbox.finish(&world, &attestation).await;
    assert_eq!(world.attested(0), [(7_000, false)]);
}

#[tokio::test]
async fn a_restarted_node_goes_on_with_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    let state = state.to_str().unwrap();
    let Some(world) = World::with(&["--state", state, "--preserve-historical-states"]) else { return };
    world.register(0, "");
    world.settle();
    let attestation = world.attestation(0, 7_000);
    let mut outbox = Outbox::default();
    outbox.round(&world.writer(), &attestation, Crash::BeforeSending).await;
    let chain = world.chain.clone();
    let dump = world.anvil.ask("anvil_dumpState", json!([true]));
    drop(world);
    let Some(anvil) = credence_testing::Anvil::start(&[]) else { return };
    anvil.ask("anvil_loadState", json!([dump]));
    let world = World { anvil, chain };
    outbox.finish(&world, &attestation).await;
    assert_eq!(world.attested(0), [(7_000, false)]);
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    reader.read(&world.subject(0), head, None, &local).await.unwrap();
}

#[tokio::test]
async fn a_node_that_knows_a_dearer_transaction_of_the_same_nonce_says_so() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    world.anvil.ask("evm_setAutomine", json!([false]));
    let writer = Writer::Evm(world.writer());
    let cheap = writer.prepare(&world.attestation(0, 7_000), None, None).await.unwrap();
    let dear = writer.prepare(&world.attestation(0, 7_000), None, Some(&cheap)).await.unwrap();
    writer.send(&dear).await.unwrap();
    assert_eq!(writer.send(&cheap).await.unwrap_err().reason(), "underpriced");
    let capped = FeePolicy { max_fee_per_gas: 2_300_000_000, ..FeePolicy::default() };
    let capped = world.writer_with(world.anvil.url(), capped);
    assert_eq!(
        capped.prepare(&world.attestation(0, 7_000), None, Some(&dear)).await.unwrap_err().reason(),
        "fee_above_cap"
    );
}
