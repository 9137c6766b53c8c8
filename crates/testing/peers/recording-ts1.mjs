// An MCP server on the official TypeScript SDK 1.x whose tools, of any name, append one line for each execution to the file named by
// EFFECTS. stdio, or HTTP without sessions, on the SDK's own Express application, with `--http PORT`.
import { openSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import { listen, load, options, text } from './common.mjs';

const { Server } = load('@modelcontextprotocol/sdk/server/index.js');
const { createMcpExpressApp } = load('@modelcontextprotocol/sdk/server/express.js');
const { StdioServerTransport } = load('@modelcontextprotocol/sdk/server/stdio.js');
const { StreamableHTTPServerTransport } = load('@modelcontextprotocol/sdk/server/streamableHttp.js');
const { CallToolRequestSchema, ListToolsRequestSchema } = load('@modelcontextprotocol/sdk/types.js');

const effects = openSync(process.env.EFFECTS, 'a', 0o600);

function build() {
  const server = new Server({ name: 'recording-ts1', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: 'say', inputSchema: { type: 'object' } }] }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) => {
    writeSync(effects, JSON.stringify({ id: extra.requestId, tool: params.name, arguments: params.arguments }) + '\n');
    return text(`done ${params.name}`);
  });
  return server;
}

const { port, json } = options();
if (port === undefined) {
  await build().connect(new StdioServerTransport());
} else {
  const app = createMcpExpressApp();
  app.all('/mcp', async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: json });
    response.on('close', () => transport.close());
    await build().connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  listen(createServer(app), port);
}
