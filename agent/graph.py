"""The graph of one turn: ask the model, run its calls, until a call ends the turn."""

# LangGraph leaves type arguments open in its own signatures (add_node, compile, ainvoke).
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from agent.context import TurnContext
from agent.prompt.texts import template
from agent.state import TurnState, fresh_state
from agent.tools.execute import read_calls, run_calls

TurnGraph: TypeAlias = "CompiledStateGraph[TurnState, TurnContext, TurnState, TurnState]"
Update: TypeAlias = Mapping[str, object]


def build_graph() -> TurnGraph:
    """Wire the graph; one instance serves all turns."""
    graph = StateGraph(TurnState, context_schema=TurnContext)
    graph.add_node("model", ask_model)
    graph.add_node("tools", run_tools)
    graph.add_node("correct", correct)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", after_model, ["tools", "correct", END])
    graph.add_conditional_edges("tools", after_tools, ["model", END])
    graph.add_edge("correct", "model")
    return graph.compile(name="turn")


async def run_graph(graph: TurnGraph, context: TurnContext) -> TurnState:
    """Run one turn to its end. Raises ModelError."""
    # A model call takes at most three nodes: itself, its calls, a correction.
    config: RunnableConfig = {"recursion_limit": 3 * context.max_model_calls + 3}
    return cast(TurnState, await graph.ainvoke(fresh_state(), config, context=context))


async def ask_model(state: TurnState, runtime: Runtime[TurnContext]) -> Update:
    """Call the model once; prose decides the outcome unless it may still be corrected."""
    context = runtime.context
    number = state["model_calls"] + 1
    reply = await context.asker.ask(state["exchange"], ledger=context.tools.ledger, recorder=context.recorder)
    message, calls = read_calls(reply, state["tool_calls"])
    update: dict[str, object] = {
        "exchange": [message],
        "calls": calls,
        "model_calls": number,
        "tool_calls": state["tool_calls"] + len(calls),
    }
    if not calls and not _may_correct(state, context, number):
        update["outcome"] = "no_tool_call"
    return update


def _may_correct(state: TurnState, context: TurnContext, number: int) -> bool:
    unsaid = context.must_act and not context.tools.ledger.spoken
    return unsaid and not state["corrected"] and number < context.max_model_calls


async def run_tools(state: TurnState, runtime: Runtime[TurnContext]) -> Update:
    """Run the calls of the latest reply in order."""
    context = runtime.context
    acted = await run_calls(context.tools, context.toolbox, context.recorder, state["calls"])
    outcome = acted.ends
    if outcome is None and state["model_calls"] >= context.max_model_calls:
        outcome = "step_limit"
    return {"exchange": list(acted.messages), "outcome": outcome}


async def correct(state: TurnState) -> Update:
    """Tell the model, once, that only calls act."""
    return {"exchange": [HumanMessage(template("correction"))], "corrected": True}


def after_model(state: TurnState) -> str:
    """Calls are run; prose is corrected or ends the turn."""
    if state["calls"]:
        return "tools"
    return END if state["outcome"] else "correct"


def after_tools(state: TurnState) -> str:
    """Go on until a call or the limit ended the turn."""
    return END if state["outcome"] else "model"
