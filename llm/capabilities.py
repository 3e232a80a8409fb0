"""What each model can do, by its name, and what must not be sent to it.

Services drop or refuse parameters that a model does not know, often without a word. The table names the cases we
know; a model that matches nothing is taken for a plain OpenAI-compatible one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from db.models import JsonObject
from llm.types import Params, StructuredMode

K = 1024
ThinkingSwitch = Literal["none", "thinking", "enable_thinking", "reasoning_effort"]
ALL_MODES: frozenset[StructuredMode] = frozenset({"json_schema", "json_object", "tool"})
NO_SCHEMA: frozenset[StructuredMode] = frozenset({"json_object", "tool"})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One row of the table. ``window`` in tokens; ``vision`` and ``tool_images``: images, and images beside tools.

    ``thinking``: it reasons before it answers unless switched off; ``switch``: how the service spells that switch;
    ``stream_only_thinking``: reasoning is refused without streaming, and we never stream;
    ``echo``: reasoning must be sent back with the assistant's messages; ``forced_tool``: one function can be required
    (``forced_while_thinking``: also while it reasons); ``temperature``: it is heeded;
    ``alternating``: two messages of a user in a row are refused.
    """

    window: int = 32 * K
    vision: bool = False
    tool_images: bool = False
    thinking: bool = False
    switch: ThinkingSwitch = "none"
    stream_only_thinking: bool = False
    echo: bool = False
    structured: frozenset[StructuredMode] = ALL_MODES
    forced_tool: bool = True
    forced_while_thinking: bool = True
    parallel_tool_calls: bool = False
    temperature: bool = True
    alternating: bool = False


UNKNOWN = Capabilities()
_DEEPSEEK = Capabilities(128 * K, structured=NO_SCHEMA, switch="thinking", echo=True, forced_while_thinking=False)
_DASHSCOPE = Capabilities(128 * K, switch="enable_thinking", structured=NO_SCHEMA, forced_while_thinking=False)
_OPENAI = Capabilities(128 * K, vision=True, tool_images=True, parallel_tool_calls=True)
_OPENAI_THINKS = replace(_OPENAI, window=200 * K, thinking=True, temperature=False, switch="reasoning_effort")
_ARK = Capabilities(128 * K, vision=True, tool_images=True, structured=NO_SCHEMA, switch="thinking")
_GLM = Capabilities(128 * K, structured=NO_SCHEMA, switch="thinking", forced_tool=False)
_KIMI = Capabilities(128 * K, structured=NO_SCHEMA, forced_tool=False)
_LLAMA = Capabilities(32 * K)

# First match wins; patterns are searched in the lower-case name, so vendor prefixes (deepseek-ai/…) do not matter.
_TABLE: tuple[tuple[re.Pattern[str], Capabilities], ...] = tuple(
    (re.compile(pattern), row)
    for pattern, row in (
        # DeepSeek
        (r"r1-distill|deepseek-r1:", replace(_LLAMA, thinking=True, forced_tool=False)),
        (
            r"deepseek[-_]?(reasoner|r1)",
            replace(_DEEPSEEK, thinking=True, switch="none", forced_tool=False, temperature=False, alternating=True),
        ),
        (r"deepseek[-_]?(v4|flash|pro)", replace(_DEEPSEEK, window=512 * K, thinking=True)),
        (r"deepseek[-_]?(chat|v3)", replace(_DEEPSEEK, window=64 * K)),
        (r"deepseek", _DEEPSEEK),
        # Qwen; QwQ and the -thinking ones cannot be switched off
        (r"qwen.*vl|qvq|qwen.*omni", replace(_DASHSCOPE, vision=True, tool_images=False, switch="none")),
        (
            r"qwq|qwen.*thinking",
            replace(_DASHSCOPE, thinking=True, switch="none", forced_tool=False, structured=frozenset({"tool"})),
        ),
        (r"qwen.*(turbo|long|flash)", replace(_DASHSCOPE, window=512 * K)),
        (r"qwen2|qwen.*instruct|qwen.*coder", replace(_DASHSCOPE, window=32 * K, switch="none")),
        (r"qwen3[:-]", replace(_DASHSCOPE, window=32 * K, thinking=True, stream_only_thinking=True)),
        (r"qwen", _DASHSCOPE),
        # Doubao on Ark; an endpoint id (ep-…) hides the model
        (r"doubao.*(seed|thinking)", replace(_ARK, window=224 * K, thinking=True, forced_while_thinking=False)),
        (r"doubao", _ARK),
        (r"^ep-\d", Capabilities(32 * K, structured=NO_SCHEMA, forced_tool=False)),
        # GLM, Kimi, MiniMax
        (r"glm-?[\d.]+v", replace(_GLM, window=64 * K, vision=True, thinking=True)),
        (r"glm-?(4\.[5-9]|[5-9]|z1)", replace(_GLM, thinking=True, echo=True)),
        (r"glm", replace(_GLM, switch="none")),
        (r"kimi-?k2[.-]?\d*-?thinking", replace(_KIMI, window=256 * K, thinking=True, echo=True, temperature=False)),
        (
            r"kimi-?k(2\.[5-9]|[3-9])",
            replace(_KIMI, window=256 * K, vision=True, thinking=True, switch="thinking", echo=True, temperature=False),
        ),
        (r"moonshot.*-8k", replace(_KIMI, window=8 * K)),
        (r"moonshot.*-32k", replace(_KIMI, window=32 * K)),
        (r"moonshot|kimi", _KIMI),
        (r"minimax", Capabilities(192 * K, thinking=True, structured=NO_SCHEMA, forced_tool=False)),
        # OpenAI
        (r"gpt-5.*chat", _OPENAI),
        (r"gpt-5|gpt-6", replace(_OPENAI_THINKS, window=256 * K)),
        (r"gpt-4\.1", replace(_OPENAI, window=1000 * K)),
        (r"gpt-4o|chatgpt-4o", _OPENAI),
        (r"gpt-4-turbo", replace(_OPENAI, structured=NO_SCHEMA)),
        (r"gpt-4", Capabilities(8 * K, structured=frozenset({"tool"}), parallel_tool_calls=True)),
        (r"gpt-3\.5", Capabilities(16 * K, structured=NO_SCHEMA, parallel_tool_calls=True)),
        (r"gpt-oss", Capabilities(128 * K, thinking=True)),
        (r"(^|/)o1-(mini|preview)", replace(_OPENAI_THINKS, window=128 * K, vision=False, forced_tool=False)),
        (r"(^|/)o[1-9]([-.:]|$)", replace(_OPENAI_THINKS, parallel_tool_calls=False)),
        # Others behind an OpenAI-compatible gateway
        (r"claude", Capabilities(200 * K, vision=True, tool_images=True, structured=frozenset({"tool"}))),
        (r"gemini", Capabilities(1000 * K, vision=True, tool_images=True, thinking=True, switch="reasoning_effort")),
        (r"grok", Capabilities(128 * K, vision=True, tool_images=True)),
        # Local servers cut what passes their own, smaller setting without a word: assume little
        (r"gemma-?3", replace(_LLAMA, vision=True, alternating=True)),
        (r"gemma|mistral|mixtral", replace(_LLAMA, alternating=True)),
        (r"llama-?3\.2-vision|llava", replace(_LLAMA, vision=True)),
        (r"llama|phi", _LLAMA),
    )
)


def capabilities_of(model: str) -> Capabilities:
    """Look a model up by its name."""
    name = model.lower()
    return next((row for pattern, row in _TABLE if pattern.search(name)), UNKNOWN)


def structured_mode(wanted: StructuredMode, capabilities: Capabilities) -> StructuredMode:
    """Choose how to ask for structured output: as set, or the nearest way that the model heeds."""
    if wanted in capabilities.structured:
        return wanted
    return "json_object" if "json_object" in capabilities.structured else "tool"


def strip(params: Params, capabilities: Capabilities) -> Params:
    """Take out what the model would refuse or silently ignore."""
    wanted = False if capabilities.stream_only_thinking else params.thinking
    thinking = wanted if capabilities.switch != "none" else None
    thinks = capabilities.thinking if thinking is None else thinking
    forced = capabilities.forced_tool and (capabilities.forced_while_thinking or not thinks)
    heeds_temperature = capabilities.temperature and not (thinks and capabilities.echo)
    return replace(
        params,
        thinking=thinking,
        temperature=params.temperature if heeds_temperature else None,
        forced_tool=params.forced_tool if forced and params.tools else None,
        parallel_tool_calls=params.parallel_tool_calls if capabilities.parallel_tool_calls and params.tools else None,
        response_format=_fitting(params, capabilities),
    )


def _fitting(params: Params, capabilities: Capabilities) -> JsonObject | None:
    """A response format beside tools, or of a kind that the model does not know, is dropped."""
    wanted = params.response_format
    if wanted is None or params.tools:
        return None
    return wanted if wanted.get("type") in capabilities.structured else None


# What a service says when it does not know one of our optional parameters, and which of ours it means.
_RELAX: tuple[tuple[re.Pattern[str], Literal["temperature", "response_format", "thinking", "parallel", "tool_choice"]], ...] = (
    (re.compile(r"temperature", re.IGNORECASE), "temperature"),
    (re.compile(r"response_?format|json_schema|json_object|structured output", re.IGNORECASE), "response_format"),
    (re.compile(r"enable_thinking|thinking|reasoning_effort", re.IGNORECASE), "thinking"),
    (re.compile(r"parallel_tool_calls", re.IGNORECASE), "parallel"),
    (re.compile(r"tool_choice", re.IGNORECASE), "tool_choice"),
)


def blames_format(words: str) -> bool:
    """Tell whether a refusal is about the response format."""
    return any(name == "response_format" and pattern.search(words) for pattern, name in _RELAX)


def relax(params: Params, words: str) -> Params | None:
    """Leave out the optional parameter that a refusal complains about; None when it names none that was sent."""
    blamed = {name for pattern, name in _RELAX if pattern.search(words)}
    relaxed = replace(
        params,
        temperature=None if "temperature" in blamed else params.temperature,
        response_format=None if "response_format" in blamed else params.response_format,
        thinking=None if "thinking" in blamed else params.thinking,
        parallel_tool_calls=None if "parallel" in blamed else params.parallel_tool_calls,
        forced_tool=None if "tool_choice" in blamed else params.forced_tool,
    )
    return relaxed if relaxed != params else None
