"""Our own accounts: which are connected, which are online, which have been seen where."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from db.models import ConversationId

_PLACES = 10_000


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


class OwnAccounts:
    """What this process knows about own accounts. Rebuilt from connections and rows after a restart."""

    def __init__(self, worker: str = "") -> None:
        self.worker = worker
        self._states: dict[int, AccountState] = {}
        self._places: OrderedDict[ConversationId, list[int]] = OrderedDict()
        self._first_seqs: dict[int, dict[ConversationId, int]] = {}
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
        self._first_seqs[account_id] = {}
        return state

    def saw(self, conversation_id: ConversationId, account_id: int, live_seq: int | None) -> None:
        """Remember which account hears a conversation, and the first real_seq it heard live."""
        hearers = self._places.setdefault(conversation_id, [])
        if not hearers or hearers[-1] != account_id:
            if account_id in hearers:
                hearers.remove(account_id)
            hearers.append(account_id)
        self._places.move_to_end(conversation_id)
        if len(self._places) > _PLACES:
            self._places.popitem(last=False)
        if live_seq is not None:
            self._first_seqs.setdefault(account_id, {}).setdefault(conversation_id, live_seq)

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

    def first_live(self, conversation_id: ConversationId, account_id: int) -> int | None:
        """The first real_seq that an account heard in a conversation since it connected."""
        return self._first_seqs.get(account_id, {}).get(conversation_id)

    def speakers(self, conversation_id: ConversationId, wanted: int | None) -> list[int]:
        """The usable accounts for a conversation, the best first: the one called, then the last one that heard it."""
        candidates = [] if wanted is None else [wanted]
        candidates += reversed(self._places.get(conversation_id, []))
        return [account for account in dict.fromkeys(candidates) if account in self._states and self._states[account].usable]

    def speaker(self, conversation_id: ConversationId, wanted: int | None) -> int | None:
        """The best of the ``speakers``."""
        return next(iter(self.speakers(conversation_id, wanted)), None)
