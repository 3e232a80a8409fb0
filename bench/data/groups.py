"""Made-up groups as NapCat reports them: messages, notices and heartbeats with numbers that cannot be real."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field

from bench.data import words
from db.models import Json, JsonObject

BOT = 5000000001
FIRST_PERSON = 5000000100
FIRST_GROUP = 5700000001
PEOPLE = 30
_NAMES = words.among(
    "小明 阿伟 老王 小红 糖糖 石榴 北北 大树 鱼丸 橘子 阿杰 南瓜 小雨 木头 老陈 团子 七七 阿宁 三木 麦子 "
    "小鹿 白茶 阿福 青椒 二毛 晚风 豆包 小舟 阿土 山雀"
)
_CARDS = ("", "", "", "·今天早睡", "(出差中)", "|摸鱼", "不加班", "·减肥第3天")
# Odd, so that the product runs through all 31-bit numbers without repeating: ids look as hashed as QQ's.
_SCATTER = 2654435761


@dataclass(frozen=True, slots=True)
class Person:
    """A member of a made-up group."""

    user_id: int
    nickname: str
    card: str
    role: str


@dataclass(slots=True)
class Group:
    """One group and where its numbering stands. ``number`` counts from 0."""

    number: int
    seq: int = 1000
    recent: deque[int] = field(default_factory=lambda: deque[int](maxlen=30))
    people: tuple[Person, ...] = ()

    def __post_init__(self) -> None:
        rng = random.Random(self.number)
        first = FIRST_PERSON + self.number * 100
        roles = ["owner", "admin", "admin"] + ["member"] * (PEOPLE - 3)
        self.people = tuple(
            Person(first + index, name, f"{name}{card}" if (card := rng.choice(_CARDS)) else "", roles[index])
            for index, name in enumerate(_NAMES)
        )

    @property
    def group_id(self) -> int:
        """Its number on QQ."""
        return FIRST_GROUP + self.number

    @property
    def name(self) -> str:
        """Its name."""
        return f"测试群{self.number + 1}"

    def speaker(self, rng: random.Random) -> Person:
        """Pick somebody: few talk much, many a little."""
        return rng.choices(self.people, [1 / (rank + 2) for rank in range(PEOPLE)])[0]

    def message(self, person: Person, segments: list[Json]) -> dict[str, Json]:
        """The event of a message; takes the next numbers."""
        self.seq += 1
        message_id = ((self.number * 1_000_000 + self.seq) * _SCATTER) % 2**31
        self.recent.append(message_id)
        return {
            "self_id": BOT,
            "user_id": person.user_id,
            "time": int(time.time()),
            "message_id": message_id,
            "message_seq": message_id,
            "real_id": message_id,
            "real_seq": str(self.seq),
            "message_type": "group",
            "sender": {"user_id": person.user_id, "nickname": person.nickname, "card": person.card, "role": person.role},
            "raw_message": "".join(_raw(segment) for segment in segments),
            "font": 14,
            "sub_type": "normal",
            "message": segments,
            "message_format": "array",
            "post_type": "message",
            "group_id": self.group_id,
            "group_name": self.name,
        }

    def notice(self, rng: random.Random) -> dict[str, Json]:
        """An event of something other than talk."""
        one, other = rng.sample(self.people, 2)
        base: dict[str, Json] = {"time": int(time.time()), "self_id": BOT, "post_type": "notice", "group_id": self.group_id}
        kind = rng.choices(("poke", "recall", "card", "reaction", "join", "leave"), (30, 25, 15, 20, 5, 5))[0]
        match kind:
            case "poke":
                info: list[Json] = [{"txt": "戳了戳"}, {"txt": "的键盘"}]
                return base | {
                    "notice_type": "notify",
                    "sub_type": "poke",
                    "user_id": one.user_id,
                    "target_id": other.user_id,
                    "raw_info": info,
                }
            case "recall" if self.recent:
                message_id = rng.choice(self.recent)
                return base | {
                    "notice_type": "group_recall",
                    "user_id": one.user_id,
                    "operator_id": one.user_id,
                    "message_id": message_id,
                }
            case "card":
                return base | {
                    "notice_type": "group_card",
                    "user_id": one.user_id,
                    "card_new": one.card or one.nickname,
                    "card_old": "",
                }
            case "reaction" if self.recent:
                likes: list[Json] = [{"emoji_id": "76", "count": 1}]
                return base | {
                    "notice_type": "group_msg_emoji_like",
                    "user_id": one.user_id,
                    "message_id": rng.choice(self.recent),
                    "likes": likes,
                    "is_add": True,
                }
            case "leave":
                return base | {
                    "notice_type": "group_decrease",
                    "sub_type": "leave",
                    "user_id": one.user_id,
                    "operator_id": 0,
                }
            case _:
                return base | {
                    "notice_type": "group_increase",
                    "sub_type": "approve",
                    "user_id": one.user_id,
                    "operator_id": 0,
                }


def text(value: str) -> JsonObject:
    """A text segment."""
    return {"type": "text", "data": {"text": value}}


def at(user_id: int) -> JsonObject:
    """A mention."""
    return {"type": "at", "data": {"qq": str(user_id)}}


def reply(message_id: int) -> JsonObject:
    """A quote."""
    return {"type": "reply", "data": {"id": str(message_id)}}


def image(rng: random.Random, *, sticker: bool) -> JsonObject:
    """A photo or a custom sticker."""
    name = f"{rng.getrandbits(128):032X}.jpg"
    return {
        "type": "image",
        "data": {
            "summary": "[动画表情]" if sticker else "",
            "file": name,
            "sub_type": 1 if sticker else 0,
            "url": f"https://example.invalid/download?appid=1407&fileid={name}&rkey={rng.getrandbits(200):050x}",
            "file_size": str(rng.randint(20_000, 900_000)),
        },
    }


def face(rng: random.Random) -> JsonObject:
    """A classic face."""
    number = rng.choice((178, 76, 271, 318, 264))
    return {"type": "face", "data": {"id": str(number), "raw": {"faceIndex": number, "faceText": "/斜眼笑"}}}


def said(group: Group, rng: random.Random) -> list[Json]:
    """What somebody sends: mostly text, some quotes, mentions of others, faces and pictures."""
    kinds = ("text", "reply", "at", "face", "sticker", "photo")
    kind = rng.choices(kinds, (76, 8, 4, 4, 5, 3))[0]
    match kind:
        case "reply" if group.recent:
            return [reply(rng.choice(group.recent)), text(words.line(rng))]
        case "at":
            return [at(rng.choice(group.people).user_id), text(f" {words.line(rng)}")]
        case "face":
            return [text(words.short(rng)), face(rng)]
        case "sticker":
            return [image(rng, sticker=True)]
        case "photo":
            return [image(rng, sticker=False), text(words.short(rng))]
        case _:
            return [text(words.line(rng))]


def called(rng: random.Random) -> list[Json]:
    """What somebody sends to call the bot."""
    return [at(BOT), text(f" {words.middle(rng)}")]


def _raw(segment: Json) -> str:
    match segment:
        case {"type": "text", "data": {"text": str(value)}}:
            return value
        case {"type": str(kind)}:
            return f"[CQ:{kind}]"
        case _:
            return ""
