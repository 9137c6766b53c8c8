// Compiles the test contracts with npm `solc`; run by scripts/contracts. Prints one JSON object: contract name -> {abi, bytecode}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [, , peers, source] = process.argv;
const solc = createRequire(`${peers}/`)("solc");
const input = {
  language: "Solidity",
  sources: { "Registries.sol": { content: readFileSync(source, "utf8") } },
  settings: {
    optimizer: { enabled: true, runs: 200 },
    viaIR: true,
    // No hash of the source in the bytecode: a changed comment changes nothing.
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
for (const { severity, formattedMessage } of output.errors ?? []) {
  console.error(formattedMessage);
  if (severity === "error") process.exit(1);
}
const contracts = {};
for (const [name, contract] of Object.entries(output.contracts["Registries.sol"])) {
  contracts[name] = { abi: contract.abi, bytecode: `0x${contract.evm.bytecode.object}` };
}
console.log(JSON.stringify({ compiler: solc.version(), contracts }, null, 1));
