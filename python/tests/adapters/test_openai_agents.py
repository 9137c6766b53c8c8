"""The OpenAI Agents SDK, the real package, with a scripted model."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
from pathlib import Path
from typing import Any, Callable

import pytest

agents = pytest.importorskip("agents")
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402

from conftest import checked_by_program, receipts  # noqa: E402
from credence_trust import Guard, ResultWithheld, ToolProfile  # noqa: E402
from credence_trust.adapters.openai_agents import guarded, guarded_agent, tool_guardrails  # noqa: E402

agents.set_tracing_disabled(True)


@agents.function_tool
def get_rate(currency: str, base: str = "USD") -> dict:  # type: ignore[type-arg]
    """The rate of a currency."""
    return {"currency": currency, "base": base, "rate": 1.25}


@agents.function_tool
def fails(reason: str) -> str:
    """Always fails."""
    raise ValueError(reason)


@agents.function_tool
async def note(text: str) -> str:
    """Keeps a note."""
    return f"kept: {text}"


def script(*steps: Any) -> ScriptedModel:
    return ScriptedModel(list(steps))


def run(agent: Any, text: str = "go") -> Any:
    return asyncio.run(agents.Runner.run(agent, text))


CALLS = [
    function_call("get_rate", {"currency": "EUR"}, call_id="c1"),
    function_call("note", {"text": "hello"}, call_id="c2"),
]


def test_a_run_is_held_against_its_receipts(guard: Guard, state: Path) -> None:
    model = script([CALLS[0]], [CALLS[1]], [assistant_message("done")])
    agent = guarded_agent(guard, agents.Agent(name="clerk", model=model, tools=[get_rate, note]))
    result = run(agent)
    assert result.final_output == "done"
    report = guard.check(result)
    assert report and report.statuses() == ["executed", "executed"] and not report.unclaimed
    assert guard.check(result.to_input_list()).statuses() == ["executed", "executed"]
    assert checked_by_program(guard, state, result) == ["executed", "executed"]

    altered = copy.deepcopy(result.to_input_list())
    output = next(item for item in altered if item.get("type") == "function_call_output")
    output["output"] = output["output"].replace("1.25", "1.52")
    report = guard.check(altered)
    assert not report and report.statuses() == ["altered", "executed"]
    assert checked_by_program(guard, state, altered) == ["altered", "executed"]

    invented = [
        *result.to_input_list(),
        {"type": "function_call", "call_id": "c9", "name": "get_rate", "arguments": '{"currency": "CHF"}'},
        {"type": "function_call_output", "call_id": "c9", "output": "{'currency': 'CHF', 'rate': 0.9}"},
    ]
    assert guard.check(invented).statuses() == ["executed", "executed", "never_happened"]
    assert checked_by_program(guard, state, invented) == ["executed", "executed", "never_happened"]


def test_a_handoff_is_no_call_of_a_tool(guard: Guard) -> None:
    rates = agents.Agent(name="rates", model=script([CALLS[0]], [assistant_message("done")]), tools=[get_rate])
    clerk = agents.Agent(
        name="clerk", model=script([function_call("transfer_to_rates", {}, call_id="h1")]), handoffs=[guarded_agent(guard, rates)]
    )
    result = run(clerk)
    report = guard.check(result)
    assert report and report.statuses() == ["executed"], str(report)
    assert guard.check(result.new_items).statuses() == ["executed"]
    # A call that is called like one is a claim all the same.
    lied = [
        *result.to_input_list(),
        {"type": "function_call", "call_id": "h9", "name": "transfer_to_bank", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "h9", "output": "done"},
    ]
    assert guard.check(lied, ignored_tools=["transfer_to_rates"]).statuses() == ["executed", "never_happened"]


def test_a_failing_tool_is_what_the_model_was_told(guard: Guard) -> None:
    model = script([function_call("fails", {"reason": "no"}, call_id="c1")], [assistant_message("sorry")])
    result = run(guarded_agent(guard, agents.Agent(name="clerk", model=model, tools=[fails])))
    assert guard.check(result).statuses() == ["executed"]


WRONG = ToolProfile("get_rate", expected_latency_ms=(0, 1e9), required_fields=["nothing_like_it"], has_network_io=False)


def test_enforce_tells_the_model_and_does_not_run_again(make_guard: Callable[..., Guard]) -> None:
    guard = make_guard("enforce")
    guard.describe("get_rate", profile=WRONG)
    model = script([CALLS[0]], [assistant_message("not available")])
    result = run(guarded_agent(guard, agents.Agent(name="clerk", model=model, tools=[get_rate])))
    (output,) = [item for item in result.to_input_list() if item.get("type") == "function_call_output"]
    assert "was executed" in output["output"] and "1.25" not in output["output"]
    assert guard.check(result).statuses() == ["executed"], "what the model was told is in the receipt too"

    model = script([CALLS[0]], [assistant_message("not available")])
    raising = agents.Agent(name="clerk", model=model, tools=[guarded(guard, get_rate, on_withheld="raise")])
    with pytest.raises(Exception) as raised:
        run(raising)
    assert isinstance(raised.value, ResultWithheld) or isinstance(raised.value.__cause__, ResultWithheld)


def test_the_sdks_own_guardrails(make_guard: Callable[..., Guard], state: Path) -> None:
    guard = make_guard("enforce")

    @agents.function_tool
    def plain(n: int) -> int:
        return n

    @agents.function_tool
    def strange(n: int) -> dict:  # type: ignore[type-arg]
        return {"n": n}

    guard.describe("strange", profile=WRONG)
    for tool in (plain, strange):
        for name, value in tool_guardrails(guard).items():
            setattr(tool, name, value)
    model = script(
        [function_call("plain", {"n": 1}, call_id="c1")],
        [function_call("strange", {"n": 1}, call_id="c2")],
        [assistant_message("done")],
    )
    result = run(agents.Agent(name="clerk", model=model, tools=[plain, strange]))
    outputs = [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]
    assert outputs[0] in ("1", 1) and "was executed" in outputs[1]
    assert guard.check(result).statuses() == ["executed", "executed"]
    assert json.dumps(outputs)


def test_a_call_whose_end_the_sdk_never_tells_is_let_go(guard: Guard, state: Path) -> None:
    @agents.function_tool(failure_error_function=None)
    def raises(n: int) -> int:
        raise ValueError("no")

    for name, value in tool_guardrails(guard).items():
        setattr(raises, name, value)
    for n in range(3):
        model = script([function_call("raises", {"n": n}, call_id="c1")], [assistant_message("done")])
        with pytest.raises(Exception):  # noqa: B017 - the SDK's own, around the tool's
            run(agents.Agent(name="clerk", model=model, tools=[raises]))
    gc.collect()
    guard.close()
    assert [(one["tool"], one["outcome"]) for one in receipts(state)] == [("raises", "unanswered")] * 3


def test_calls_under_way_are_bounded(guard: Guard) -> None:
    from credence_trust.adapters._under_way import MAX_CALLS, UnderWay

    class Owner:
        pass

    under_way = UnderWay()
    owner = Owner()
    under_way.begin("owned", guard.record("owned", {}), owner)
    assert len(under_way) == 1
    del owner
    gc.collect()
    assert len(under_way) == 0 and under_way.end("owned") is None
    for n in range(MAX_CALLS + 5):
        under_way.begin(n, guard.record("many", {}))
    assert len(under_way) == MAX_CALLS and under_way.end(4) is None and under_way.end(5) is not None
