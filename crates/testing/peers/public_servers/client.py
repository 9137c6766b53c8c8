"""Makes the calls of a file with the official Python SDK: `client.py CALLS.jsonl RESULTS.jsonl COMMAND…`."""

import asyncio
import json
import logging
import os
import sys
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client

logging.disable(logging.CRITICAL)
LONGEST = timedelta(seconds=60)


async def main(calls, results, command):
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with stdio_client(server, errlog=open(os.devnull, "w")) as (read, write):
        async with ClientSession(read, write, read_timeout_seconds=LONGEST) as session:
            await session.initialize()
            await session.list_tools()
            with open(calls) as given, open(results, "w") as out:
                for line in given:
                    call = json.loads(line)
                    try:
                        answer = await session.call_tool(call["name"], call["arguments"])
                        answer = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
                    except (McpError, RuntimeError) as error:
                        answer = {"error": str(error)}
                    print(json.dumps(answer), file=out)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
