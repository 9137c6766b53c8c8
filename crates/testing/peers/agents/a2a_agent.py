#!/usr/bin/env python3
"""An agent on the official A2A SDK. `a2a_agent.py [--gullible] [--opens]` prints its address.

Gullible: it also obeys what stands in quoted documents. It opens web pages with `--opens`.
"""

import socket
import sys

import scripted
import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

gullible, opens, rest = ("--gullible" in sys.argv), ("--opens" in sys.argv), ("--rest" in sys.argv)


class Executor(AgentExecutor):
    async def execute(self, context, event_queue):
        text = context.get_user_input()
        answers = scripted.obey(text if gullible else scripted.request(text), opens)
        await event_queue.enqueue_event(new_text_message("\n".join(answers) or "I have read it."))

    async def cancel(self, context, event_queue):
        raise NotImplementedError


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
binding = "HTTP+JSON" if rest else "JSONRPC"
card = AgentCard(
    name="scripted agent",
    description="Reads texts and does small tasks.",
    version="1.0.0",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=False),
    supported_interfaces=[AgentInterface(url=f"{origin}/a2a", protocol_binding=binding, protocol_version="1.0")],
    skills=[AgentSkill(id="read", name="Read", description="Reads a text", tags=["text"])],
)
handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
routes = create_agent_card_routes(card)
routes += create_rest_routes(handler, path_prefix="/a2a") if rest else create_jsonrpc_routes(handler, "/a2a")
print(origin, flush=True)
uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error")).run(sockets=[listener])
