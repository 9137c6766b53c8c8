"""An MCP server on the official Python SDK 2.x: protocol 2026-07-28, and the handshake for older clients; stdio, or HTTP with
`--http PORT`."""

import json
import logging
import warnings
from typing import Annotated

import common
import mcp.types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from pydantic import BaseModel

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
server = MCPServer("peer-py2", version="1.0.0", instructions="A peer for tests.")


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
    return types.CallToolResult(content=[types.TextContent(type="text", text="it did not work")], is_error=True)


@server.tool(structured_output=False)
def big_number() -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=common.BIG_NUMBER)], structured_content=json.loads(common.BIG_NUMBER)
    )


@server.tool(structured_output=False)
def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=common.PIXEL, mime_type="image/png")


@server.tool(structured_output=False)
async def log(text: str, ctx: Context) -> str:
    await ctx.log("warning", {"text": text}, logger_name="peer")
    return "logged"


def who():
    return Elicit("Who is there?", Who)


def thought():
    return Sample([types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Think."))], max_tokens=50)


# The SDK asks within the call by the handshake, and by another round in 2026-07-28.
@server.tool(structured_output=False)
def ask(answer: Annotated[Who, Resolve(who)]) -> str:
    return f"answered {answer.model_dump_json()}"


@server.tool(structured_output=False)
def think(answer: Annotated[types.CreateMessageResult, Resolve(thought)]) -> str:
    return f"thought {answer.model_dump_json(by_alias=True, exclude_none=True)}"


@server.tool(structured_output=False)
async def announce(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    if ctx.protocol_version < "2026":
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


async def set_level(_ctx, _params):
    return types.EmptyResult()


server._lowlevel_server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)

if __name__ == "__main__":
    port, as_json, stateless = common.options()
    if port is None:
        server.run("stdio")
    else:
        common.serve(server.streamable_http_app(json_response=as_json, stateless_http=stateless), port)
