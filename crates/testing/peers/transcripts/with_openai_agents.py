"""OpenAI's Agents SDK."""

import asyncio
import json

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio
from common import ANSWER, COMMAND, QUESTION, TURNS, write
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class Scripted(Model):
    turn = 0

    async def get_response(self, *_, **__):
        turn, self.turn = self.turn, self.turn + 1
        if turn < len(TURNS):
            output = [
                ResponseFunctionToolCall(
                    type="function_call", call_id=call["id"], name=call["tool"], arguments=json.dumps(call["arguments"])
                )
                for call in TURNS[turn]
            ]
        else:
            text = ResponseOutputText(type="output_text", text=ANSWER, annotations=[])
            output = [ResponseOutputMessage(id="m1", type="message", role="assistant", status="completed", content=[text])]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


async def main():
    set_tracing_disabled(True)
    async with MCPServerStdio(params={"command": COMMAND[0], "args": COMMAND[1:]}) as desk:
        agent = Agent(name="clerk", model=Scripted(), mcp_servers=[desk])
        result = await Runner.run(agent, QUESTION)
    write("openai-agents-items.json", result.to_input_list())


asyncio.run(main())
