"""Owner commands: who may use which, and what they do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from db import conversations, forget, members, unlearned
from db.models import Conversation, ConversationId, Role
from db.moderation import ConversationSettings, change_settings
from db.pool import Connection, Database
from persona.loader import PersonaMissing, list_personas, load_persona
from plugins.chat.commands_text import USAGE, Command, CommandKind
from plugins.chat.effects import Ordered
from plugins.chat.rules import STAFF, daily_calls, is_enabled, is_quiet, talk_frequency
from settings import Settings

Right = Literal["owner", "staff", "anyone"]

RIGHTS: dict[CommandKind, Right] = {
    "status": "anyone",
    "help": "anyone",
    "forget": "anyone",
    "unlearn": "anyone",
    "learn": "anyone",
    "stop": "staff",
    "quiet": "staff",
    "unquiet": "staff",
    "disable": "staff",
    "enable": "owner",
    "persona": "owner",
}
_REFUSALS: dict[Right, str] = {
    "owner": "这个命令只有机器人的主人能用",
    "staff": "这个命令只有机器人的主人、群主和管理员能用",
    "anyone": "",
}
_OWN_RIGHTS = frozenset({"forget", "unlearn", "learn"})
"""What everybody may say about themselves, also where the bot was closed: it may still keep something of them."""


def may_use(kind: CommandKind, *, superuser: bool, role: Role, private: bool) -> str:
    """Say why somebody may not use a command; empty: they may. In a private chat only the owner is staff."""
    right = RIGHTS[kind]
    staff = superuser or (not private and role in STAFF)
    allowed = right == "anyone" or superuser or (right == "staff" and staff)
    return "" if allowed else _REFUSALS[right]


@dataclass(frozen=True, slots=True)
class Levers:
    """What commands move besides rows."""

    stop: Callable[[Conversation], Awaitable[bool]]
    quit: Callable[[Conversation], Awaitable[None]]
    opened: Callable[[Conversation, int], None]
    look: Callable[[Conversation], None]
    running: Callable[[], int]
    spent: Callable[[ConversationId], Awaitable[int]]
    clock: Callable[[], datetime]


class Commands:
    """Carries commands out and says what happened, in one short Chinese text."""

    def __init__(self, database: Database, settings: Settings, levers: Levers) -> None:
        self._database = database
        self._settings = settings
        self._levers = levers

    async def run(self, order: Ordered) -> str | None:
        """Carry out one command; returns the answer. None: stay silent (a stranger in a group that is not enabled)."""
        where, kind = order.conversation, order.command.kind
        superuser = order.sender.user_id in self._settings.superusers
        if not superuser and kind not in _OWN_RIGHTS and not is_enabled(where, self._settings):
            return None
        refusal = may_use(kind, superuser=superuser, role=await self._role(order), private=where.kind == "private")
        if refusal:
            return refusal
        if kind == "status":
            return await self._status(where)
        async with self._database.transaction() as conn:
            answer = await self._do(conn, order)
        return await self._move(order) or answer or None

    async def _role(self, order: Ordered) -> Role:
        if order.sender.role != "unknown":
            return order.sender.role
        async with self._database.connection() as conn:
            return await members.role_of(conn, order.conversation.id, order.sender.user_id)

    async def _move(self, order: Ordered) -> str:
        """Move what runs, after the rows are changed; an answer where that says more than the rows."""
        where = order.conversation
        match order.command.kind:
            case "stop":
                return "好，停下了" if await self._levers.stop(where) else "现在没有在进行的一轮"
            case "disable":
                await self._levers.quit(where)
            case "enable":
                self._levers.opened(where, order.account_id)
            case "unquiet":
                self._levers.look(where)
            case _:
                pass
        return ""

    async def _do(self, conn: Connection, order: Ordered) -> str:
        command = order.command
        match command.kind:
            case "enable" | "disable":
                return await self._enable(conn, order, on=command.kind == "enable")
            case "quiet" | "unquiet":
                return await self._quiet(conn, order, command)
            case "persona":
                return await self._persona(conn, order, command.name)
            case "forget":
                return await self._forget(conn, order)
            case "unlearn" | "learn":
                return await self._learn(conn, order, on=command.kind == "learn")
            case "help":
                return f"{command.error}\n{USAGE}" if command.error else USAGE
            case "stop" | "status":
                return ""

    async def _status(self, where: Conversation) -> str:
        now = self._levers.clock()
        used = await self._levers.spent(where.id)
        enabled = "已开启" if is_enabled(where, self._settings) else "未开启"
        model = "演示模型（不是语言模型）" if self._settings.demo else self._settings.llm_model
        quiet = "，现在安静中" if is_quiet(where, self._settings, now) else ""
        return (
            f"{enabled}，人格 {where.persona or self._settings.persona}，模型 {model}\n"
            f"插话频率 {talk_frequency(where, self._settings):g}{quiet}\n"
            f"今日模型调用 {used}/{daily_calls(where, self._settings)}，正在进行 {self._levers.running()} 轮"
        )

    async def _enable(self, conn: Connection, order: Ordered, *, on: bool) -> str:
        where = order.conversation
        await change_settings(conn, where.id, ConversationSettings(enabled=on), actor=str(order.sender.user_id))
        return "好，我在这里开工了" if on else "好，我在这里不再看也不再说了"

    async def _quiet(self, conn: Connection, order: Ordered, command: Command) -> str:
        if command.kind == "unquiet":
            await conversations.set_quiet(conn, order.conversation.id, until=None)
            return "好，不用安静了"
        until = self._levers.clock() + timedelta(minutes=command.minutes)
        await conversations.set_quiet(conn, order.conversation.id, until=until)
        local = until.astimezone(self._settings.zone)
        return f"好，安静到 {local:%m-%d %H:%M}，期间只回点名叫我的"

    async def _forget(self, conn: Connection, order: Ordered) -> str:
        gone = await forget.member(conn, order.conversation.id, order.sender.user_id)
        if not gone.messages and not gone.memories and not is_enabled(order.conversation, self._settings):
            return ""  # nothing is kept here, and nobody asked for a bot here
        return (
            f"好，已经忘记你了：你在这里的 {gone.messages} 条消息我不会再看，由此记下的 {gone.memories} 条记忆也删掉了。"
            "不想再被记住，可以发 /群友 别记我"
        )

    async def _learn(self, conn: Connection, order: Ordered, *, on: bool) -> str:
        where, user_id = order.conversation, order.sender.user_id
        if not is_enabled(where, self._settings) and where.last_pos == 0:
            return ""  # nothing was ever kept here
        if on:
            changed = await unlearned.clear(conn, where.id, user_id)
            return "好，以后可以记你说的事了" if changed else "我本来就可以记你说的事"
        changed = await unlearned.set(conn, where.id, user_id)
        head = "好，以后不再记你的事" if changed else "已经不记你的事了"
        return f"{head}。以前记下的还在，要删掉就发 /群友 忘记我"

    async def _persona(self, conn: Connection, order: Ordered, name: str) -> str:
        where = order.conversation
        known = "、".join(list_personas(self._settings.data_dir))
        if not name:
            return f"现在是 {where.persona or self._settings.persona}；可选：{known}"
        try:
            persona = load_persona(name, self._settings.data_dir)
        except PersonaMissing as error:
            return str(error)
        await change_settings(conn, where.id, ConversationSettings(persona=name), actor=str(order.sender.user_id))
        return f"好，换成「{persona.title}」"
