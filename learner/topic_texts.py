"""What a model is shown about topics. Every text of the group is one line that nobody can forge. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from db.history import Line
from db.topics import OpenTopic, Standing
from learner.task import Batch
from learner.transcript import transcript
from llm.hygiene import cut, one_line
from llm.lines import day_clock, label, render_line

GIST_CHARS = 80
LINE_CHARS = 200


def assignment_text(batch: Batch, known: Sequence[OpenTopic], zone: ZoneInfo) -> str:
    """The open topics, the batch, and which of its messages are to be placed."""
    topics = [_open(number, topic, zone) for number, topic in enumerate(known, 1)]
    wanted = " ".join(label(pos) for pos in sorted(batch.sources))
    return "\n".join(["已有话题：", *(topics or ["（没有）"]), "聊天：", transcript(batch, zone), f"要分的消息：{wanted}"])


def _open(number: int, topic: OpenTopic, zone: ZoneInfo) -> str:
    if topic.title:
        told = f"{one_line(topic.title)}：{cut(one_line(topic.gist), GIST_CHARS)}"
    else:
        told = f"（还没有摘要，最后一句：{cut(one_line(topic.last_words), GIST_CHARS)}）"
    return f"T{number} {told}（最近 {day_clock(topic.last_at, zone)}）"


def summary_text(threads: Sequence[tuple[Standing | None, Sequence[Line]]], zone: ZoneInfo) -> str:
    """The topics as T1, T2, …, each with its summary as it stands and the messages that it does not hold yet."""
    return "\n".join(_thread(number, standing, lines, zone) for number, (standing, lines) in enumerate(threads, 1))


def _thread(number: int, standing: Standing | None, lines: Sequence[Line], zone: ZoneInfo) -> str:
    head = [f"【T{number}】"]
    if standing is not None and standing.base is not None:
        loops = "；".join(one_line(loop) for loop in standing.open_loops)
        open_loops = f"（还没说完：{loops}）" if loops else ""
        head.append(f"已有摘要：{one_line(standing.title)}：{one_line(standing.gist)}{open_loops}")
    return "\n".join([*head, *(_line(line, zone) for line in lines)])


def _line(line: Line, zone: ZoneInfo) -> str:
    """One message. What it quotes is told by its label only: a summary stands on its own messages, not on others' words."""
    shown = line if line.quoted_pos is not None else replace(line, quote_name=None)
    return render_line(shown, day_clock(line.sent_at, zone), chunk_start=0, limit=LINE_CHARS)
