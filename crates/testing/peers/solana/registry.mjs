// The registry's own client and web3.js, for comparison with ours.
//
//   node registry.mjs vectors   writes seals, leaves, chains and program addresses, for crates/chain/testdata/solana.json
//   node registry.mjs           reads a JSON list of [command, request] from standard input, writes the list of answers:
//     give      the unsigned transaction of one feedback
//     revoke    the unsigned transaction of one revocation
//     decode    what web3.js sees in a signed transaction
//     accounts  what the client reads in the two accounts of an agent
//     vectors   the same as above
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The packages are in the working directory, this file is not.
const modules = join(process.cwd(), "node_modules");
const registry = await import(pathToFileURL(join(modules, "8004-solana/dist/index.js")));
const web3 = createRequire(join(modules, "package.json"))("@solana/web3.js");

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const keyOf = (text) => new web3.PublicKey(text);
const filled = (byte) => Buffer.alloc(32, byte);

function vectors() {
  const longest = (text, bytes) => text.repeat(bytes / Buffer.byteLength(text));
  const inputs = [
    { value: 9977n, decimals: 2, score: null, tag1: "uptime", tag2: "day", endpoint: "", uri: "ipfs://QmTest123", file: null },
    { value: 8312n, decimals: 2, score: null, tag1: "credence", tag2: "uts/2", endpoint: "https://agent.example/mcp", uri: "https://authority.example/v1/scores/1", file: filled(7) },
    { value: 0n, decimals: 0, score: 0, tag1: "", tag2: "", endpoint: "", uri: "", file: null },
    { value: -1n, decimals: 18, score: 100, tag1: "tradingYield", tag2: "month", endpoint: "", uri: "", file: filled(0) },
    { value: (1n << 127n) - 1n, decimals: 18, score: 1, tag1: "a", tag2: "b", endpoint: "c", uri: "d", file: filled(255) },
    { value: -(1n << 127n), decimals: 0, score: null, tag1: "x", tag2: "", endpoint: "", uri: "", file: null },
    { value: -9223372036854775808n, decimals: 6, score: 50, tag1: "Größe", tag2: "天気", endpoint: "", uri: "https://例え.example/", file: null },
    { value: 100n, decimals: 0, score: 100, tag1: longest("t", 32), tag2: longest("é", 32), endpoint: longest("e", 250), uri: longest("u", 250), file: filled(1) },
  ];
  const seals = inputs.map((one, index) => {
    const { value, decimals: valueDecimals, score, tag1, tag2, endpoint, uri: feedbackUri, file: feedbackFileHash } = one;
    const seal = registry.computeSealHash({ value, valueDecimals, score, tag1, tag2, endpoint, feedbackUri, feedbackFileHash });
    const [asset, client, responder, response] = [filled(0xaa - index), filled(0xbb - index), filled(0x11 + index), filled(0x22 + index)];
    const [at, slot, before] = [BigInt(index) * 4294967297n, 12345n + BigInt(index), filled(index)];
    const feedback = registry.computeFeedbackLeafV1(asset, client, at, seal, slot);
    const answer = registry.computeResponseLeaf(asset, client, at, responder, response, seal, slot);
    const revoked = registry.computeRevokeLeaf(asset, client, at, seal, slot);
    return {
      value: value.toString(), decimals: valueDecimals, score, tag1, tag2, endpoint, uri: feedbackUri,
      file: feedbackFileHash && hex(feedbackFileHash), seal: hex(seal),
      asset: hex(asset), client: hex(client), responder: hex(responder), response: hex(response),
      index: at.toString(), slot: slot.toString(), before: hex(before),
      feedback_leaf: hex(feedback), response_leaf: hex(answer), revoke_leaf: hex(revoked),
      feedback_chain: hex(registry.chainHash(before, registry.DOMAIN_FEEDBACK, feedback)),
      response_chain: hex(registry.chainHash(before, registry.DOMAIN_RESPONSE, answer)),
      revoke_chain: hex(registry.chainHash(before, registry.DOMAIN_REVOKE, revoked)),
    };
  });
  const clusters = [
    [registry.MAINNET_AGENT_REGISTRY_PROGRAM_ID, registry.MAINNET_ATOM_ENGINE_PROGRAM_ID],
    [registry.DEVNET_AGENT_REGISTRY_PROGRAM_ID, registry.DEVNET_ATOM_ENGINE_PROGRAM_ID],
  ];
  const addresses = clusters.flatMap(([program, atom]) =>
    Array.from({ length: 12 }, (_, byte) => {
      const asset = new web3.PublicKey(filled(byte * 17));
      const derived = {
        agent: registry.PDAHelpers.getAgentPDA(asset, program),
        stats: registry.getAtomStatsPDA(asset, atom),
        config: registry.getAtomConfigPDA(atom),
        authority: registry.PDAHelpers.getAtomCpiAuthorityPDA(program),
      };
      const named = Object.entries(derived).map(([name, [address, bump]]) => [name, [address.toBase58(), bump]]);
      return { registry: program.toBase58(), atom: atom.toBase58(), asset: asset.toBase58(), ...Object.fromEntries(named) };
    }),
  );
  return { seals, addresses };
}

function builder({ url, registry: agentRegistry, atom: atomEngine }) {
  const connection = new web3.Connection(url, "confirmed");
  return new registry.ReputationTransactionBuilder(connection, undefined, undefined, { agentRegistry, atomEngine });
}

function unsigned(built) {
  if (!built.transaction) throw new Error(built.error ?? "no transaction was built");
  const transaction = web3.Transaction.from(Buffer.from(built.transaction, "base64"));
  return { message: hex(transaction.serializeMessage()), index: built.feedbackIndex?.toString() };
}

async function give(asked) {
  const params = {
    value: BigInt(asked.value), valueDecimals: asked.decimals, tag1: asked.tag1, tag2: asked.tag2,
    endpoint: asked.endpoint, feedbackUri: asked.uri, feedbackFileHash: Buffer.from(asked.document, "hex"),
  };
  return unsigned(await builder(asked).giveFeedback(keyOf(asked.asset), params, { skipSend: true, signer: keyOf(asked.signer) }));
}

async function revoke(asked) {
  const seal = Buffer.from(asked.seal, "hex");
  const options = { skipSend: true, signer: keyOf(asked.signer) };
  return unsigned(await builder(asked).revokeFeedback(keyOf(asked.asset), BigInt(asked.index), seal, options));
}

function decode({ raw }) {
  const transaction = web3.Transaction.from(Buffer.from(raw, "base64"));
  return {
    verified: transaction.verifySignatures(),
    payer: transaction.feePayer.toBase58(),
    blockhash: transaction.recentBlockhash,
    signatures: transaction.signatures.length,
    message: hex(transaction.serializeMessage()),
    instructions: transaction.instructions.map(({ programId, keys, data }) => ({
      program: programId.toBase58(),
      data: hex(data),
      accounts: keys.map(({ pubkey, isSigner, isWritable }) => [pubkey.toBase58(), isSigner, isWritable]),
    })),
  };
}

function accounts({ agent, stats }) {
  const registered = registry.AgentAccount.deserialize(Buffer.from(agent, "hex"));
  const { feedback_count, quality_score, risk_score, diversity_ratio, tier_confirmed, confidence, schema_version } =
    registry.AtomStats.deserialize(Buffer.from(stats, "hex"));
  return {
    owner: registered.getOwnerPublicKey().toBase58(),
    wallet: registered.getAgentWalletPublicKey()?.toBase58() ?? null,
    uri: registered.agent_uri,
    feedbacks: Number(feedback_count), quality: quality_score, risk: risk_score, diversity: diversity_ratio,
    tier: tier_confirmed, confidence, schema: schema_version,
  };
}

const commands = { vectors, give, revoke, decode, accounts };
if (process.argv[2] === "vectors") {
  console.log(JSON.stringify(vectors(), null, 1));
} else {
  const answers = [];
  for (const [command, request] of JSON.parse(readFileSync(0, "utf8"))) answers.push(await commands[command](request));
  console.log(JSON.stringify(answers));
}
