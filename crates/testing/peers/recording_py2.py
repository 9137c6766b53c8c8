"""An MCP server on the official Python SDK 2.x whose tools, of any name, append one line for each execution to the file named by EFFECTS.
stdio, or HTTP without sessions with `--http PORT`."""

import json
import logging
import os
import warnings

import anyio
import common
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
EFFECTS = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def call(ctx, params):
    done = {"id": ctx.request_id, "tool": params.name, "arguments": params.arguments}
    os.write(EFFECTS, json.dumps(done).encode() + b"\n")
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"done {params.name}")])


async def tools(_ctx, _params):
    return types.ListToolsResult(tools=[types.Tool(name="say", input_schema={"type": "object"})])


server = Server("recording-py2", version="1.0.0", on_call_tool=call, on_list_tools=tools)


async def stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


port, as_json, _ = common.options()
if port is None:
    anyio.run(stdio)
else:
    common.serve(server.streamable_http_app(json_response=as_json, stateless_http=True), port)
