// Reads one agent of an ERC-8004 registry with ethers, and computes the opinion of its clients; shares no code with Credence.
// node read.mjs PEERS URL IDENTITY REPUTATION AGENT BLOCK_HASH
import { createRequire } from "node:module";

const [, , peers, url, identityAddress, reputationAddress, agent, blockTag] = process.argv;
const { ethers } = createRequire(`${peers}/`)("ethers");
const provider = new ethers.JsonRpcProvider(url, undefined, { staticNetwork: false });
const identity = new ethers.Contract(
  identityAddress,
  ["function ownerOf(uint256) view returns (address)", "function tokenURI(uint256) view returns (string)", "function getAgentWallet(uint256) view returns (address)"],
  provider,
);
const reputation = new ethers.Contract(
  reputationAddress,
  [
    "function getClients(uint256) view returns (address[])",
    "function readAllFeedback(uint256,address[],string,string,bool) view returns (address[],uint64[],int128[],uint8[],string[],string[],bool[])",
    "event NewFeedback(uint256 indexed agentId, address indexed clientAddress, uint64 feedbackIndex, int128 value, uint8 valueDecimals, string indexed indexedTag1, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash)",
  ],
  provider,
);
const at = { blockTag };
const owner = await identity.ownerOf(agent, at);
const wallet = await identity.getAgentWallet(agent, at);
const clients = await reputation.getClients(agent, at);
const [by, indexes, values, decimals, tag1s, tag2s, revoked] = await reputation.readAllFeedback(agent, [...clients], "", "", false, at);

// How many other agents each client rated, from the logs.
const rated = new Map();
for (const { args } of await reputation.queryFilter("NewFeedback", 0, "latest")) {
  const agents = rated.get(args.clientAddress) ?? new Set();
  agents.add(args.agentId);
  rated.set(args.clientAddress, agents);
}

const newest = {};
const rows = by.map((client, i) => {
  const scaled = Number(ethers.formatUnits(values[i], decimals[i]));
  const onScale = values[i] >= 0n && values[i] <= 100n * 10n ** decimals[i];
  const counted = !revoked[i] && client !== owner && client !== wallet && onScale && tag2s[i] !== "credence";
  const topic = (newest[tag1s[i]] ??= new Map());
  if (counted && (topic.get(client)?.index ?? 0n) < indexes[i]) topic.set(client, { index: indexes[i], scaled });
  return { client: client.toLowerCase(), index: Number(indexes[i]), value: values[i].toString(), decimals: Number(decimals[i]), tag1: tag1s[i] };
});

const opinions = {};
for (const [tag, voices] of Object.entries(newest)) {
  let total = 0, squares = 0, mean = 0, variance = 0;
  const weight = (client) => {
    const others = (rated.get(client)?.size ?? 1) - 1;
    return 0.25 * Math.min(1, 0.5 + (0.5 * Math.log(1 + others)) / Math.log(9));
  };
  for (const client of voices.keys()) {
    total += weight(client);
    squares += weight(client) ** 2;
  }
  for (const [client, { scaled }] of voices) mean += (weight(client) / total) * scaled;
  for (const [client, { scaled }] of voices) variance += (weight(client) / total) * (scaled - mean) ** 2;
  const effective = total ** 2 / squares;
  opinions[tag] = { voices: voices.size, mean, effective, stddev: Math.sqrt(variance / effective + 625 / (effective + 1)) };
}
console.log(JSON.stringify({ owner: owner.toLowerCase(), wallet: wallet.toLowerCase(), uri: await identity.tokenURI(agent, at), clients: clients.length, rows, opinions }));
provider.destroy();
