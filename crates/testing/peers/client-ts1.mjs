// An MCP client on the official TypeScript SDK 1.x. Prints what it received, step by step, as one JSON list.
//   client-ts1.mjs [--plain] [--script own|everything|filesystem] (--stdio COMMAND ARGS… | --url URL)
// The filesystem script needs the folder that the server was given, as PEER_FOLDER.
import { pathToFileURL } from 'node:url';
import { answers, clean, clientArguments, deadline, load, own, Steps, until } from './common.mjs';
import { everything, filesystem } from './public.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = load('@modelcontextprotocol/sdk/types.js');
const { z } = load('zod');

const said = clientArguments();
const steps = new Steps();
deadline(steps);
const client = new Client(
  { name: 'peer-client-ts1', version: '1.0.0' },
  { capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } } },
);
client.setRequestHandler(types.CreateMessageRequestSchema, request => {
  steps.note('sampling', request.params);
  return answers.sampling;
});
client.setRequestHandler(types.ElicitRequestSchema, request => {
  steps.note('elicitation', request.params);
  return request.params.mode === 'url' ? { action: 'accept' } : answers.elicitation;
});
// The filesystem server takes its folders from here.
const roots = process.env.PEER_FOLDER ? { roots: [{ uri: pathToFileURL(process.env.PEER_FOLDER).href }] } : answers.roots;
client.setRequestHandler(types.ListRootsRequestSchema, () => roots);
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => steps.note('log', params));
let announced = () => {};
client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => announced());

const transport = said.url
  ? new StreamableHTTPClientTransport(new URL(said.url))
  : new StdioClientTransport({ command: said.command, args: said.args, env: { ...process.env }, stderr: 'inherit' });
let version;
const setVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = chosen => {
  version = chosen;
  setVersion?.(chosen);
};

const connected = await steps.run('connect', async () => {
  await client.connect(transport);
  return {
    version,
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
const sdk = {
  callOptions: options => [undefined, options],
  request: request => client.request(request, z.looseObject({})),
  logMeta: undefined,
  // Until the notification came, which over HTTP takes another stream.
  async announce(call) {
    let heard = false;
    announced = () => (heard = true);
    const result = clean(await call());
    return { result, heard: await until(() => heard) };
  },
};
await { own, everything, filesystem }[said.script](steps, client, sdk, said.flags);
if (said.url) await steps.run('end session', () => transport.terminateSession());
await client.close();
steps.print();
process.exit(0);
