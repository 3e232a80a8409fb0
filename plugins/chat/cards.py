"""Cards (小程序, music, links and the like): JSON or XML made for QQ's client, read as one line of text."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable
from dataclasses import dataclass

from db.models import Json, JsonObject
from plugins.chat.fields import as_int, as_list, as_object, as_text, inner_json
from plugins.chat.hygiene import one_line

PLAIN_CARD = "[卡片]"
_TITLE, _URL, _NOTICE, _LINES = 120, 300, 600, 4


@dataclass(frozen=True, slots=True)
class Card:
    """What a card says. ``forward_id``: the card is a merged forward, to be fetched by this id."""

    shown: str
    forward_id: str | None = None


def read_json_card(data: Json) -> Card:
    """Read a JSON card (an object or its text). What cannot be read is ``[卡片]``."""
    card = as_object(inner_json(data) if isinstance(data, str) else data)
    view = _View(card)
    if not card:
        return Card(PLAIN_CARD)
    read = _BY_APP.get(view.app) or _BY_VIEW.get(as_text(card.get("view"), 40)) or _by_prompt
    return read(view) or _by_prompt(view)


class _View:
    """A card's fields where most apps keep them: in the first object of ``meta``."""

    def __init__(self, card: JsonObject) -> None:
        self.app = as_text(card.get("app"), 80)
        self.prompt = one_line(as_text(card.get("prompt"), 1000), _TITLE)
        meta = as_object(card.get("meta"))
        self.detail = next((inner for inner in map(as_object, meta.values()) if inner), meta)

    def line(self, key: str, limit: int = _TITLE) -> str:
        return one_line(as_text(self.detail.get(key), 4000), limit)

    def url(self, *keys: str) -> str:
        return next((url for url in (self.line(key, _URL) for key in keys) if url), "")


def _labelled(label: str, *pieces: str, between: str = " ") -> Card | None:
    said = between.join(piece for piece in pieces if piece)
    return Card(f"[{label}: {said}]") if said else None


def _by_prompt(view: _View) -> Card:
    return _labelled("卡片", view.prompt) or Card(PLAIN_CARD)


def _mini_app(view: _View) -> Card | None:
    title, said = view.line("title"), view.line("desc")
    # The query of a mini-app link only says who shared it, and from where.
    url = view.url("qqdocurl", "jumpUrl", "url").partition("?")[0]
    rest = " ".join(piece for piece in (said, url) if piece)
    if title and rest:
        return Card(f"[小程序 {title}: {rest}]")
    return _labelled("小程序", title, rest)


def _music(view: _View) -> Card | None:
    return _labelled("音乐", view.line("title"), view.line("desc"), between=" - ")


def _place(view: _View) -> Card | None:
    return _labelled("位置", view.line("name"), view.line("address"))


def _contact(view: _View) -> Card | None:
    group = view.app == "com.tencent.troopsharecard" or "群" in view.line("tag") or "群" in view.prompt
    return _labelled("推荐群" if group else "推荐好友", view.line("nickname"))


def _announcement(view: _View) -> Card | None:
    text = as_text(view.detail.get("text"), 16_000)
    if as_int(view.detail.get("encode")) == 1:
        text = _base64_text(text)
    return _labelled("群公告", one_line(text, _NOTICE))


def _base64_text(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return text


def _share(view: _View) -> Card | None:
    title = view.line("title") or view.line("desc")
    return _labelled("分享", title, view.url("jumpUrl", "url")) if title else None


def _forward(view: _View) -> Card | None:
    news = as_list(view.detail.get("news"))
    lines = [one_line(as_text(as_object(item).get("text"), 1000), _TITLE) for item in news[:_LINES]]
    said = " / ".join([line for line in lines if line] + (["…"] if len(news) > _LINES else []))
    return Card(f"[聊天记录: {said}]" if said else "[聊天记录]", view.line("resid", 256) or None)


_BY_APP: dict[str, Callable[[_View], Card | None]] = {
    "com.tencent.miniapp_01": _mini_app,
    "com.tencent.miniapp": _mini_app,
    "com.tencent.music.lua": _music,
    "com.tencent.map": _place,
    "com.tencent.troopsharecard": _contact,
    "com.tencent.contact.lua": _contact,
    "com.tencent.mannounce": _announcement,
    "com.tencent.multimsg": _forward,
    "com.tencent.tuwen.lua": _share,
}
_BY_VIEW: dict[str, Callable[[_View], Card | None]] = {
    "music": _music,
    "news": _share,
}

_XML_LIMIT = 16_384
_ATTRIBUTE = r'\b{}\s{{0,4}}=\s{{0,4}}"([^"]{{0,2000}})"'
_BRIEF, _XML_URL, _RESID, _SERVICE = (re.compile(_ATTRIBUTE.format(name)) for name in ("brief", "url", "m_resid", "serviceID"))
_XML_TITLE = re.compile(r"<title\b[^<>]{0,200}>([^<]{1,2000})</title>")
_XML_FORWARD = "35"


def read_xml_card(data: Json) -> Card:
    """Read an XML card by its brief, title and link; it is searched, never parsed, so it cannot do harm."""
    text = as_text(data, _XML_LIMIT)
    if _first(_SERVICE, text) == _XML_FORWARD:
        return Card("[聊天记录]", one_line(_first(_RESID, text), 256) or None)
    title = one_line(_first(_XML_TITLE, text), _TITLE)
    url = one_line(_first(_XML_URL, text), _URL)
    if title and url:
        return Card(f"[分享: {title} {url}]")
    return _labelled("卡片", one_line(_first(_BRIEF, text), _TITLE) or title) or Card(PLAIN_CARD)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return html.unescape(match[1]) if match else ""
