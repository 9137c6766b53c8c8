//! A node with the registries, and everything that tests do to them.

use std::{
    fs,
    num::NonZeroU32,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use alloy_primitives::{Address, B256, U256, hex, keccak256};
use alloy_sol_types::{SolCall, sol};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::IntoResponse,
};
use credence_chain::{
    attest::Attestation,
    evm::{EvmChain, EvmKey, EvmReader, EvmWriter, FeePolicy, Rpc},
};
use credence_egress::{Egress, Rate, Settings};
use credence_protocol::ExternalSubject;
use credence_testing::Anvil;
use serde_json::{Value, json};

sol! {
    function register(string agentURI) external returns (uint256);
    function registerMany(string[] agentURIs) external;
    function setAgentURI(uint256 agentId, string newURI) external;
    function transferFrom(address from, address to, uint256 agentId) external;
    function giveFeedback(uint256 agentId, int128 value, uint8 valueDecimals, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash) external;
    function revokeFeedback(uint256 agentId, uint64 feedbackIndex) external;
    function seed(uint256 agentId, address first, uint160 count, int128 value, uint8 valueDecimals, string tag1) external;
    function pause(bool on) external;
    function readAllFeedback(uint256 agentId, address[] clientAddresses, string tag1, string tag2, bool includeRevoked) external view
        returns (address[] clients, uint64[] indexes, int128[] values, uint8[] decimals, string[] tag1s, string[] tag2s, bool[] revoked);
    function validationRequest(address validator, uint256 agentId, string requestURI, bytes32 requestHash) external;
    function pay(address from, address to, uint256 value) external;
}

/// The account of the tests that attests, and its key: number 63 of the mnemonic that every development node uses.
const ATTESTER: usize = 63;
const ATTESTER_KEY: &str = "0x365820b3376c77dab008476d49f7cd7af87fc7bbd57dc490378106c3353b2b33\n";

pub const GWEI: u128 = 1_000_000_000;
/// Blocks that make a fact in these tests.
pub const CONFIRMATIONS: u64 = 4;

/// Everyone on this machine is proven, nobody else.
pub fn local(host: &str) -> bool {
    host.starts_with("127.0.0.1")
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub fn egress() -> Egress {
    let many = NonZeroU32::new(100_000).unwrap();
    let rate = Rate { per_second: many, burst: many };
    Egress::new(Settings { loopback: true, rate, ..Settings::for_purpose("test") }).unwrap()
}

pub struct World {
    pub anvil: Anvil,
    pub chain: EvmChain,
}

impl World {
    /// A node with both registries; `None` where none is installed.
    pub fn start() -> Option<Self> {
        Self::with(&[])
    }

    pub fn with(options: &[&str]) -> Option<Self> {
        let anvil = Anvil::start(options)?;
        let (identity, reputation) = anvil.deploy_registries();
        let chain = EvmChain {
            identity: identity.parse().unwrap(),
            reputation: reputation.parse().unwrap(),
            confirmations: CONFIRMATIONS,
            ..EvmChain::new(31_337)
        };
        Some(Self { anvil, chain })
    }

    pub fn subject(&self, agent: u64) -> ExternalSubject {
        ExternalSubject::parse(&format!("erc8004:eip155:31337:{:#x}/{agent}", self.chain.identity)).unwrap()
    }

    pub fn account(&self, n: usize) -> &str {
        &self.anvil.accounts()[n]
    }

    pub fn address(&self, n: usize) -> Address {
        self.account(n).parse().unwrap()
    }

    pub fn call(&self, from: usize, to: Address, call: impl SolCall) -> Value {
        self.anvil.transact(self.account(from), &to.to_string(), &hex::encode_prefixed(call.abi_encode()))
    }

    pub fn register(&self, owner: usize, uri: &str) -> Value {
        self.call(owner, self.chain.identity, registerCall { agentURI: uri.into() })
    }

    pub fn rate(&self, client: usize, agent: u64, value: i128, decimals: u8, tag1: &str, tag2: &str) {
        self.rate_with_file(client, agent, (value, decimals), [tag1, tag2], "", B256::ZERO);
    }

    pub fn rate_with_file(&self, client: usize, agent: u64, value: (i128, u8), tags: [&str; 2], uri: &str, hash: B256) {
        let call = giveFeedbackCall {
            agentId: U256::from(agent),
            value: value.0,
            valueDecimals: value.1,
            tag1: tags[0].into(),
            tag2: tags[1].into(),
            endpoint: String::new(),
            feedbackURI: uri.into(),
            feedbackHash: hash,
        };
        self.call(client, self.chain.reputation, call);
    }

    pub fn revoke(&self, client: usize, agent: u64, index: u64) {
        self.call(
            client,
            self.chain.reputation,
            revokeFeedbackCall { agentId: U256::from(agent), feedbackIndex: index },
        );
    }

    /// Makes everything so far final.
    pub fn settle(&self) {
        self.anvil.mine(3);
    }

    pub fn reader(&self) -> EvmReader {
        self.reader_at(self.anvil.url())
    }

    pub fn reader_at(&self, url: &str) -> EvmReader {
        EvmReader::new(Rpc::new(egress(), url.parse().unwrap(), None), self.chain.clone())
    }

    pub fn writer(&self) -> EvmWriter {
        self.writer_with(self.anvil.url(), FeePolicy { max_fee_per_gas: 100 * GWEI, ..FeePolicy::default() })
    }

    pub fn writer_with(&self, url: &str, fees: FeePolicy) -> EvmWriter {
        EvmWriter::new(Rpc::new(egress(), url.parse().unwrap(), None), self.chain.clone(), attester(), fees)
    }

    pub fn attester_account(&self) -> &str {
        self.account(ATTESTER)
    }

    pub fn attestation(&self, agent: u64, value: i64) -> Attestation {
        Attestation {
            subject: self.subject(agent),
            value,
            decimals: 2,
            tag1: "credence".into(),
            tag2: "uts/2".into(),
            endpoint: String::new(),
            uri: format!("https://authority.example/attestations/{agent}-{value}"),
            document: hex::encode(keccak256(format!("document {agent} {value}"))),
        }
    }

    /// Our feedback on the chain now, revoked or not: value and whether it is revoked.
    pub fn attested(&self, agent: u64) -> Vec<(i128, bool)> {
        let call = readAllFeedbackCall {
            agentId: U256::from(agent),
            clientAddresses: vec![attester().address()],
            tag1: String::new(),
            tag2: String::new(),
            includeRevoked: true,
        };
        let data = hex::encode_prefixed(call.abi_encode());
        let answer = self.anvil.ask("eth_call", json!([{"to": self.chain.reputation, "data": data}, "latest"]));
        let read = readAllFeedbackCall::abi_decode_returns(&hex::decode(answer.as_str().unwrap()).unwrap()).unwrap();
        read.values.into_iter().zip(read.revoked).collect()
    }
}

pub fn attester() -> EvmKey {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, ATTESTER_KEY).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    EvmKey::from_file(&path).unwrap()
}

/// What a meddler makes of a request and the node's answer: another answer, and the status it comes with.
pub type Meddle = dyn Fn(&Value, Value) -> (StatusCode, Value) + Send + Sync;

/// A node that is not what it says: it stands before the real one and changes its answers.
pub struct Meddler {
    pub url: String,
    pub requests: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Between {
    forward: Arc<dyn Fn(String) -> Value + Send + Sync>,
    meddle: Arc<Meddle>,
    requests: Arc<AtomicUsize>,
}

impl Meddler {
    pub async fn start(
        anvil: &Anvil,
        meddle: impl Fn(&Value, Value) -> (StatusCode, Value) + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let forward = std::sync::Mutex::new(anvil.forwarder());
        let between = Between {
            forward: Arc::new(move |body| (forward.lock().unwrap())(body)),
            meddle: Arc::new(meddle),
            requests: Arc::clone(&requests),
        };
        let router = Router::new().fallback(answer).with_state(between);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, requests }
    }
}

async fn answer(State(between): State<Between>, body: Bytes) -> impl IntoResponse {
    between.requests.fetch_add(1, Ordering::SeqCst);
    let text = String::from_utf8(body.to_vec()).unwrap();
    let request: Value = serde_json::from_str(&text).unwrap();
    let forward = Arc::clone(&between.forward);
    let answer = tokio::task::spawn_blocking(move || forward(text)).await.unwrap();
    let (status, answer) = (between.meddle)(&request, answer);
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    if status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert("retry-after", HeaderValue::from_static("7"));
    }
    (status, headers, answer.to_string())
}
