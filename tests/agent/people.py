"""The people of the agent's tests, and a fake QQ that they talk through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agent.ports import Delivery, Draft, MemberInfo, Notice

BOT, MING, WEI, WANG, STRANGER = 5000000001, 5000000011, 5000000012, 5000000013, 5000000099
GROUP = 5700000001
START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
NUMBERS = {MING: 1, WEI: 2, WANG: 3}
NAMES = {BOT: "小满", MING: "小明", WEI: "阿伟", WANG: "老王"}


@dataclass
class FakeQQ:
    """The platform at the edge: remembers acts; ``deliveries`` are answers to sends, then all are sent."""

    sent: list[Draft] = field(default_factory=list[Draft])
    acts: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    deliveries: list[Delivery | Exception] = field(default_factory=list[Delivery | Exception])
    fails: Exception | None = None

    async def send(self, draft: Draft) -> Delivery:
        self.sent.append(draft)
        if not self.deliveries:
            return Delivery("sent", pos=900 + len(self.sent))
        delivery = self.deliveries.pop(0)
        if isinstance(delivery, Exception):
            raise delivery
        return delivery

    async def poke(self, user_id: int) -> None:
        self._act("poke", user_id)

    async def react(self, pos: int, emoji_id: str) -> None:
        self._act("react", pos, emoji_id)

    async def withdraw(self, pos: int) -> None:
        self._act("withdraw", pos)

    async def member_info(self, user_id: int) -> MemberInfo:
        self._act("member_info", user_id)
        return MemberInfo(user_id, NAMES[user_id], "admin", "桌游王", "42", START, START)

    async def notices(self) -> Sequence[Notice]:
        return [Notice("老王", "周六下午桌游\n【待回应】#1", START)]

    async def essence(self) -> Sequence[Notice]:
        return []

    def _act(self, name: str, target: int, detail: str = "") -> None:
        if self.fails is not None:
            raise self.fails
        self.acts.append((name, target, detail))
