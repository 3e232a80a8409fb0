"""Whom a memory is about, as the model names it."""

from __future__ import annotations

from agent.tools.declaration import Refused, ToolContext
from agent.tools.members import resolve
from db.memory_models import BOT, GROUP, Subject

_GROUP = frozenset({"群", "本群", "群里", "这个群", "大家", "group"})
_BOT = frozenset({"自己", "我", "我自己", "机器人", "bot", "self", "me"})
_FRIEND = frozenset({"对方", "好友", "朋友", "friend", "user"})


async def read_subject(ctx: ToolContext, token: str) -> Subject:
    """Find out whom a text means: a member, the group or the bot. Raises Refused."""
    word = token.strip().lstrip("@＠").strip()
    request = ctx.snapshot.request
    if word.lower() in _GROUP:
        if request.conversation.kind == "private":
            raise Refused("这里是私聊，没有群。")
        return GROUP
    if word.lower() in _BOT or word in ctx.snapshot.names or word == str(request.account_id):
        return BOT
    return Subject("member", await one_member(ctx, word))


async def one_member(ctx: ToolContext, token: str) -> int:
    """Find out which one member a text means; in a private conversation 对方 is the friend. Raises Refused."""
    conversation = ctx.snapshot.request.conversation
    if conversation.kind == "private" and token.strip().lower() in _FRIEND:
        return conversation.target_id
    resolved = await resolve(ctx, [token])
    if not resolved.user_ids:
        raise Refused("；".join(resolved.notes) or "没有说是谁。")
    return resolved.user_ids[0]
