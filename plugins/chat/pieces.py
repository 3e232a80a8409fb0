"""One segment of a message, read as what a person sees in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from db.models import Json, JsonObject
from plugins.chat.cards import read_json_card, read_xml_card
from plugins.chat.cqcode import decode_cq
from plugins.chat.faces import face_name
from plugins.chat.fields import as_id, as_int, as_list, as_object, as_text, inner_json
from plugins.chat.hygiene import TEXT_LIMIT, one_line
from plugins.chat.names import visible_name
from plugins.chat.records import Part

_LABEL, _FILE_NAME, _MARKDOWN = 40, 120, 4000
_KIND = re.compile(r"[A-Za-z0-9_.\-]{1,32}")


def segments_of(message: Json, limit: int = 1000) -> Sequence[JsonObject]:
    """List about ``limit`` segments of a message, whatever its format: array, CQ string, or one bare segment."""
    if isinstance(message, str):
        return decode_cq(as_text(message, TEXT_LIMIT * 2), limit)
    if isinstance(message, list | tuple):
        return [segment for segment in map(as_object, message[:limit]) if segment]
    segment = as_object(message)
    return (segment,) if segment else ()


def segment_kind(segment: JsonObject) -> str:
    """Read a segment's type."""
    return as_text(segment.get("type"), 64)


def segment_data(segment: JsonObject) -> JsonObject:
    """Read a segment's data; a text segment may carry its text bare."""
    data = segment.get("data")
    return {"text": data} if isinstance(data, str) else as_object(data)


def read_piece(kind: str, data: JsonObject) -> Part:
    """Read one segment. Unknown kinds read as their name in brackets; replies and forwards are read elsewhere."""
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(data)
    return _FIXED.get(kind) or Part("other", f"[{kind}]" if _KIND.fullmatch(kind) else "[未知内容]")


def file_name(data: JsonObject) -> str:
    """Read the name of a file segment on one line, empty when it has none."""
    return next((name for key in ("name", "file_name", "fileName", "file") if (name := _line(data, key, _FILE_NAME))), "")


def show_size(size: int) -> str:
    """Write a size in bytes as people do: ``717KB``, ``10MB``, ``1.5GB``."""
    if size < 1024:
        return f"{size}B"
    if size < 1024**2:
        return f"{size / 1024:.0f}KB"
    unit, name = (1024**2, "MB") if size < 1024**3 else (1024**3, "GB")
    return f"{size / unit:.1f}".removesuffix(".0") + name


def file_label(name: str, size: int) -> str:
    """Show a file by name and size in bytes (0: unknown): ``[文件 规则书 v2.pdf 717KB]``."""
    pieces = ("文件", name, show_size(size) if size > 0 else "")
    return f"[{' '.join(piece for piece in pieces if piece)}]"


def _line(data: JsonObject, key: str, limit: int = _LABEL) -> str:
    return one_line(as_text(data.get(key), limit * 8), limit)


def _text(data: JsonObject) -> Part:
    return Part("text", as_text(data.get("text")))


def _at(data: JsonObject) -> Part:
    target = data.get("qq")
    if target == "all":
        return Part("at_all", "@全体成员")
    return Part("at", visible_name(as_text(data.get("name"), 200).removeprefix("@")), as_id(target))


def _face(data: JsonObject) -> Part:
    raw = data.get("raw")
    fields = as_object(inner_json(raw) if isinstance(raw, str) else raw)
    name = _line(fields, "faceText").removeprefix("/").strip("[]")
    return Part("face", f"[{name or face_name(as_int(data.get('id'))) or '表情'}]")


_PLAIN_SUMMARIES = frozenset({"", "动画表情", "图片", "表情"})


def _sticker_name(data: JsonObject) -> str:
    return _line(data, "summary").strip("[] ")


def _image(data: JsonObject) -> Part:
    name = _sticker_name(data)
    if data.get("emoji_id") or data.get("key"):
        return _market_face(data)
    sub_type = as_int(data.get("sub_type", data.get("subType")))
    if sub_type == 1 or (sub_type is None and name == "动画表情"):
        return Part("sticker", "[动画表情]" if name in _PLAIN_SUMMARIES else f"[表情:{name}]")
    if as_text(data.get("type"), 8) == "flash":
        return Part("image", "[闪照]")
    return Part("image", "[图片]")


def _market_face(data: JsonObject) -> Part:
    name = _sticker_name(data)
    return Part("sticker", f"[表情:{name}]" if name else "[动画表情]")


def _file(data: JsonObject) -> Part:
    size = as_int(data.get("file_size", data.get("size")))
    return Part("file", file_label(file_name(data), size or 0))


def _online_file(data: JsonObject) -> Part:
    return Part("other", f"[在线文件 {file_name(data)}]".replace(" ]", "]"))


def _labelled(label: str, said: str) -> str:
    return f"[{label}: {said}]" if said else f"[{label}]"


def _dice(data: JsonObject) -> Part:
    return Part("other", _labelled("骰子", _line(data, "result", 8)))


def _rps(data: JsonObject) -> Part:
    return Part("other", _labelled("猜拳", _line(data, "result", 8)))


def _json_card(data: JsonObject) -> Part:
    return Part("card", read_json_card(data.get("data")).shown)


def _xml_card(data: JsonObject) -> Part:
    return Part("card", read_xml_card(data.get("data")).shown)


def _markdown(data: JsonObject) -> Part:
    content = data.get("content")
    text = as_text(content if isinstance(content, str) else data.get("data"), _MARKDOWN).strip()
    return Part("card", text or "[markdown]")


def _place(data: JsonObject) -> Part:
    return Part("card", _labelled("位置", _line(data, "title", 120) or _line(data, "content", 120)))


def _music(data: JsonObject) -> Part:
    return Part("card", _labelled("音乐", _line(data, "title", 120)))


def _share(data: JsonObject) -> Part:
    said = (_line(data, "title", 120), _line(data, "url", 300))
    return Part("card", _labelled("分享", " ".join(piece for piece in said if piece)))


def _contact(data: JsonObject) -> Part:
    group = as_text(data.get("type"), 8) == "group"
    return Part("card", _labelled("推荐群" if group else "推荐好友", _line(data, "id")))


_READERS: Final[dict[str, Callable[[JsonObject], Part]]] = {
    "text": _text,
    "at": _at,
    "face": _face,
    "image": _image,
    "mface": _market_face,
    "marketface": _market_face,
    "file": _file,
    "onlinefile": _online_file,
    "dice": _dice,
    "rps": _rps,
    "json": _json_card,
    "xml": _xml_card,
    "markdown": _markdown,
    "location": _place,
    "music": _music,
    "share": _share,
    "contact": _contact,
}
_FIXED: Final[dict[str, Part]] = {
    "record": Part("voice", "[语音]"),
    "voice": Part("voice", "[语音]"),
    "tts": Part("voice", "[语音]"),
    "video": Part("video", "[视频]"),
    "poke": Part("poke", "[戳一戳]"),
    "shake": Part("poke", "[窗口抖动]"),
    "bface": Part("sticker", "[动画表情]"),
    "flashtransfer": Part("other", "[闪传文件]"),
    "redbag": Part("other", "[红包]"),
    "gift": Part("other", "[礼物]"),
    "forward": Part("forward", "[聊天记录]"),
    "longmsg": Part("forward", "[长消息]"),
}


def inner_list(value: Json) -> Sequence[Json]:
    """Read a list that may have come as JSON text; empty for everything else."""
    return as_list(inner_json(value) if isinstance(value, str) and value.startswith("[{") else value)
