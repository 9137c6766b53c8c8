// An MCP server on the official TypeScript SDK 1.x: stdio, or HTTP with sessions with `--http PORT`.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { bigNumber, cancelled, listen, load, options, pixel, slow, text, weather } from './common.mjs';

const { McpServer, ResourceTemplate } = load('@modelcontextprotocol/sdk/server/mcp.js');
const { StdioServerTransport } = load('@modelcontextprotocol/sdk/server/stdio.js');
const { StreamableHTTPServerTransport } = load('@modelcontextprotocol/sdk/server/streamableHttp.js');
const { z } = load('zod');

function build() {
  const mcp = new McpServer(
    { name: 'peer-ts1', version: '1.0.0' },
    { capabilities: { logging: {} }, instructions: 'A peer for tests.' },
  );
  mcp.registerTool(
    'get_weather',
    {
      description: 'The weather in a city',
      inputSchema: { city: z.string() },
      outputSchema: { temperature: z.number(), humidity: z.number(), conditions: z.string() },
    },
    ({ city }) => ({ ...text(JSON.stringify(weather(city))), structuredContent: weather(city) }),
  );
  mcp.registerTool('echo', { description: 'Says it again', inputSchema: { text: z.string() } }, args => text(args.text));
  mcp.registerTool('slow', { inputSchema: { ms: z.number(), steps: z.number() } }, (args, extra) =>
    slow(args, extra.signal, async progress => {
      const progressToken = extra._meta?.progressToken;
      if (progressToken !== undefined)
        await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, ...progress } });
    }),
  );
  mcp.registerTool('cancelled', {}, cancelled);
  mcp.registerTool('fail', {}, () => ({ ...text('it did not work'), isError: true }));
  mcp.registerTool('big_number', {}, () => ({ ...text(bigNumber), structuredContent: JSON.parse(bigNumber) }));
  mcp.registerTool('image', {}, () => ({ content: [{ type: 'image', data: pixel, mimeType: 'image/png' }] }));
  mcp.registerTool('log', { inputSchema: { text: z.string() } }, async (args, extra) => {
    await extra.sendNotification({ method: 'notifications/message', params: { level: 'warning', logger: 'peer', data: { text: args.text } } });
    return text('logged');
  });
  mcp.registerTool('ask', {}, async extra => {
    const answer = await extra.sendRequest(
      {
        method: 'elicitation/create',
        params: {
          mode: 'form',
          message: 'Who is there?',
          requestedSchema: { type: 'object', properties: { name: { type: 'string' }, count: { type: 'integer' } }, required: ['name'] },
        },
      },
      z.looseObject({}),
    );
    return text(`answered ${JSON.stringify(answer)}`);
  });
  mcp.registerTool('think', {}, async extra => {
    const thought = await extra.sendRequest(
      { method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: 'Think.' } }], maxTokens: 50 } },
      z.looseObject({}),
    );
    return text(`thought ${JSON.stringify(thought)}`);
  });
  // Not within the call: over HTTP this goes by the stream of the session.
  mcp.registerTool('announce', {}, async () => {
    await mcp.server.sendToolListChanged();
    return text('announced');
  });
  mcp.registerResource('note', 'peer://note', { mimeType: 'text/plain', description: 'A note' }, uri => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'a note' }],
  }));
  mcp.registerResource('city', new ResourceTemplate('peer://city/{name}', { list: undefined }), { mimeType: 'application/json' }, (uri, { name }) => ({
    contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify(weather(name)) }],
  }));
  mcp.registerPrompt('greet', { description: 'A greeting', argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }],
  }));
  return mcp;
}

const { port, json, stateless } = options();
if (port === undefined) {
  await build().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  listen(
    createServer(async (request, response) => {
      const id = request.headers['mcp-session-id'];
      if (new URL(request.url, 'http://localhost').pathname !== '/mcp' || (id && !sessions.has(id))) {
        response.writeHead(404, { 'content-type': 'application/json' });
        response.end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}');
        return;
      }
      let transport = sessions.get(id);
      if (!transport) {
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: stateless ? undefined : randomUUID,
          enableJsonResponse: json,
          onsessioninitialized: name => void sessions.set(name, transport),
          onsessionclosed: name => void sessions.delete(name),
        });
        await build().connect(transport);
      }
      await transport.handleRequest(request, response);
    }),
    port,
  );
}
