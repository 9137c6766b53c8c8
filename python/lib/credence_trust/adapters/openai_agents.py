"""OpenAI Agents SDK: function tools under guard.

>>> agent = guarded_agent(guard, Agent(name="clerk", tools=[get_rate]))   # doctest: +SKIP
>>> result = await Runner.run(agent, "What is the rate of the euro?")      # doctest: +SKIP
>>> guard.check(result)                                                    # doctest: +SKIP

Arguments are those that the model gave, before the SDK fills in defaults. What the SDK makes of a function's exception is the tool's
result, as it is for the model.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Literal

from ..guard import Guard, ResultWithheld
from ._under_way import UnderWay

if TYPE_CHECKING:
    from agents import Agent, FunctionTool

__all__ = ["guarded", "guarded_agent", "tool_guardrails"]

CLIENT = "openai-agents"
OnWithheld = Literal["tell", "raise"]


def guarded(guard: Guard, tool: FunctionTool, *, on_withheld: OnWithheld = "tell") -> FunctionTool:
    """The same tool, under guard."""
    inner = tool.on_invoke_tool

    async def invoke(context: Any, arguments: str) -> Any:
        with guard.record(tool.name, _parsed(arguments), client=CLIENT) as call:
            output = await inner(context, arguments)
            try:
                return call.returned(output, shown=_shown(output))
            except ResultWithheld as withheld:
                if on_withheld == "raise":
                    raise
                return str(withheld)

    return dataclasses.replace(tool, on_invoke_tool=invoke)


def guarded_agent(guard: Guard, agent: Agent[Any], *, on_withheld: OnWithheld = "tell") -> Agent[Any]:
    """A copy of the agent whose function tools are under guard."""
    from agents import FunctionTool

    tools = [guarded(guard, tool, on_withheld=on_withheld) if isinstance(tool, FunctionTool) else tool for tool in agent.tools]
    return agent.clone(tools=tools)


def tool_guardrails(guard: Guard, *, on_withheld: OnWithheld = "tell") -> dict[str, list[Any]]:
    """The guard as the SDK's own tool guardrails, for ``function_tool(..., **tool_guardrails(guard))``.

    The input guardrail begins the call, the output guardrail writes its receipt and rejects a result that is not believed.
    """
    from agents import ToolGuardrailFunctionOutput, ToolInputGuardrail, ToolOutputGuardrail

    under_way = UnderWay()

    def begin(data: Any) -> Any:
        context = data.context
        call = guard.record(context.tool_name, _parsed(context.tool_arguments), client=CLIENT)
        # A realtime session makes another context for the output.
        is_realtime = "realtime" in type(data.agent).__module__
        under_way.begin(context.tool_call_id, call, None if is_realtime else context)
        return ToolGuardrailFunctionOutput.allow()

    def finish(data: Any) -> Any:
        call = under_way.end(data.context.tool_call_id)
        if call is None:
            return ToolGuardrailFunctionOutput.allow()
        try:
            call.returned(data.output, shown=_shown(data.output))
        except ResultWithheld as withheld:
            if on_withheld == "raise":
                return ToolGuardrailFunctionOutput.raise_exception(output_info={"receipt": withheld.receipt})
            return ToolGuardrailFunctionOutput.reject_content(str(withheld), output_info={"receipt": withheld.receipt})
        return ToolGuardrailFunctionOutput.allow()

    return {
        "tool_input_guardrails": [ToolInputGuardrail(guardrail_function=begin, name="credence")],
        "tool_output_guardrails": [ToolOutputGuardrail(guardrail_function=finish, name="credence")],
    }


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        parsed = json.loads(arguments) if arguments else {}
    except ValueError:
        return {"input": arguments}
    return parsed if isinstance(parsed, dict) else {"input": parsed}


def _shown(output: Any) -> Any:
    """What the SDK gives the model: the text of anything that is not a structured output of its own."""
    module = type(output).__module__
    return None if isinstance(output, str) or module.startswith("agents") else str(output)
