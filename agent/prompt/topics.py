"""The block of the topics that the snapshot touches: one line each, as data that cannot forge a line or a notice."""

from __future__ import annotations

from agent.prompt.block import View
from db.learned_models import KnownTopic
from llm.hygiene import cut, one_line
from llm.tokens import estimate

MARKER = "【话题】"
BUDGET = 400
GIST_CHARS = 140
LOOP_CHARS = 40
LOOPS = 2


def topics(view: View) -> str:
    """Render the topics that the snapshot touches, as many whole lines as fit; empty without any."""
    text = ""
    for topic in view.snapshot.learned.topics:
        longer = f"{text}\n{topic_line(topic)}" if text else topic_line(topic)
        if estimate(longer) > BUDGET:
            break
        text = longer
    return text


def topic_line(topic: KnownTopic) -> str:
    """Render ``【话题】周末桌游：约了周六下午（还没说完：谁带牌）``, always one line."""
    loops = "；".join(cut(one_line(loop), LOOP_CHARS) for loop in topic.open_loops[:LOOPS])
    tail = f"（还没说完：{loops}）" if loops else ""
    return f"{MARKER}{one_line(topic.title)}：{cut(one_line(topic.gist), GIST_CHARS)}{tail}"
