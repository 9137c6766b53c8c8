// An MCP server on the official TypeScript SDK 2.x: protocol 2026-07-28, and the handshake for older clients; stdio, or HTTP
// with `--http PORT`.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { bigNumber, cancelled, listen, load, options, pixel, slow, text, weather } from './common.mjs';

const { McpServer, ResourceTemplate, createMcpHandler, inputRequired, inputResponse, isLegacyRequest } = load('@modelcontextprotocol/server');
const { serveStdio } = load('@modelcontextprotocol/server/stdio');
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = load('@modelcontextprotocol/node');
const { z } = load('zod');

let handler;
function build() {
  const mcp = new McpServer(
    { name: 'peer-ts2', version: '1.0.0' },
    { capabilities: { logging: {}, tools: { listChanged: true } }, instructions: 'A peer for tests.' },
  );
  mcp.registerTool(
    'get_weather',
    {
      description: 'The weather in a city',
      inputSchema: z.object({ city: z.string() }),
      outputSchema: z.object({ temperature: z.number(), humidity: z.number(), conditions: z.string() }),
    },
    ({ city }) => ({ ...text(JSON.stringify(weather(city))), structuredContent: weather(city) }),
  );
  mcp.registerTool('echo', { description: 'Says it again', inputSchema: z.object({ text: z.string() }) }, args => text(args.text));
  mcp.registerTool('slow', { inputSchema: z.object({ ms: z.number(), steps: z.number() }) }, (args, ctx) =>
    slow(args, ctx.mcpReq.signal, async progress => {
      const progressToken = ctx.mcpReq._meta?.progressToken;
      if (progressToken !== undefined)
        await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...progress } });
    }),
  );
  mcp.registerTool('cancelled', {}, cancelled);
  mcp.registerTool('fail', {}, () => ({ ...text('it did not work'), isError: true }));
  mcp.registerTool('big_number', {}, () => ({ ...text(bigNumber), structuredContent: JSON.parse(bigNumber) }));
  mcp.registerTool('image', {}, () => ({ content: [{ type: 'image', data: pixel, mimeType: 'image/png' }] }));
  mcp.registerTool('log', { inputSchema: z.object({ text: z.string() }) }, async (args, ctx) => {
    await ctx.mcpReq.log('warning', { text: args.text }, 'peer');
    return text('logged');
  });
  // The SDK turns these into requests to the client when the client came by the handshake.
  mcp.registerTool('ask', {}, ctx => {
    const answer = inputResponse(ctx.mcpReq.inputResponses, 'who');
    if (answer.kind === 'missing')
      return inputRequired({
        inputRequests: {
          who: inputRequired.elicit({
            message: 'Who is there?',
            requestedSchema: { type: 'object', properties: { name: { type: 'string' }, count: { type: 'integer' } }, required: ['name'] },
          }),
        },
        requestState: 'asked-once',
      });
    return text(`answered ${JSON.stringify(answer)} with ${ctx.mcpReq.requestState()}`);
  });
  mcp.registerTool('think', {}, ctx => {
    const thought = inputResponse(ctx.mcpReq.inputResponses, 'thought');
    if (thought.kind === 'missing')
      return inputRequired({
        inputRequests: {
          thought: inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'Think.' } }], maxTokens: 50 }),
        },
      });
    return text(`thought ${JSON.stringify(thought)}`);
  });
  mcp.registerTool('announce', {}, () => {
    mcp.sendToolListChanged();
    handler?.notify.toolsChanged();
    return text('announced');
  });
  mcp.registerResource('note', 'peer://note', { mimeType: 'text/plain', description: 'A note' }, uri => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'a note' }],
  }));
  mcp.registerResource('city', new ResourceTemplate('peer://city/{name}', { list: undefined }), { mimeType: 'application/json' }, (uri, { name }) => ({
    contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify(weather(name)) }],
  }));
  mcp.registerPrompt('greet', { description: 'A greeting', argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }],
  }));
  return mcp;
}

const { port, json } = options();
if (port === undefined) {
  serveStdio(build);
} else {
  handler = createMcpHandler(build, { legacy: 'reject', responseMode: json ? 'json' : 'auto' });
  const modern = toNodeHandler(handler);
  const sessions = new Map();
  const legacy = async (request, response, body) => {
    const id = request.headers['mcp-session-id'];
    let transport = sessions.get(id);
    if (id && !transport) {
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}');
      return;
    }
    if (!transport) {
      transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: json,
        onsessioninitialized: name => void sessions.set(name, transport),
        onsessionclosed: name => void sessions.delete(name),
      });
      await build().connect(transport);
    }
    await transport.handleRequest(request, response, body);
  };
  listen(
    createServer(async (request, response) => {
      if (new URL(request.url, 'http://localhost').pathname !== '/mcp') {
        response.writeHead(404).end();
        return;
      }
      const bytes = [];
      if (request.method === 'POST') for await (const chunk of request) bytes.push(chunk);
      let body;
      try {
        body = bytes.length ? JSON.parse(Buffer.concat(bytes)) : undefined;
      } catch {
        response.writeHead(400, { 'content-type': 'application/json' });
        response.end('{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}');
        return;
      }
      const old = await isLegacyRequest(await toWebRequest(request, body));
      await (old ? legacy : modern)(request, response, body);
    }),
    port,
  );
}
