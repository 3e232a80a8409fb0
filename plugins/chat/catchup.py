"""Catching up after a connect: who the account is, which groups it is in, what was missed there, who is there.

What QQ does not tell at once is asked again after growing pauses, for as long as the account can be asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from nonebot.log import logger

from db import accounts, conversations, outbox
from db.models import Conversation, ConversationId
from db.pool import Database, DatabaseUnavailable
from plugins.chat.backfill import Backfill
from plugins.chat.jobs import Jobs
from plugins.chat.own import OwnAccounts
from plugins.chat.refresh import Refresh

PAUSES = (5.0, 20.0, 60.0, 300.0)
"""Seconds before the second try, the third, …; the last pause repeats."""
LOOK_AGAIN = (10.0, 60.0)
"""Seconds after which history is searched for a message of which nobody knows whether it arrived."""
UNSETTLED_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Sources:
    """Who reads what, where the bot is enabled, and who looks at what is owed."""

    backfill: Backfill
    refresh: Refresh
    enabled: Callable[[Conversation], bool]
    look: Callable[[ConversationId], None]


@dataclass(frozen=True, slots=True)
class _Task:
    """Something to ask QQ for. ``work`` tells whether it is done; ``what`` is for the log, and names the task."""

    account_id: int
    what: str
    work: Callable[[], Awaitable[bool]]
    tries: int = 0


class CatchUp:
    """Catches up for all accounts of this process."""

    def __init__(self, database: Database, own: OwnAccounts, jobs: Jobs, sources: Sources) -> None:
        self._database = database
        self._own = own
        self._jobs = jobs
        self._sources = sources
        self._behind: set[int] = set()
        self._catching: set[int] = set()

    def start(self, account_id: int) -> None:
        """An account can be asked: its socket opened, or QQ is online again."""
        self._insist(_Task(account_id, f"接上账号 {account_id}", lambda: self._once(account_id)))

    def conversation(self, account_id: int, where: Conversation) -> None:
        """Fill a group's gap and read its members."""
        sources, group = self._sources, where.target_id
        fill = _Task(
            account_id, f"补群 {group} 的历史消息（账号 {account_id}）", lambda: sources.backfill.fill(account_id, where)
        )
        read = _Task(
            account_id, f"读群 {group} 的成员列表（账号 {account_id}）", lambda: sources.refresh.members(account_id, where)
        )
        self._insist(fill)
        self._insist(read)

    def unconfirmed(self, account_id: int, where: Conversation) -> None:
        """A send had no answer: search history for it, soon and once more later."""
        for seconds in LOOK_AGAIN:
            what = f"{seconds:g} 秒后到会话 {where.id} 的历史里找没有回应的消息（账号 {account_id}）"
            self._jobs.start_after(seconds, what, lambda: self._sources.backfill.seek_own(account_id, where))

    async def save(self, account_id: int) -> None:
        """Write down the account's state."""
        state = self._own.get(account_id)
        async with self._database.connection() as conn:
            await accounts.save(
                conn,
                account_id,
                connected=state.connected,
                online=state.online,
                note=state.note,
                worker=self._own.worker,
            )

    def _insist(self, task: _Task) -> None:
        self._jobs.start(task.what, self._try(task))

    async def _try(self, task: _Task) -> None:
        if not self._own.get(task.account_id).usable:
            return  # the next connect begins anew
        try:
            done = await task.work()
        except DatabaseUnavailable as error:
            logger.warning(f"{task.what}：数据库连不上：{error}")
            done = False
        if not done:
            pause = PAUSES[min(task.tries, len(PAUSES) - 1)]
            logger.warning(f"{task.what}：没有成功，{pause:g} 秒后再试")
            again = replace(task, tries=task.tries + 1)
            self._jobs.start_after(pause, task.what, lambda: self._try(again))

    async def _once(self, account_id: int) -> bool:
        """Catch up, one run at a time: what a storm of reconnects asks for meanwhile is one more run."""
        self._behind.add(account_id)
        if account_id in self._catching:
            return True
        self._catching.add(account_id)
        done = True
        try:
            while account_id in self._behind:
                self._behind.discard(account_id)
                done = await self._catch_up(account_id)
        finally:
            self._catching.discard(account_id)
        return done

    async def _catch_up(self, account_id: int) -> bool:
        """Learn who the account is and where, fill gaps, and look at what is owed. False: the groups are not known."""
        await self.save(account_id)
        state = self._own.get(account_id)
        state.nickname = await self._sources.refresh.account(account_id) or state.nickname
        listed = await self._sources.refresh.groups(account_id)
        groups = [where for where in listed or () if self._sources.enabled(where)]
        if listed is not None:
            self._own.listed(account_id, [where.id for where in groups])
        for where in groups:
            self._own.saw(where.id, account_id)
            self.conversation(account_id, where)
        await self._seek_unsettled(account_id)
        for where in groups:
            self._sources.look(where.id)
        return listed is not None

    async def _seek_unsettled(self, account_id: int) -> None:
        """Search history for messages that an earlier connection, or process, sent without an answer."""
        async with self._database.connection() as conn:
            found = await outbox.unsettled(conn, younger_than=UNSETTLED_SECONDS)
            ids = dict.fromkeys(item.conversation_id for item in found if item.account_id == account_id)
            rows = [await conversations.get(conn, conversation_id) for conversation_id in ids]
        for where in rows:
            if where is not None and self._sources.enabled(where):
                what = f"到会话 {where.id} 的历史里找没有回应的消息（账号 {account_id}）"
                self._jobs.start(what, self._sources.backfill.seek_own(account_id, where))
