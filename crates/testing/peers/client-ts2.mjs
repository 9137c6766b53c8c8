// An MCP client on the official TypeScript SDK 2.x: protocol 2026-07-28 where the server has it, else the handshake.
//   client-ts2.mjs [--plain] [--legacy | --modern] (--stdio COMMAND ARGS… | --url URL)
import { answers, clean, clientArguments, deadline, load, own, Steps, until } from './common.mjs';

const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');
const { z } = load('zod');

const said = clientArguments();
const steps = new Steps();
deadline(steps);
const mode = said.flags.includes('--legacy') ? 'legacy' : said.flags.includes('--modern') ? { pin: '2026-07-28' } : 'auto';
const client = new Client(
  { name: 'peer-client-ts2', version: '1.0.0' },
  {
    capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } },
    versionNegotiation: { mode, probe: { timeoutMs: 30_000 } },
  },
);
client.setRequestHandler('sampling/createMessage', request => {
  steps.note('sampling', request.params);
  return answers.sampling;
});
client.setRequestHandler('elicitation/create', request => {
  steps.note('elicitation', request.params);
  return answers.elicitation;
});
client.setRequestHandler('roots/list', () => answers.roots);
client.setNotificationHandler('notifications/message', ({ params }) => steps.note('log', params));
let announced = () => {};
client.setNotificationHandler('notifications/tools/list_changed', () => announced());

const transport = said.url
  ? new StreamableHTTPClientTransport(new URL(said.url))
  : new StdioClientTransport({ command: said.command, args: said.args, env: { ...process.env }, stderr: 'inherit' });
const connected = await steps.run('connect', async () => {
  await client.connect(transport);
  return {
    version: client.getNegotiatedProtocolVersion(),
    era: client.getProtocolEra(),
    discovered: client.getDiscoverResult(),
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
  };
});
if (!connected.ok) {
  steps.print();
  process.exit(1);
}
steps.tap(transport);
const modern = client.getProtocolEra() === 'modern';
await own(steps, client, {
  callOptions: options => [options],
  request: request => client.request(request, z.looseObject({})),
  logMeta: modern ? { 'io.modelcontextprotocol/logLevel': 'info' } : undefined,
  async announce(call) {
    let heard = false;
    announced = () => (heard = true);
    const stream = modern ? await client.listen({ toolsListChanged: true }) : undefined;
    const result = clean(await call());
    const came = await until(() => heard);
    await stream?.close();
    return { result, heard: came, honored: stream?.honoredFilter, closed: stream && (await stream.closed) };
  },
}, said.flags);
if (said.url && !modern) await steps.run('end session', () => transport.terminateSession());
await client.close();
steps.print();
process.exit(0);
