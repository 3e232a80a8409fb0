"""Automatic recall: what the unread messages bring to mind, found before the prompt is made, within a short time."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from agent.naming import about, tagged_names
from agent.snapshot import Remembered, Snapshot
from db.history import Line
from db.members import named_in
from db.memory_models import BOT, GROUP, Scope, Subject, Wish
from db.pool import Database, DatabaseUnavailable
from llm.hygiene import plain_name
from llm.memory.service import MemoryService

logger = logging.getLogger(__name__)

SPEAKERS = 4
LAST_LINES = 5
ASK_CHARS = 300
MOST = 6
"""Memories in one prompt."""
MOST_SUBJECTS = 40
VECTOR_SECONDS = 0.25
SECONDS = 1.0
"""A turn waits no longer for its memories."""
# What stands for a picture, a card and the like says nothing.
_PLACEHOLDER = re.compile(r"\[[^\[\]]{1,20}\]")


async def remember(memory: MemoryService, database: Database, snapshot: Snapshot) -> Snapshot:
    """Add to a snapshot what it brings to mind; without memories, news or success it stays as it is."""
    texts = questions(snapshot) if snapshot.mind.remembers else []
    if not texts:
        return snapshot
    try:
        async with asyncio.timeout(SECONDS):
            return await _remember(memory, database, snapshot, texts)
    except TimeoutError:
        logger.warning("第 %s 轮想起记忆超过 %.0f 秒，这一轮不带记忆", snapshot.request.turn_id, SECONDS)
    except DatabaseUnavailable as error:
        logger.warning("第 %s 轮想起记忆时数据库连不上，这一轮不带记忆：%s", snapshot.request.turn_id, error)
    return snapshot


async def _remember(memory: MemoryService, database: Database, snapshot: Snapshot, texts: Sequence[str]) -> Snapshot:
    where = snapshot.request.conversation.id
    async with database.connection() as conn:
        named = await named_in(conn, where, "\n".join(line.body for line in snapshot.unread)[-4 * ASK_CHARS :])
    users = concerned(snapshot, named)
    present = snapshot.people()
    found = await memory.recall(
        texts,
        Scope((where,), (*(Subject("member", user) for user in users), GROUP, BOT)),
        Wish(limit=MOST, each_first=[user for user in users if user in present]),
        within=VECTOR_SECONDS,
    )
    subjects = [item.memory.subject for item in found]
    names = await tagged_names(database, snapshot, (item.user_id for item in subjects if item.kind == "member"))
    remembered = (Remembered(item.memory, about(item.memory.subject, names)) for item in found)
    return replace(snapshot, memories=tuple(remembered))


def questions(snapshot: Snapshot) -> list[str]:
    """What to ask memory: each unread speaker's own words, latest speaker first, then the last lines; none without news."""
    unread: dict[int, list[Line]] = {}
    for line in snapshot.unread:
        if not line.is_robot:
            unread.setdefault(line.sender_id, []).append(line)
    if not unread:
        return []
    speakers = sorted(unread.values(), key=lambda lines: -lines[-1].pos)[:SPEAKERS]
    last = [*snapshot.rows.earlier, *snapshot.rows.lines][-LAST_LINES:]
    own = [*snapshot.names, *{line.sender_name for line in snapshot.lines if line.is_self}]
    asked = (_words(lines, own) for lines in (*speakers, last))
    return list(dict.fromkeys(text for text in asked if text))


def _words(lines: Sequence[Line], own_names: Sequence[str]) -> str:
    """The newest words of some lines, without placeholders and without the bot being called."""
    text = _PLACEHOLDER.sub(" ", " ".join(line.body for line in lines))
    for name in own_names:
        text = text.replace(f"@{name}", " ")
    return " ".join(text.split())[-ASK_CHARS:].strip()


def concerned(snapshot: Snapshot, named: Iterable[int]) -> list[int]:
    """The members whose memories matter: unread speakers, latest first, whom they reply to, whom they name."""
    by_pos = {line.pos: line.sender_id for line in snapshot.lines if not line.is_self}
    by_name = snapshot.names_to_ids()
    unread = sorted(snapshot.unread, key=lambda line: -line.pos)
    answered: list[int] = []
    for line in unread:
        if line.quoted_pos in by_pos:
            answered.append(by_pos[line.quoted_pos])
        elif line.quote_name:
            answered += sorted(by_name.get(plain_name(line.quote_name), set()))
    users = [*(line.sender_id for line in unread), *answered, *named]
    return [user for user in dict.fromkeys(users) if user != snapshot.request.account_id][:MOST_SUBJECTS]
