"""LangChain and LangGraph, the real packages, with a scripted model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Annotated, Any, Callable

import pytest

pytest.importorskip("langgraph")
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage  # noqa: E402
from langchain_core.tools import InjectedToolCallId, tool  # noqa: E402
from langgraph.graph import END, START, MessagesState, StateGraph  # noqa: E402
from langgraph.prebuilt import ToolNode  # noqa: E402
from langgraph.prebuilt.tool_node import ToolInvocationError  # noqa: E402
from langgraph.types import Command  # noqa: E402

from conftest import checked_by_program, receipts  # noqa: E402
from credence_trust import Guard, ResultWithheld, ToolProfile  # noqa: E402
from credence_trust.adapters.langchain import guarded, guarded_all  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


@tool
def get_rate(currency: str, base: str = "USD") -> dict:  # type: ignore[type-arg]
    """The rate of a currency."""
    return {"currency": currency, "base": base, "rate": 1.25}


@tool
async def note(text: str) -> str:
    """Keeps a note."""
    return f"kept: {text}"


@tool
def fails(reason: str) -> str:
    """Always fails."""
    raise ValueError(reason)


@tool(response_format="content_and_artifact")
def chart(points: int):  # type: ignore[no-untyped-def]
    """A chart, and for the program its points."""
    return f"{points} points", {"points": [0] * points}


@tool
def move(place: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:  # type: ignore[type-arg]
    """Tells the graph something, too."""
    return Command(update={"messages": [ToolMessage(f"moved to {place}", tool_call_id=tool_call_id)]})


def graph(tools: list[Any], script: list[AIMessage], errors: Any = True) -> Any:
    """A graph whose model says what the script has."""
    steps = iter(script)
    built = StateGraph(MessagesState)
    built.add_node("model", lambda state: {"messages": [next(steps)]})
    built.add_node("tools", ToolNode(tools) if errors is None else ToolNode(tools, handle_tool_errors=errors))
    built.add_edge(START, "model")
    built.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    built.add_edge("tools", "model")
    return built.compile()


def call(name: str, number: str, **arguments: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": number}])


async def run(tools: list[Any], *script: AIMessage) -> Any:
    return await graph(tools, list(script)).ainvoke({"messages": [HumanMessage("go")]})


def ran(*given: Any) -> Any:
    import asyncio

    return asyncio.run(run(*given))


def test_a_run_is_held_against_its_receipts(guard: Guard, state: Path) -> None:
    tools = guarded_all(guard, [get_rate, note])
    ended = ran(tools, call("get_rate", "c1", currency="EUR"), call("note", "c2", text="hello"), AIMessage("done"))
    report = guard.check(ended)
    assert report and report.statuses() == ["executed", "executed"] and not report.unclaimed
    assert guard.check(ended["messages"])
    assert checked_by_program(guard, state, ended) == ["executed", "executed"]

    altered = copy.deepcopy(ended["messages"])
    (first, *_) = [one for one in altered if isinstance(one, ToolMessage)]
    first.content = str(first.content).replace("1.25", "1.52")
    assert guard.check(altered).statuses() == ["altered", "executed"]
    assert checked_by_program(guard, state, altered) == ["altered", "executed"]

    invented = [*ended["messages"], call("get_rate", "c9", currency="CHF"), ToolMessage('{"rate": 0.9}', tool_call_id="c9", name="get_rate")]
    assert guard.check(invented).statuses() == ["executed", "executed", "never_happened"]
    assert checked_by_program(guard, state, invented) == ["executed", "executed", "never_happened"]


def test_without_a_loop(guard: Guard) -> None:
    tools = guarded_all(guard, [get_rate])
    state = graph(tools, [call("get_rate", "c1", currency="EUR"), AIMessage("done")]).invoke({"messages": [HumanMessage("go")]})
    assert guard.check(state).statuses() == ["executed"] and guard.calls == 1


def test_errors_are_told_as_errors(guard: Guard) -> None:
    state = ran([guarded(guard, fails)], call("fails", "c1", reason="no"), AIMessage("sorry"))
    assert guard.check(state).statuses() == ["executed"]
    (message,) = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    message.status = "success"
    assert guard.check(state).statuses() == ["altered"], "a failure told as a success"


def test_artifacts_and_commands_to_the_graph(guard: Guard, state: Path) -> None:
    tools = guarded_all(guard, [chart, move])
    ended = ran(tools, call("chart", "c1", points=3), call("move", "c2", place="rome"), AIMessage("done"))
    report = guard.check(ended)
    assert report and report.statuses() == ["executed", "executed"], str(report)
    assert checked_by_program(guard, state, ended) == ["executed", "executed"]
    messages = [one for one in ended["messages"] if isinstance(one, ToolMessage)]
    assert messages[0].artifact == {"points": [0, 0, 0]}, "the program's own is left alone"
    messages[1].content = "moved to paris"
    assert guard.check(ended).statuses() == ["executed", "altered"]


@pytest.mark.parametrize("errors", [None, True, (ToolInvocationError,)])
def test_arguments_that_do_not_fit(guard: Guard, errors: Any) -> None:
    script = [call("chart", "c1", points="many"), AIMessage("sorry")]
    ended = graph(guarded_all(guard, [chart]), script, errors).invoke({"messages": [HumanMessage("go")]})
    report = guard.check(ended)
    assert report and report.statuses() == ["executed"], str(report)
    (message,) = [one for one in ended["messages"] if isinstance(one, ToolMessage)]
    message.content = str(message.content).replace("many", "few")
    assert guard.check(ended).statuses() == ["altered"]


def test_a_tool_keeps_what_a_model_sees_of_it(guard: Guard) -> None:
    same = guarded(guard, get_rate)
    assert (same.name, same.description, same.args) == (get_rate.name, get_rate.description, get_rate.args)
    assert isinstance(same, type(get_rate))
    assert same.invoke({"currency": "EUR"})["rate"] == 1.25 and guard.calls == 1


def test_every_way_to_call_a_tool_is_one_call(guard: Guard, state: Path) -> None:
    import asyncio

    rate, keep = guarded_all(guard, [get_rate, note])
    assert rate.run({"currency": "EUR"})["rate"] == rate.invoke({"currency": "EUR"})["rate"] == 1.25
    assert asyncio.run(rate.ainvoke({"currency": "EUR"}))["rate"] == asyncio.run(rate.arun({"currency": "EUR"}))["rate"] == 1.25
    assert asyncio.run(keep.arun({"text": "a"})) == asyncio.run(keep.ainvoke({"text": "a"})) == "kept: a"
    with pytest.raises(ValueError):
        guarded(guard, fails).run({"reason": "no"})
    guard.close()
    assert [(one["tool"], one["outcome"]) for one in receipts(state)] == [
        *[("get_rate", "result")] * 4,
        *[("note", "result")] * 2,
        ("fails", "tool_error"),
    ]


def test_enforce_tells_the_model(make_guard: Callable[..., Guard]) -> None:
    guard = make_guard("enforce")
    profile = ToolProfile("get_rate", expected_latency_ms=(0, 1e9), required_fields=["nothing_like_it"], has_network_io=False)
    guard.describe("get_rate", profile=profile)
    state = ran([guarded(guard, get_rate)], call("get_rate", "c1", currency="EUR"), AIMessage("not available"))
    (message,) = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    assert "was executed" in message.content and message.status == "error"
    assert guard.check(state).clean
    with pytest.raises(ResultWithheld):
        guarded(guard, get_rate, on_withheld="raise").invoke({"type": "tool_call", "name": "get_rate", "args": {"currency": "EUR"}, "id": "c2"})
