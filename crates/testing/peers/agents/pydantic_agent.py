#!/usr/bin/env python3
"""An agent on pydantic-ai with a scripted model, served over A2A by fasta2a. `pydantic_agent.py [--gullible]` prints its address.

The model calls the tool `open_page` where it is told to open an address; gullible, also where the page or a quoted document tells it.
"""

import socket
import sys

import scripted
import uvicorn
from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

gullible = "--gullible" in sys.argv


def respond(messages, info):
    said, returned = "", []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                said, returned = str(part.content), []
            elif isinstance(part, ToolReturnPart):
                returned.append(str(part.content))
    text = said if gullible else scripted.request(said)
    if gullible:
        text += "\n" + "\n".join(returned)
    wanted = [url.rstrip(".,") for line in scripted.sentences(text) for url in scripted.URL.findall(line) if scripted.re.search(r"(?i)\b(open|fetch|get|load|visit|download)\b", line)]
    wanted = list(dict.fromkeys(wanted))
    if len(returned) < len(wanted):
        return ModelResponse(parts=[ToolCallPart("open_page", {"url": wanted[len(returned)]})])
    answers = scripted.obey(text) + returned
    return ModelResponse(parts=[TextPart("\n".join(answers) or "I have read it.")])


agent = Agent(FunctionModel(respond))


@agent.tool_plain
def open_page(url: str) -> str:
    """Opens a web page."""
    return scripted.fetch(url)


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
app = agent_to_a2a(agent, name="scripted agent", url=origin)
print(origin, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
