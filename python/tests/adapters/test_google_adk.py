"""Google ADK, the real package, with a scripted model."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any, AsyncGenerator, Callable

import pytest

pytest.importorskip("google.adk")
from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.models.base_llm import BaseLlm  # noqa: E402
from google.adk.models.llm_response import LlmResponse  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
from google.genai import types  # noqa: E402

from conftest import checked_by_program  # noqa: E402
from credence_trust import Guard, ToolProfile  # noqa: E402
from credence_trust.adapters.google_adk import GuardPlugin  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


def get_rate(currency: str) -> dict:  # type: ignore[type-arg]
    """The rate of a currency."""
    return {"currency": currency, "rate": 1.25}


def note(text: str) -> str:
    """Keeps a note."""
    return f"kept: {text}"


def forget() -> None:
    """Returns nothing, as the framework's own transfer between agents does."""


class Scripted(BaseLlm):
    steps: list[Any] = []

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[self.steps.pop(0)]))


def call(name: str, number: str, **arguments: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=number, name=name, args=arguments))


def run(guard: Guard, *steps: Any, **given: Any) -> list[Any]:
    agent = LlmAgent(name="clerk", model=Scripted(model="scripted", steps=list(steps)), tools=[get_rate, note, forget])
    runner = InMemoryRunner(agent=agent, app_name="tests", plugins=[GuardPlugin(guard, **given)])

    async def go() -> list[Any]:
        session = await runner.session_service.create_session(app_name="tests", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="go")])
        return [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]

    return asyncio.run(go())


def test_a_run_is_held_against_its_receipts(guard: Guard, state: Path) -> None:
    events = run(guard, call("get_rate", "c1", currency="EUR"), call("note", "c2", text="hello"), types.Part(text="done"))
    report = guard.check(events)
    assert report and report.statuses() == ["executed", "executed"] and not report.unclaimed, str(report)

    assert checked_by_program(guard, state, events) == ["executed", "executed"]
    altered = copy.deepcopy(events)
    response = next(part for event in altered for part in event.content.parts if part.function_response)
    response.function_response.response["rate"] = 1.52
    assert guard.check(altered).statuses() == ["altered", "executed"]
    assert checked_by_program(guard, state, altered) == ["altered", "executed"]

    part = types.Part(function_response=types.FunctionResponse(id="c9", name="get_rate", response={"rate": 0.9}))
    invented = [types.Content(role="model", parts=[call("get_rate", "c9", currency="CHF")]), types.Content(role="user", parts=[part])]
    assert guard.check([*events, *invented]).statuses() == ["executed", "executed", "never_happened"]
    assert checked_by_program(guard, state, [*events, *invented]) == ["executed", "executed", "never_happened"]


def test_a_tool_that_returns_nothing(guard: Guard, state: Path) -> None:
    events = run(guard, call("forget", "c1"), types.Part(text="done"))
    report = guard.check(events)
    assert report and report.statuses() == ["executed"], str(report)
    assert checked_by_program(guard, state, events) == ["executed"]
    response = next(part for event in events for part in event.content.parts if part.function_response)
    response.function_response.response = {"result": "forgotten"}
    assert guard.check(events).statuses() == ["altered"]


def test_enforce_tells_the_model(make_guard: Callable[..., Guard]) -> None:
    guard = make_guard("enforce")
    profile = ToolProfile("get_rate", expected_latency_ms=(0, 1e9), required_fields=["nothing_like_it"], has_network_io=False)
    guard.describe("get_rate", profile=profile)
    events = run(guard, call("get_rate", "c1", currency="EUR"), types.Part(text="not available"))
    (told,) = [part.function_response.response for event in events for part in event.content.parts if part.function_response]
    assert "was executed" in str(told) and "1.25" not in str(told)
    assert guard.check(events).clean, str(guard.check(events))
