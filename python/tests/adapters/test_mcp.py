"""The MCP Python SDK's client session, the real package, with a server in the same process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Callable

import pytest

pytest.importorskip("mcp.server.fastmcp", exc_type=ImportError)
from mcp.server.fastmcp import FastMCP  # noqa: E402
from mcp.shared.memory import create_connected_server_and_client_session  # noqa: E402

from conftest import checked_by_program  # noqa: E402
from credence_trust import Guard, ToolProfile  # noqa: E402
from credence_trust.adapters.mcp import guarded  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
server = FastMCP("rates")


@server.tool()
def get_rate(currency: str) -> dict[str, Any]:
    """The rate of a currency."""
    return {"currency": currency, "rate": 1.25}


@server.tool()
def fails(reason: str) -> str:
    """Always fails."""
    raise ValueError(reason)


def calls(guard: Guard, *made: tuple[str, dict[str, Any]]) -> list[Any]:
    async def run() -> list[Any]:
        async with create_connected_server_and_client_session(server._mcp_server) as session:
            guarded(guard, session)
            return [await session.call_tool(name, arguments) for name, arguments in made]

    return asyncio.run(run())


def messages(name: str, arguments: dict[str, Any], result: Any, number: int) -> list[dict[str, Any]]:
    body = result if isinstance(result, dict) else json.loads(result.model_dump_json(by_alias=True, exclude_none=True))
    return [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}},
        {"jsonrpc": "2.0", "id": number, "result": body},
    ]


def test_calls_are_held_against_their_receipts(guard: Guard, state: Path) -> None:
    good, failed = calls(guard, ("get_rate", {"currency": "EUR"}), ("fails", {"reason": "no"}))
    assert good.structuredContent["rate"] == 1.25 and failed.isError
    told = [*messages("get_rate", {"currency": "EUR"}, good, 1), *messages("fails", {"reason": "no"}, failed, 2)]
    assert guard.check(told).clean
    assert checked_by_program(guard, state, told) == ["executed", "executed"]
    altered = json.loads(json.dumps(told).replace("1.25", "1.52"))
    assert guard.check(altered).statuses() == ["altered", "executed"]
    assert checked_by_program(guard, state, altered) == ["altered", "executed"]
    invented = [*told, *messages("get_rate", {"currency": "CHF"}, {"content": [], "structuredContent": {"rate": 0.9}}, 3)]
    assert guard.check(invented).statuses() == ["executed", "executed", "never_happened"]
    assert checked_by_program(guard, state, invented) == ["executed", "executed", "never_happened"]


def test_enforce_gives_an_error_in_place_of_the_result(make_guard: Callable[..., Guard]) -> None:
    guard = make_guard("enforce")
    profile = ToolProfile("get_rate", expected_latency_ms=(0, 1e9), required_fields=["nothing_like_it"], has_network_io=False)
    guard.describe("get_rate", profile=profile)
    (withheld,) = calls(guard, ("get_rate", {"currency": "EUR"}))
    assert withheld.isError and "was executed" in withheld.content[0].text
    assert guard.check(messages("get_rate", {"currency": "EUR"}, withheld, 1)).clean
