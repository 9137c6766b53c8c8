"""An MCP server on the official Python SDK 1.x: stdio, or HTTP with sessions with `--http PORT`."""

import json
import logging

import common
import mcp.types as types
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

port, as_json, stateless = common.options()
server = FastMCP("peer-py1", instructions="A peer for tests.", json_response=as_json, stateless_http=stateless, log_level="ERROR")
logging.disable(logging.WARNING)


class Weather(BaseModel):
    temperature: float
    humidity: float
    conditions: str


class Who(BaseModel):
    name: str
    count: int = 0


@server.tool(description="The weather in a city")
def get_weather(city: str) -> Weather:
    return Weather(**common.weather(city))


@server.tool(description="Says it again", structured_output=False)
def echo(text: str) -> str:
    return text


@server.tool(structured_output=False)
async def slow(ms: int, steps: int, ctx: Context) -> str:
    return await common.slow(ms, steps, ctx.report_progress)


@server.tool(structured_output=False)
async def cancelled() -> str:
    return await common.cancelled()


@server.tool(structured_output=False)
def fail() -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text="it did not work")], isError=True)


@server.tool(structured_output=False)
def big_number() -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=common.BIG_NUMBER)], structuredContent=json.loads(common.BIG_NUMBER)
    )


@server.tool(structured_output=False)
def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=common.PIXEL, mimeType="image/png")


@server.tool(structured_output=False)
async def log(text: str, ctx: Context) -> str:
    await ctx.session.send_log_message("warning", {"text": text}, logger="peer", related_request_id=ctx.request_id)
    return "logged"


@server.tool(structured_output=False)
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who is there?", Who)
    return f"answered {answer.model_dump_json()}"


@server.tool(structured_output=False)
async def think(ctx: Context) -> str:
    thought = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Think."))],
        max_tokens=50,
        related_request_id=ctx.request_id,
    )
    return f"thought {thought.model_dump_json(by_alias=True, exclude_none=True)}"


@server.tool(structured_output=False)
async def announce(ctx: Context) -> str:
    await ctx.session.send_tool_list_changed()
    return "announced"


@server.resource("peer://note", mime_type="text/plain", description="A note")
def note() -> str:
    return "a note"


@server.resource("peer://city/{name}", mime_type="application/json")
def city(name: str) -> str:
    return json.dumps(common.weather(name))


@server.prompt(description="A greeting")
def greet(name: str) -> str:
    return f"Say hello to {name}."


@server._mcp_server.set_logging_level()
async def set_level(_level: str) -> None:
    pass


if __name__ == "__main__":
    if port is None:
        server.run("stdio")
    else:
        common.serve(server.streamable_http_app(), port)
