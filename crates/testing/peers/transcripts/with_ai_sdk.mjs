// Vercel's AI SDK: `node with_ai_sdk.mjs MODULES FOLDER COMMAND…`; the packages are in MODULES.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, folder, command, ...args] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(modules, "package.json")));
const { generateText, readUIMessageStream, stepCountIs, streamText } = require("ai");
const { MockLanguageModelV3, simulateReadableStream } = require("ai/test");
const { createMCPClient } = require("@ai-sdk/mcp");
const { Experimental_StdioMCPTransport: StdioTransport } = require("@ai-sdk/mcp/mcp-stdio");

const { question, turns, answer } = JSON.parse(readFileSync(new URL("scenario.json", import.meta.url)));
const write = (name, value) => writeFileSync(join(folder, name), JSON.stringify(value, null, 1) + "\n");
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };

function scripted() {
  let turn = 0;
  const next = () => {
    const calls = turns[turn++];
    const content = calls
      ? calls.map((call) => ({ type: "tool-call", toolCallId: call.id, toolName: call.tool, input: JSON.stringify(call.arguments) }))
      : [{ type: "text", text: answer }];
    return { content, finishReason: { unified: calls ? "tool-calls" : "stop" }, usage, warnings: [] };
  };
  return new MockLanguageModelV3({
    doGenerate: async () => next(),
    doStream: async () => {
      const { content, finishReason } = next();
      const parts = content.flatMap((part) =>
        part.type === "text"
          ? [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: part.text }, { type: "text-end", id: "t" }]
          : [part],
      );
      const chunks = [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason, usage }];
      return { stream: simulateReadableStream({ chunks }) };
    },
  });
}

const client = await createMCPClient({ transport: new StdioTransport({ command, args }) });
const tools = await client.tools();
const stopWhen = stepCountIs(10);
const user = { role: "user", content: question };

const generated = await generateText({ model: scripted(), tools, messages: [user], stopWhen });
write("ai-sdk-model-messages.json", [user, ...generated.response.messages]);
write("ai-sdk-steps.json", generated.steps);
// The calls run a second time, for the transcript of a streaming interface.
const streamed = streamText({ model: scripted(), tools, messages: [user], stopWhen });
let last;
for await (const message of readUIMessageStream({ stream: streamed.toUIMessageStream() })) last = message;
write("ai-sdk-ui-messages.json", [{ id: "u1", role: "user", parts: [{ type: "text", text: question }] }, last]);
await client.close();
