"""LangGraph with LangChain's MCP adapters."""

import asyncio

from common import ANSWER, COMMAND, QUESTION, TURNS, write
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, convert_to_openai_messages, messages_to_dict
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **_):
        said = sum(isinstance(message, AIMessage) for message in messages)
        if said == len(TURNS):
            message = AIMessage(ANSWER)
        else:
            calls = [{"name": call["tool"], "args": call["arguments"], "id": call["id"]} for call in TURNS[said]]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


async def main():
    client = MultiServerMCPClient({"desk": {"transport": "stdio", "command": COMMAND[0], "args": COMMAND[1:]}})
    async with client.session("desk") as session:
        model = Scripted()
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_node("tools", ToolNode(await load_mcp_tools(session)))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        state = await graph.compile().ainvoke({"messages": [("user", QUESTION)]})
    messages = state["messages"]
    write("langgraph-state.json", {"messages": [message.model_dump(mode="json") for message in messages]})
    write("langchain-messages.json", messages_to_dict(messages))
    write("langchain-dumps.json", dumps(state, pretty=True))
    write("langchain-openai.json", convert_to_openai_messages(messages))


asyncio.run(main())
