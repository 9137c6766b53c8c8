"""An agent of the OpenAI Agents SDK with a scripted model. Needs the package openai-agents."""

import tempfile

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from credence_trust import Guard
from credence_trust.adapters.openai_agents import guarded_agent

set_tracing_disabled(True)
guard = Guard(mode="flag", agent="clerk", name="openai-clerk", state=tempfile.mkdtemp())


@function_tool
def get_rate(currency: str) -> dict:
    """The rate of a currency against the dollar."""
    return {"currency": currency, "rate": 1.25}


script = ScriptedModel([[function_call("get_rate", {"currency": "EUR"}, call_id="call_1")], [assistant_message("A euro is 1.25 dollars.")]])
agent = guarded_agent(guard, Agent(name="clerk", model=script, tools=[get_rate]))
result = Runner.run_sync(agent, "What is a euro worth?")
report = guard.check(result)
print(result.final_output, "|", report)
assert report
