"""An MCP client of the authority itself, on the official Python SDK 2.x. Prints what it learned as one JSON object.

    authority_client.py [--legacy | --modern] [--token TOKEN] (--stdio COMMAND ARGS… | --url URL)
"""

import asyncio
import json
import logging
import os
import warnings

import common
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
flags, command, url = common.client_arguments()


def transport():
    if command:
        return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))
    token = flags[flags.index("--token") + 1]
    return streamable_http_client(url, http_client=httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False))


async def work():
    mode = "legacy" if "--legacy" in flags else "2026-07-28" if "--modern" in flags else "auto"
    async with Client(transport(), mode=mode, read_timeout_seconds=120) as client:
        tools = await client.list_tools()
        checked = await client.call_tool("check_trust", {"entity": "shop", "context": "purchase"})
        read = await client.read_resource("credence://agents/shop/score")
        refused = await client.call_tool("check_trust", {"entity": "shpo"})
        judged = await client.call_tool("verify_tool_result", {"tool": "t", "result": {"a": 1}})
        try:
            await client.read_resource("credence://agents/nobody/score")
            missing = None
        except Exception as error:
            missing = common.failure(error)["message"]
        return {
            "version": client.protocol_version,
            "server": common.plain(client.server_info),
            "instructions": client.instructions,
            "tools": [tool.name for tool in tools.tools],
            "text": checked.content[0].text,
            "structured": checked.structured_content,
            "score": json.loads(read.contents[0].text),
            "templates": len((await client.list_resource_templates()).resource_templates),
            "resources": len((await client.list_resources()).resources),
            "refused": {"isError": refused.is_error, "text": refused.content[0].text},
            "missing": missing,
            "verdict": judged.structured_content["verdict"],
        }


print(json.dumps(asyncio.run(asyncio.wait_for(work(), 240))))
