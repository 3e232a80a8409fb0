"""Our own accounts: which are connected, which are online, which have been seen where."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from db.models import ConversationId

_PLACES = 10_000
_CLOCK_SAMPLES = 21


@dataclass(slots=True)
class AccountState:
    """An own account in this process. ``online`` is QQ's side, ``connected`` the socket's."""

    account_id: int
    nickname: str = ""
    connected: bool = False
    online: bool = True
    note: str = ""
    warned: bool = False
    """Its owner was told to change its message format."""

    @property
    def usable(self) -> bool:
        """True when a message can leave through it."""
        return self.connected and self.online


@dataclass(frozen=True, slots=True)
class FirstHeard:
    """The first live message after a gap: its order and its time. None: not known."""

    seq: int | None = None
    at: datetime | None = None


class OwnAccounts:
    """What this process knows about own accounts. Rebuilt from connections and rows after a restart."""

    def __init__(self, worker: str = "") -> None:
        self.worker = worker
        self._states: dict[int, AccountState] = {}
        self._places: OrderedDict[ConversationId, list[int]] = OrderedDict()
        self._first_heard: dict[tuple[ConversationId, int], FirstHeard] = {}
        self._unfilled: set[tuple[ConversationId, int]] = set()
        self._unlisted: set[int] = set()
        self._ahead: dict[int, deque[float]] = {}
        self._there: set[tuple[ConversationId, int]] = set()
        self._arriving: set[tuple[ConversationId, int]] = set()

    def get(self, account_id: int) -> AccountState:
        """Give an account's state, making one for a new account."""
        return self._states.setdefault(account_id, AccountState(account_id))

    def know(self, ids: Iterable[int]) -> None:
        """Learn of accounts that are ours, also those that other processes hold."""
        for account_id in ids:
            self.get(account_id)

    @property
    def ids(self) -> frozenset[int]:
        """Every account that is or was ours."""
        return frozenset(self._states)

    @property
    def connected(self) -> frozenset[int]:
        """The accounts with an open socket."""
        return frozenset(state.account_id for state in self._states.values() if state.connected)

    def names(self, fallback: str) -> dict[int, str]:
        """What the connected accounts are called; ``fallback`` before QQ has told."""
        return {account: self._states[account].nickname or fallback for account in self.connected}

    def joined(self, account_id: int) -> AccountState:
        """An account's socket opened: what it hears from now on is live."""
        state = self.get(account_id)
        state.connected, state.online, state.note = True, True, ""
        self.gap(account_id)
        return state

    def gap(self, account_id: int) -> None:
        """An account may have missed something: what it hears from now on is after the gap.

        Where an older gap is not filled yet, the gap still begins there.
        """
        if account_id not in self._unlisted:
            for place in [place for place in self._first_heard if place[1] == account_id and place not in self._unfilled]:
                del self._first_heard[place]
        self._unlisted.add(account_id)

    def listed(self, account_id: int, conversations: Iterable[ConversationId]) -> None:
        """It is known where an account may have missed something."""
        self._unfilled.update((conversation_id, account_id) for conversation_id in conversations)
        self._unlisted.discard(account_id)

    def filled(self, conversation_id: ConversationId, account_id: int) -> None:
        """What an account missed in a conversation was fetched."""
        self._unfilled.discard((conversation_id, account_id))

    def told_time(self, account_id: int, seconds: float) -> None:
        """A live message came this long after QQ's time for it: the two clocks differ by about that."""
        self._ahead.setdefault(account_id, deque(maxlen=_CLOCK_SAMPLES)).append(seconds)

    def ahead(self, account_id: int) -> timedelta:
        """How far our clock is ahead of QQ's, as the latest live messages show; 0 before the first."""
        samples = self._ahead.get(account_id)
        return timedelta(seconds=median(samples)) if samples else timedelta()

    def saw(self, conversation_id: ConversationId, account_id: int, live: FirstHeard | None = None) -> None:
        """Remember which account hears a conversation, and what it heard there first. ``live``: not from history."""
        hearers = self._places.setdefault(conversation_id, [])
        if not hearers or hearers[-1] != account_id:
            if account_id in hearers:
                hearers.remove(account_id)
            hearers.append(account_id)
        self._places.move_to_end(conversation_id)
        if len(self._places) > _PLACES:
            self._places.popitem(last=False)
        if live is not None:
            self._first_heard.setdefault((conversation_id, account_id), live)

    def arrivals(self, places: Iterable[tuple[ConversationId, int]]) -> list[tuple[ConversationId, int]]:
        """Keep the (conversation, account) that are not known to be written down; ``keep`` says that they are now."""
        found = [place for place in dict.fromkeys(places) if place not in self._there and place not in self._arriving]
        self._arriving.update(found)
        return found

    def left(self, conversation_id: ConversationId, account_id: int) -> None:
        """An account is no longer in a group."""
        place = (conversation_id, account_id)
        self._there.discard(place)
        self._arriving.discard(place)
        hearers = self._places.get(conversation_id, [])
        if account_id in hearers:
            hearers.remove(account_id)

    def keep(self) -> None:
        """The transaction is committed: what ``arrivals`` handed out is written down."""
        if len(self._there) > _PLACES:
            self._there.clear()
        self._there |= self._arriving
        self._arriving.clear()

    def forget(self) -> None:
        """The transaction was rolled back."""
        self._arriving.clear()

    def places(self) -> list[tuple[ConversationId, int]]:
        """Which usable account hears which conversation, the longest silent first."""
        found = ((conversation_id, self.speaker(conversation_id, None)) for conversation_id in self._places)
        return [(conversation_id, account_id) for conversation_id, account_id in found if account_id is not None]

    def first_live(self, conversation_id: ConversationId, account_id: int) -> FirstHeard:
        """What an account heard first in a conversation since the oldest gap that is not filled."""
        return self._first_heard.get((conversation_id, account_id), FirstHeard())

    def speakers(self, conversation_id: ConversationId, wanted: int | None) -> list[int]:
        """The usable accounts for a conversation, the best first: the one called, then the last one that heard it."""
        candidates = [] if wanted is None else [wanted]
        candidates += reversed(self._places.get(conversation_id, []))
        return [account for account in dict.fromkeys(candidates) if account in self._states and self._states[account].usable]

    def speaker(self, conversation_id: ConversationId, wanted: int | None) -> int | None:
        """The best of the ``speakers``."""
        return next(iter(self.speakers(conversation_id, wanted)), None)
