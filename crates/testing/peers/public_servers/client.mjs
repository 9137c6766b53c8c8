// Makes the calls of a file with the official TypeScript SDK: `node client.mjs MODULES CALLS.jsonl RESULTS.jsonl COMMAND…`.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, calls, results, command, ...args] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(modules, 'package.json')));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');

const client = new Client({ name: 'public-servers', version: '1' });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' }));
await client.listTools();
const answers = [];
for (const line of readFileSync(calls, 'utf8').trimEnd().split('\n')) {
  const { name, arguments: given } = JSON.parse(line);
  try {
    answers.push(await client.callTool({ name, arguments: given }));
  } catch (error) {
    answers.push({ error: error.message });
  }
}
writeFileSync(results, answers.map(answer => JSON.stringify(answer) + '\n').join(''));
await client.close();
