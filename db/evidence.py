"""Which messages may support a claim: the rule is one SQL statement, the reasons are words for the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg.rows import class_row

from db.memory_models import Subject
from db.models import ConversationId, MessageRow
from db.pool import Connection

MOST = 20
"""Evidence messages of one claim that are looked at."""

Verdict = Literal["ok", "missing", "withdrawn", "not_speech", "own_words", "robot", "not_subject", "unlearned"]
_REASONS: dict[Verdict, str] = {
    "ok": "",
    "missing": "这轮没看到这条消息",
    "withdrawn": "已经撤回",
    "not_speech": "不是一句话",
    "own_words": "是你自己说的，不能当别人的证据",
    "robot": "是机器人说的",
    "not_subject": "不是本人说的",
    "unlearned": "这个人说过别记",
}


@dataclass(frozen=True, slots=True)
class Cited:
    """Messages named as evidence: their labels, and the labels that this run was shown."""

    conversation_id: ConversationId
    subject: Subject
    labels: tuple[int, ...]
    shown: frozenset[int]


@dataclass(frozen=True, slots=True)
class Looked:
    """One cited message, and whether it counts."""

    pos: int
    message: MessageRow | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """The messages that count; where none does, why (Chinese)."""

    messages: tuple[MessageRow, ...]
    refusal: str


async def check(conn: Connection, cited: Cited) -> Evidence:
    """See which cited messages support a claim about the subject, and hold them against a withdrawal until the commit.

    A message counts when it was shown, stands in this conversation, is not withdrawn, is something said (no command, no
    nudge) by a person who may be learned from, and by the subject where that is a member. The bot's own words count only
    about the bot. Must run inside a transaction.
    """
    labels = [pos for pos in dict.fromkeys(cited.labels) if pos in cited.shown][:MOST]
    rows = await _look(conn, cited, labels)
    found = tuple(row.message for row in rows if row.verdict == "ok" and row.message is not None)
    if found:
        return Evidence(found, "")
    if not cited.labels:
        return Evidence((), "没有给出证据：请写上支持它的消息编号")
    unseen = [Looked(pos, None, "missing") for pos in cited.labels if pos not in cited.shown]
    return Evidence((), "证据不成立：" + "；".join(_reason(row) for row in (*rows, *unseen)[:5]))


def _reason(row: Looked) -> str:
    return f"#{row.pos} {_REASONS[row.verdict]}"


async def hold(conn: Connection, conversation_id: ConversationId, labels: Sequence[int]) -> None:
    """Hold messages against a withdrawal until the commit: all that several claims cite, before the first is checked.

    Everybody locks messages in one order, so nobody waits in a circle.
    """
    await conn.execute(
        """
        SELECT FROM messages m
        WHERE m.conversation_id = %(conversation)s AND m.pos = ANY(%(labels)s::bigint[])
        ORDER BY m.id
        FOR SHARE
        """,
        {"conversation": conversation_id, "labels": list(labels)},
    )


async def _look(conn: Connection, cited: Cited, labels: Sequence[int]) -> list[Looked]:
    await hold(conn, cited.conversation_id, labels)
    async with conn.cursor(row_factory=class_row(Looked)) as cur:
        await cur.execute(
            """
            SELECT l.pos, m.id AS message,
                   CASE WHEN m.id IS NULL THEN 'missing'
                        WHEN m.withdrawn_at IS NOT NULL THEN 'withdrawn'
                        WHEN m.kind <> 'message' OR m.is_command OR m.body = '' THEN 'not_speech'
                        WHEN m.is_self AND %(kind)s <> 'bot' THEN 'own_words'
                        WHEN NOT m.is_self AND (m.is_robot OR coalesce(p.is_robot, false)) THEN 'robot'
                        WHEN %(kind)s = 'member' AND m.sender_id <> %(user)s THEN 'not_subject'
                        WHEN u.user_id IS NOT NULL THEN 'unlearned'
                        ELSE 'ok' END AS verdict
            FROM unnest(%(labels)s::bigint[]) WITH ORDINALITY AS l(pos, no)
            LEFT JOIN messages m ON m.conversation_id = %(conversation)s AND m.pos = l.pos
            LEFT JOIN members p ON p.conversation_id = m.conversation_id AND p.user_id = m.sender_id
            LEFT JOIN unlearned u ON u.conversation_id = m.conversation_id AND u.user_id = m.sender_id
            ORDER BY l.no
            """,
            {
                "conversation": cited.conversation_id,
                "labels": list(labels),
                "kind": cited.subject.kind,
                "user": cited.subject.user_id,
            },
        )
        return await cur.fetchall()
