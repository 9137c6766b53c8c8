"""An MCP client on the official Python SDK 2.x: protocol 2026-07-28 where the server has it, else the handshake. Prints what
it received, step by step, as one JSON list.

    client_py2.py [--plain] [--legacy | --modern] (--stdio COMMAND ARGS… | --url URL)
"""

import asyncio
import logging
import os
import warnings
from contextlib import asynccontextmanager

import common
import mcp.types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
flags, command, url = common.client_arguments()
steps = common.Steps()
announced = asyncio.Event()


async def sample(_context, params):
    steps.note("sampling", params)
    return types.CreateMessageResult(
        model="fixed-model", role="assistant", stop_reason="endTurn", content=types.TextContent(type="text", text="a fixed thought")
    )


async def elicit(_context, params):
    steps.note("elicitation", params)
    return types.ElicitResult(action="accept", content={"name": "Ada", "count": 3})


async def roots(_context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])


async def log(params):
    steps.note("log", params)


async def message(item):
    if getattr(item, "method", None) == "notifications/tools/list_changed":
        announced.set()


@asynccontextmanager
async def transport():
    if url:
        inner = streamable_http_client(url)
    else:
        inner = stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))
    async with inner as streams:
        yield common.Tap(streams[0], steps.seen), streams[1]


class Sdk:
    def __init__(self, client):
        self.client = client
        self.list_tools, self.list_resources = client.list_tools, client.list_resources
        self.list_templates, self.list_prompts = client.list_resource_templates, client.list_prompts
        self.read, self.prompt, self.log_level, self.ping = client.read_resource, client.get_prompt, client.set_logging_level, client.send_ping

    async def call(self, name, args=None, **more):
        return await self.client.call_tool(name, args or {}, **more)

    async def cancel(self):
        first = asyncio.Event()

        async def progress(done, total, text):
            if not first.is_set():
                steps.note("progress", {"progress": done, "total": total, "message": text})
                first.set()

        task = asyncio.create_task(self.call("slow", common.ENDLESS, progress_callback=progress))
        await first.wait()
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return "cancelled"

    async def announce(self):
        announced.clear()
        if self.client.protocol_version < "2026":
            result = await self.call("announce")
            return {"result": common.plain(result), "heard": await common.until(announced.is_set)}
        async with self.client.listen(tools_list_changed=True) as stream:
            result = await self.call("announce")
            event = await asyncio.wait_for(stream.__anext__(), common.PATIENCE)
            return {"result": common.plain(result), "heard": type(event).__name__, "honored": common.plain(stream.honored)}

    async def unknown(self):
        return await self.client.session.send_request(types.Request(method="credence/unknown", params={"a": 1}), types.Result)


async def work():
    mode = "legacy" if "--legacy" in flags else "2026-07-28" if "--modern" in flags else "auto"
    client = Client(
        transport(),
        mode=mode,
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        logging_callback=log,
        message_handler=message,
        log_level="info",
        client_info=types.Implementation(name="peer-client-py2", version="1.0.0"),
        read_timeout_seconds=120,
    )

    async def connect():
        await client.__aenter__()
        return {
            "version": client.protocol_version,
            "server": common.plain(client.server_info),
            "capabilities": common.plain(client.server_capabilities),
            "instructions": client.instructions,
        }

    if (await steps.run("connect", connect))["ok"]:
        await common.own(steps, Sdk(client), flags)
        await client.__aexit__(None, None, None)


asyncio.run(common.deadline(steps, work))
