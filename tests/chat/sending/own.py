"""Small helpers about own messages."""

from __future__ import annotations

from db.models import JsonObject
from plugins.chat.outbox import Address
from tests.chat.edges import where
from tests.chat.world import BOT, World


async def address(world: World, account: int = BOT) -> Address:
    """The group, from an own account."""
    return Address(await where(world), account)


def echo(world: World, *parts: str | JsonObject, account: int = BOT, **more: object) -> JsonObject:
    """The event by which QQ shows the bot's own message; to another own account it is an ordinary message."""
    kind = "message_sent" if account == BOT else "message"
    fields: dict[str, object] = {"post_type": kind, "sender": {"user_id": BOT, "nickname": "小满"}, **more}
    return world.event(account, **world.message(*parts, user=BOT, **fields))  # type: ignore[arg-type]


async def own_rows(world: World) -> list[dict[str, object]]:
    """The stored own messages."""
    return [row for row in await world.messages() if row["is_self"]]
