"""Merged forwards (聊天记录), read as one bounded line: who said what, nested at most three deep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from db.models import Json, JsonObject
from plugins.chat.cards import read_json_card, read_xml_card
from plugins.chat.fields import as_id, as_list, as_object, as_text
from plugins.chat.hygiene import one_line
from plugins.chat.names import fallback_name, show_name
from plugins.chat.pieces import inner_list, read_piece, segment_data, segment_kind, segments_of
from plugins.chat.records import Part

FORWARD_CHARS = 4000
_NODES, _NODE_SEGMENTS, _NODE_TEXT = 60, 40, 8000
# Characters of a forward and of one line in it, by depth: what is nested fits into the line that holds it.
_ROOM, _NODE_CHARS = (FORWARD_CHARS, 550, 250), (600, 300, 150)
PLAIN_FORWARD = "[聊天记录]"


def render_forward(nodes: Json) -> str:
    """Read a forward's content: a list of nodes or the data that ``get_forward_msg`` answers.

    ``[聊天记录 3条: 小明: 在吗 / 阿伟: [图片] / …]``, about 4000 characters at most; ``[聊天记录]`` when there is nothing in it.
    """
    answer = as_object(nodes)
    listed = next((inner for key in ("messages", "message", "content") if (inner := inner_list(answer.get(key)))), None)
    return _Reader().read(listed if listed is not None else inner_list(nodes), 1)


def read_container(kind: str, data: JsonObject) -> tuple[Part, str | None]:
    """Read a ``forward``, ``json`` or ``xml`` segment.

    The second value is the id by which a forward is fetched, when its content did not come along.
    """
    if kind == "forward":
        content = inner_list(data.get("content"))
        if content:
            return Part("forward", render_forward(content)), None
        ids = (as_text(data.get(key), 256).strip() for key in ("id", "resid", "message_id"))
        return Part("forward", PLAIN_FORWARD), next(filter(None, ids), None)
    card = read_json_card(data.get("data")) if kind == "json" else read_xml_card(data.get("data"))
    return Part("card", card.shown), card.forward_id


class _Reader:
    """Reads one forward and those inside it. ``left``: how many nodes may still be read, over all depths."""

    def __init__(self) -> None:
        self.left = _NODES

    def read(self, nodes: Sequence[Json], depth: int) -> str:
        if not nodes or depth > len(_ROOM):
            return PLAIN_FORWARD
        opened = [_open_node(node) for node in nodes[: self.left]]
        names = {node.user_id: node.name for node in opened if node.user_id}
        room = _ROOM[depth - 1]
        lines: list[str] = []
        for node in opened:
            if self.left <= 0 or room <= 0:
                break
            self.left -= 1
            line = f"{node.name}: {self._said(node.content, names, depth)}"
            lines.append(line if len(line) <= room else line[: room - 1] + "…")
            room -= len(line) + 3
        if len(lines) < len(nodes):
            lines.append("…")
        return f"[聊天记录 {len(nodes)}条: {' / '.join(lines)}]"

    def _said(self, content: Json, names: dict[int, str], depth: int) -> str:
        shown: list[str] = []
        for segment in segments_of(content[:_NODE_TEXT] if isinstance(content, str) else content, _NODE_SEGMENTS):
            kind, data = segment_kind(segment), segment_data(segment)
            if kind in {"forward", "node"}:
                shown.append(self.read(as_list(data.get("content")), depth + 1))
            elif kind != "reply":
                shown.append(_shown(read_piece(kind, data), names))
        return one_line("".join(shown), _NODE_CHARS[depth - 1]) or "[不支持的消息]"


def _shown(part: Part, names: dict[int, str]) -> str:
    if part.kind != "at":
        return part.shown
    return f"@{part.shown or names.get(part.user_id) or fallback_name(part.user_id)} "


@dataclass(frozen=True, slots=True)
class _Node:
    user_id: int
    name: str
    content: Json


def _open_node(node: Json) -> _Node:
    """Read who said it, their name, and the message; both a message event and a ``node`` segment will do."""
    fields = as_object(node)
    fields = as_object(fields.get("data")) or fields
    sender = as_object(fields.get("sender"))
    user_id = as_id(fields.get("user_id")) or as_id(sender.get("user_id")) or as_id(fields.get("uin"))
    nicknames = (as_text(raw, 200) for raw in (sender.get("nickname"), fields.get("nickname"), fields.get("name")))
    name = show_name(as_text(sender.get("card"), 200), next(filter(None, nicknames), ""), user_id)
    contents = (fields.get(key) for key in ("message", "content", "raw_message"))
    return _Node(user_id, name, next((content for content in contents if as_list(content) or isinstance(content, str)), None))
