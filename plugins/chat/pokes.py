"""How often a nudge may start a turn. In memory: a restart only forgets that somebody nudged lately."""

from __future__ import annotations

from collections import OrderedDict, deque

from db.models import ConversationId

GAP_SECONDS = 30.0
"""Between two nudges that count, in one conversation."""
A_MEMBER = 3
"""Nudges of one member that count within ten minutes."""
MEMBER_SECONDS = 600.0
_KEPT = 2000


class PokeLimit:
    """Lets some nudges through."""

    def __init__(self) -> None:
        self._last: OrderedDict[ConversationId, float] = OrderedDict()
        self._members: OrderedDict[tuple[ConversationId, int], deque[float]] = OrderedDict()

    def allows(self, conversation_id: ConversationId, user_id: int, now: float) -> bool:
        """Tell whether this nudge counts, and remember it if so. ``now``: seconds of a monotonic clock."""
        past = self._members.setdefault((conversation_id, user_id), deque(maxlen=A_MEMBER))
        often = len(past) == A_MEMBER and now - past[0] < MEMBER_SECONDS
        if often or now - self._last.get(conversation_id, -GAP_SECONDS) < GAP_SECONDS:
            return False
        past.append(now)
        self._last[conversation_id] = now
        self._last.move_to_end(conversation_id)
        self._members.move_to_end((conversation_id, user_id))
        while len(self._last) > _KEPT:
            self._last.popitem(last=False)
        while len(self._members) > _KEPT:
            self._members.popitem(last=False)
        return True
