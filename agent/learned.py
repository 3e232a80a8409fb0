"""What the learner found and a snapshot touches, read before the prompt is made, within a short time."""

from __future__ import annotations

import asyncio
import logging

from agent.remembering import concerned
from agent.snapshot import Snapshot
from db import expression_prompt, slang_prompt, topic_prompt, trait_prompt
from db.learned_models import Learned
from db.members import named_in
from db.pool import Database, DatabaseUnavailable

logger = logging.getLogger(__name__)

SECONDS = 1.0
"""A turn waits no longer for what was learned."""
TEXT_CHARS = 4000
"""How much of the snapshot is searched for slang, newest last."""
NEWS_CHARS = 400
"""How much of what is unread tells what it is about now."""


async def read_learned(database: Database, snapshot: Snapshot, *, sensitive: bool) -> Learned:
    """Read the slang, expressions, topics and traits that a snapshot touches; nothing where that fails or takes long.

    ``sensitive``: whether the owner lets sensitive traits be known.
    """
    try:
        async with asyncio.timeout(SECONDS):
            return await _read(database, snapshot, sensitive=sensitive)
    except TimeoutError:
        logger.warning("第 %s 轮读学到的东西超过 %.0f 秒，这一轮不带", snapshot.request.turn_id, SECONDS)
    except DatabaseUnavailable as error:
        logger.warning("第 %s 轮读学到的东西时数据库连不上，这一轮不带：%s", snapshot.request.turn_id, error)
    return Learned()


async def _read(database: Database, snapshot: Snapshot, *, sensitive: bool) -> Learned:
    where = snapshot.request.conversation.id
    text = "\n".join(line.body for line in snapshot.lines)[-TEXT_CHARS:]
    unread = "\n".join(line.body for line in snapshot.unread)
    news = unread[-NEWS_CHARS:]
    quoted = [line.quoted_pos for line in snapshot.unread if line.quoted_pos is not None]
    async with database.connection() as conn:
        users = concerned(snapshot, await named_in(conn, where, unread[-TEXT_CHARS:]))
        return Learned(
            slang=tuple(await slang_prompt.in_text(conn, where, text)),
            expressions=tuple(await expression_prompt.fitting(conn, where, news)),
            topics=tuple(await topic_prompt.touched(conn, where, quoted, news)),
            traits=tuple(await trait_prompt.of_members(conn, where, users, sensitive=sensitive)),
        )
