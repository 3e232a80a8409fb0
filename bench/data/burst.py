"""A burst of mixed events over many groups, as frames ready to send."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass

from bench.data.groups import BOT, Group, called, said
from db.models import JsonObject

NOTICES = 0.04
HEARTBEATS = 0.002
CALLS = 0.005


@dataclass(frozen=True, slots=True)
class Burst:
    """Frames in order of sending. The last one is a message with the id ``last``; ``messages`` of them are messages."""

    frames: tuple[str, ...]
    messages: int
    last: int


def make_burst(groups: list[Group], count: int, seed: int) -> Burst:
    """Make ``count`` events with a fixed seed; the groups' numbering goes on from burst to burst."""
    rng = random.Random(seed)
    weights = [1 / (rank + 3) for rank in range(len(groups))]
    frames: list[str] = []
    messages = 0
    while len(frames) < count - 1:
        group = rng.choices(groups, weights)[0]
        luck = rng.random()
        if luck < HEARTBEATS:
            frames.append(_frame(_heartbeat()))
        elif luck < HEARTBEATS + NOTICES:
            frames.append(_frame(group.notice(rng)))
        else:
            frames.append(_message(group, rng, calls=luck > 1 - CALLS))
            messages += 1
    frames.append(_message(groups[0], rng, calls=False))
    return Burst(tuple(frames), messages + 1, groups[0].recent[-1])


def _message(group: Group, rng: random.Random, *, calls: bool) -> str:
    person = group.speaker(rng)
    return _frame(group.message(person, called(rng) if calls else said(group, rng)))


def _heartbeat() -> JsonObject:
    status = {"online": True, "good": True}
    return {
        "time": int(time.time()),
        "self_id": BOT,
        "post_type": "meta_event",
        "meta_event_type": "heartbeat",
        "status": status,
        "interval": 30000,
    }


def _frame(event: JsonObject) -> str:
    return json.dumps(event, ensure_ascii=False)
