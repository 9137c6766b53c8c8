// An MCP client of the authority itself, on the official TypeScript SDK 2.x, or 1.x with --sdk1. Prints what it learned as one
// JSON object.
//   authority-client.mjs [--sdk1 | --legacy | --modern] [--token TOKEN] (--stdio COMMAND ARGS… | --url URL)
import { clientArguments, load } from './common.mjs';

const said = clientArguments();
const old = said.flags.includes('--sdk1');
const token = said.flags[said.flags.indexOf('--token') + 1];
const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }] = old
  ? ['client/index.js', 'client/stdio.js', 'client/streamableHttp.js'].map(path => load(`@modelcontextprotocol/sdk/${path}`))
  : ['', '/stdio', ''].map(path => load(`@modelcontextprotocol/client${path}`));
setTimeout(() => {
  process.stderr.write('not within 240 s\n');
  process.exit(3);
}, 240_000).unref();

const mode = said.flags.includes('--legacy') ? 'legacy' : said.flags.includes('--modern') ? { pin: '2026-07-28' } : 'auto';
const client = new Client({ name: 'authority-client', version: '1.0.0' }, old ? {} : { versionNegotiation: { mode } });
const transport = said.url
  ? new StreamableHTTPClientTransport(new URL(said.url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
  : new StdioClientTransport({ command: said.command, args: said.args, env: { ...process.env }, stderr: 'inherit' });
let version;
const set = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = chosen => {
  version = chosen;
  set?.(chosen);
};
await client.connect(transport);
const tools = await client.listTools();
const checked = await client.callTool({ name: 'check_trust', arguments: { entity: 'shop', context: 'purchase' } });
const read = await client.readResource({ uri: 'credence://agents/shop/score' });
const refused = await client.callTool({ name: 'check_trust', arguments: { entity: 'shpo' } });
const judged = await client.callTool({ name: 'verify_tool_result', arguments: { tool: 't', result: { a: 1 } } });
const missing = await client.readResource({ uri: 'credence://agents/nobody/score' }).then(
  () => null,
  error => String(error.message),
);
const learned = {
  version: client.getNegotiatedProtocolVersion?.() ?? version,
  server: client.getServerVersion(),
  instructions: client.getInstructions(),
  tools: tools.tools.map(tool => tool.name),
  text: checked.content[0].text,
  structured: checked.structuredContent,
  score: JSON.parse(read.contents[0].text),
  templates: (await client.listResourceTemplates()).resourceTemplates.length,
  resources: (await client.listResources()).resources.length,
  refused: { isError: refused.isError, text: refused.content[0].text },
  missing,
  verdict: judged.structuredContent.verdict,
};
await client.close();
process.stdout.write(JSON.stringify(learned) + '\n');
process.exit(0);
