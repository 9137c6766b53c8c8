"""The guard for tools of agent frameworks. Each module imports its framework when it is used.

==================================  ==============================================================================================
module                              what it guards
==================================  ==============================================================================================
:mod:`~.adapters.openai_agents`     function tools of the OpenAI Agents SDK, and its tool guardrails
:mod:`~.adapters.langchain`         tools of LangChain and LangGraph
:mod:`~.adapters.pydantic_ai`       toolsets of pydantic-ai
:mod:`~.adapters.crewai`            tools of CrewAI
:mod:`~.adapters.mcp`               the client session of the MCP Python SDK
:mod:`~.adapters.google_adk`        tools of an agent of Google ADK, as a plugin
==================================  ==============================================================================================

In mode ``enforce`` a model is told in place of a result that is not believed why it does not get it; ``on_withheld="raise"`` raises
:class:`~credence_trust.ResultWithheld` instead. ``guard.check(…)`` takes the framework's own messages.
"""
