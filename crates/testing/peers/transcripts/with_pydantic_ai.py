"""Pydantic AI, and the OpenTelemetry spans that it emits."""

import asyncio
import json

from common import ANSWER, COMMAND, QUESTION, TURNS, write
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.mcp import MCPToolset, StdioTransport
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def scripted(messages, _):
    said = sum(isinstance(message, ModelResponse) for message in messages)
    if said == len(TURNS):
        return ModelResponse(parts=[TextPart(ANSWER)])
    return ModelResponse(parts=[ToolCallPart(call["tool"], call["arguments"], tool_call_id=call["id"]) for call in TURNS[said]])


async def main():
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    desk = MCPToolset(StdioTransport(COMMAND[0], COMMAND[1:]))
    watched = Instrumentation(InstrumentationSettings(tracer_provider=provider))
    agent = Agent(FunctionModel(scripted), toolsets=[desk], capabilities=[watched])
    async with agent:
        result = await agent.run(QUESTION)
    write("pydantic-ai-messages.json", json.loads(result.all_messages_json()))
    written = [json.loads(span.to_json()) for span in spans.get_finished_spans()]
    # Stack traces name files of this machine.
    for event in [event for span in written for event in span["events"]]:
        event["attributes"].pop("exception.stacktrace", None)
    write("opentelemetry-spans.json", written)


asyncio.run(main())
