"""An MCP client on the official Python SDK 1.x. Prints what it received, step by step, as one JSON list.

    client_py1.py [--plain] (--stdio COMMAND ARGS… | --url URL)
"""

import asyncio
import logging
import os
import warnings
from contextlib import AsyncExitStack
from datetime import timedelta

import common
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
flags, command, url = common.client_arguments()
steps = common.Steps()
announced = asyncio.Event()


async def sample(_context, params):
    steps.note("sampling", params)
    return types.CreateMessageResult(
        model="fixed-model", role="assistant", stopReason="endTurn", content=types.TextContent(type="text", text="a fixed thought")
    )


async def elicit(_context, params):
    steps.note("elicitation", params)
    return types.ElicitResult(action="accept", content={"name": "Ada", "count": 3})


async def roots(_context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])


async def log(params):
    steps.note("log", params)


async def message(item):
    if getattr(getattr(item, "root", None), "method", None) == "notifications/tools/list_changed":
        announced.set()


class Sdk:
    def __init__(self, session):
        self.session = session
        self.list_tools, self.list_resources = session.list_tools, session.list_resources
        self.list_templates, self.list_prompts = session.list_resource_templates, session.list_prompts
        self.prompt, self.log_level, self.ping = session.get_prompt, session.set_logging_level, session.send_ping

    async def read(self, uri):
        return await self.session.read_resource(AnyUrl(uri))

    async def call(self, name, args=None, **more):
        return await self.session.call_tool(name, args or {}, **more)

    async def cancel(self):
        # This SDK does not cancel by itself: the notification is sent, and the server answers with an error or not at all.
        first = asyncio.Event()

        async def progress(done, total, text):
            if not first.is_set():
                steps.note("progress", {"progress": done, "total": total, "message": text})
                first.set()

        number = self.session._request_id
        task = asyncio.create_task(self.call("slow", common.ENDLESS, progress_callback=progress))
        await first.wait()
        params = types.CancelledNotificationParams(requestId=number, reason="enough")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        done, _ = await asyncio.wait([task], timeout=10)
        if not done:
            task.cancel()
            return "no answer"
        return task.result()

    async def announce(self):
        announced.clear()
        result = await self.call("announce")
        return {"result": common.plain(result), "heard": await common.until(announced.is_set)}

    async def unknown(self):
        # A request of a known kind under another name: the types of this SDK know no other.
        request = types.PingRequest.model_construct(method="credence/unknown", params=None)
        return await self.session.send_request(types.ClientRequest.model_construct(root=request), types.EmptyResult)


async def work():
    async with AsyncExitStack() as stack:

        async def connect():
            if url:
                streams = await stack.enter_async_context(streamable_http_client(url))
            else:
                server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
                streams = await stack.enter_async_context(stdio_client(server))
            session = await stack.enter_async_context(
                ClientSession(
                    common.Tap(streams[0], steps.seen),
                    streams[1],
                    read_timeout_seconds=timedelta(seconds=120),
                    sampling_callback=sample,
                    elicitation_callback=elicit,
                    list_roots_callback=roots,
                    logging_callback=log,
                    message_handler=message,
                    client_info=types.Implementation(name="peer-client-py1", version="1.0.0"),
                )
            )
            sdk.append(Sdk(session))
            return await session.initialize()

        sdk = []
        if (await steps.run("connect", connect))["ok"]:
            await common.own(steps, sdk[0], flags)


asyncio.run(common.deadline(steps, work))
