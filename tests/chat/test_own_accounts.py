"""Several own accounts, here and in other processes: what one hears or suffers is not what all do."""

from __future__ import annotations

from db.models import JsonObject
from tests.chat.world import BOT, BOT2, WANG, World, text


def friend_says(world: World, account_id: int, message_id: int, *parts: JsonObject) -> None:
    """A friend of one account says something. QQ counts these apart for each account."""
    world.event(
        account_id,
        post_type="message",
        message_type="private",
        sub_type="friend",
        user_id=WANG,
        message_id=message_id,
        real_seq="7",
        message=list(parts),
        sender={"user_id": WANG, "nickname": "老王"},
    )


async def test_a_friend_of_two_accounts_is_heard_by_both(world: World) -> None:
    world.connect(BOT2)
    friend_says(world, BOT, 1, text("给一号的话"))
    friend_says(world, BOT2, 2, text("给二号的话"))
    friend_says(world, BOT2, 2, text("给二号的话"))
    await world.settle()
    assert [row["body"] for row in await world.messages() if not row["is_self"]] == ["给一号的话", "给二号的话"]


async def test_a_reply_of_a_friend_shows_what_it_quotes(world: World) -> None:
    friend_says(world, BOT, 1, text("先说的"))
    friend_says(world, BOT, 2, {"type": "reply", "data": {"id": "1"}}, text("接着说"))
    await world.settle()
    row = next(row for row in await world.messages() if row["body"] == "接着说")
    assert (row["quote_name"], row["quote_text"]) == ("老王", "先说的")
