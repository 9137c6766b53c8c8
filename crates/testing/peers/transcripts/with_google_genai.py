"""Google's Gen AI SDK, which calls the tools of an MCP session by itself; the model's service is scripted."""

import asyncio

from common import ANSWER, COMMAND, QUESTION, TURNS, Service, write
from google import genai
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def reply(turn):
    if turn == len(TURNS):
        parts = [{"text": ANSWER}]
    else:
        parts = [{"functionCall": {"id": call["id"], "name": call["tool"], "args": call["arguments"]}} for call in TURNS[turn]]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}]}


async def main():
    service = Service(reply)
    client = genai.Client(api_key="none", http_options={"base_url": service.address})
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    async with stdio_client(server) as (read, send), ClientSession(read, send) as session:
        await session.initialize()
        # As a dict: of the class the SDK makes a deep copy, which a session cannot be.
        config = {"tools": [session]}
        response = await client.aio.models.generate_content(model="gemini-scripted", contents=QUESTION, config=config)
    history = [*response.automatic_function_calling_history, response.candidates[0].content]
    write("gemini-contents.json", [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in history])
    write("gemini-python.json", [one.model_dump(mode="json") for one in history])
    write("gemini-request.json", service.requests[-1])


asyncio.run(main())
