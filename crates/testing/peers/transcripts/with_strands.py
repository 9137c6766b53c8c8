"""Strands Agents on Bedrock's Converse, through boto3; the model's service is scripted."""

import os

from common import ANSWER, COMMAND, QUESTION, TURNS, Service, write
from mcp import StdioServerParameters, stdio_client
from strands import Agent
from strands.models import BedrockModel
from strands.tools.mcp import MCPClient


def reply(turn):
    if turn == len(TURNS):
        reason, content = "end_turn", [{"text": ANSWER}]
    else:
        reason = "tool_use"
        content = [{"toolUse": {"toolUseId": call["id"], "name": call["tool"], "input": call["arguments"]}} for call in TURNS[turn]]
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    message = {"role": "assistant", "content": content}
    return {"output": {"message": message}, "stopReason": reason, "usage": usage, "metrics": {"latencyMs": 1}}


os.environ |= {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
service = Service(reply)
model = BedrockModel(endpoint_url=service.address, region_name="eu-central-1", model_id="scripted", streaming=False)
with MCPClient(lambda: stdio_client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]))) as desk:
    agent = Agent(model=model, tools=desk.list_tools_sync(), callback_handler=None)
    agent(QUESTION)
# The framework keeps images as bytes, which JSON cannot hold; the request has them as boto3 sends them.
write("bedrock-request.json", service.requests[-1])
