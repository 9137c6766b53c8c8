//! A real EVM node on this machine (npm `@foundry-rs/anvil`), and the test contracts of `crates/chain/testdata`.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};

use crate::{eventually, installed, project_root};

/// Accounts that the node has keys for, each with 10,000 coins.
const ACCOUNTS: usize = 64;

type Question = (String, mpsc::Sender<Value>);

/// A node with a chain of its own. It ends when this is dropped.
pub struct Anvil {
    child: Child,
    url: String,
    /// Requests go through a thread: its client waits, which asynchronous tests must not.
    questions: mpsc::Sender<Question>,
    accounts: Vec<String>,
}

impl Anvil {
    /// Where `scripts/peers` has put the node and its companions; `None`, visibly, where it was not run.
    pub fn installed() -> Option<PathBuf> {
        installed("evm")
    }

    /// Starts a node, with options such as `--chain-id`; `None` where it is not installed. The two newest blocks are not final.
    pub fn start(options: &[&str]) -> Option<Self> {
        let modules = Self::installed()?.join("node_modules/@foundry-rs");
        let folders = fs::read_dir(modules).unwrap().map(|folder| folder.unwrap().path());
        let program = folders.map(|folder| folder.join("bin/anvil")).find(|program| program.is_file());
        let program = program.expect("npm installs a binary for this system");
        let accounts = ACCOUNTS.to_string();
        let mut child = Command::new(program)
            .args(["--port", "0", "--slots-in-an-epoch", "1", "--accounts", &accounts, "--gas-limit", "3000000000"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            line.unwrap().strip_prefix("Listening on ").map(|address| format!("http://{}/", address.trim()))
        });
        // It blocks when nobody reads what it prints.
        thread::spawn(move || lines.for_each(drop));
        let url = url.expect("anvil says where it listens");
        let questions = ask_on_a_thread(url.clone());
        let mut node = Self { child, url, questions, accounts: Vec::new() };
        node.accounts = serde_json::from_value(node.ask("eth_accounts", json!([]))).unwrap();
        Some(node)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The accounts it has keys for.
    pub fn accounts(&self) -> &[String] {
        &self.accounts
    }

    /// Sends any JSON-RPC request, and returns the whole answer.
    pub fn forward(&self, body: String) -> Value {
        let (answer, answered) = mpsc::channel();
        self.questions.send((body, answer)).unwrap();
        answered.recv().unwrap()
    }

    /// Something that forwards requests and can be sent to another thread.
    pub fn forwarder(&self) -> impl Fn(String) -> Value + Send + Clone + 'static {
        let questions = self.questions.clone();
        move |body| {
            let (answer, answered) = mpsc::channel();
            questions.send((body, answer)).unwrap();
            answered.recv().unwrap()
        }
    }

    /// Asks, and fails on an error.
    pub fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.forward(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a transaction from an account of the node's, and returns its hash.
    pub fn send(&self, from: &str, to: &str, data: &str) -> String {
        let transaction = json!([{"from": from, "to": to, "data": data, "gas": "0x5f5e1000"}]);
        self.ask("eth_sendTransaction", transaction).as_str().unwrap().to_owned()
    }

    /// The same, and fails unless it succeeded. Returns the receipt.
    pub fn transact(&self, from: &str, to: &str, data: &str) -> Value {
        let receipt = self.receipt(&json!(self.send(from, to, data)));
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        receipt
    }

    /// Waits until a transaction is in a block, which is a moment after it was sent.
    fn receipt(&self, hash: &Value) -> Value {
        eventually("a block", || {
            Some(self.ask("eth_getTransactionReceipt", json!([hash]))).filter(|receipt| !receipt.is_null())
        })
    }

    /// Deploys a contract of `Registries.sol`, with encoded arguments of its constructor. Returns its address in lower case.
    pub fn deploy(&self, name: &str, arguments: &str) -> String {
        let compiled = fs::read(project_root().join("crates/chain/testdata/contracts.json")).unwrap();
        let compiled: Value = serde_json::from_slice(&compiled).unwrap();
        let code = compiled["contracts"][name]["bytecode"].as_str().unwrap();
        let data = format!("{code}{arguments}");
        let transaction = json!([{"from": self.accounts[0], "data": data}]);
        let hash = self.ask("eth_sendTransaction", transaction);
        self.receipt(&hash)["contractAddress"].as_str().unwrap().to_ascii_lowercase()
    }

    /// The identity and the reputation registry, in lower case.
    pub fn deploy_registries(&self) -> (String, String) {
        let identity = self.deploy("IdentityRegistry", "");
        let reputation = self.deploy("ReputationRegistry", &format!("{:0>64}", &identity[2..]));
        (identity, reputation)
    }

    /// Mines blocks.
    pub fn mine(&self, blocks: u64) {
        self.ask("anvil_mine", json!([format!("{blocks:#x}")]));
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask_on_a_thread(url: String) -> mpsc::Sender<Question> {
    let (questions, asked) = mpsc::channel::<Question>();
    thread::spawn(move || {
        let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
        for (body, answer) in asked {
            let sent = client.post(&url).header("content-type", "application/json").body(body).send();
            let text = sent.unwrap().text().unwrap();
            let _ = answer.send(serde_json::from_str(&text).unwrap());
        }
    });
    questions
}
