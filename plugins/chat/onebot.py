"""Calls to NapCat through the account's socket, with three ends: an answer, a refusal, or nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from nonebot.adapters.onebot.v11 import ActionFailed, ApiNotAvailable, Bot, NetworkError
from starlette.websockets import WebSocketDisconnect

from agent.ports import PlatformError
from db.models import Json
from plugins.chat.failures import Failure, read_failure, unconfirmed

CALL_SECONDS = 15.0
SEND_SECONDS = 30.0


class CallFailed(PlatformError):
    """A call that did not succeed; ``failure`` says whether it may have had an effect."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class OneBot(Protocol):
    """NapCat's actions."""

    async def call(self, account_id: int, action: str, *, seconds: float = CALL_SECONDS, **params: Json) -> Json:
        """Do an action and return its data. Raises CallFailed."""
        ...


class NapCatCalls:
    """Actions through the NoneBot adapter."""

    def __init__(self, find: Callable[[int], Bot | None]) -> None:
        self._find = find

    async def call(self, account_id: int, action: str, *, seconds: float = CALL_SECONDS, **params: Json) -> Json:
        """Do an action and return its data. Raises CallFailed."""
        bot = self._find(account_id)
        if bot is None:
            raise CallFailed(Failure("refused", "offline", "账号没有连接"))
        try:
            return cast("Json", await bot.call_api(action, _timeout=seconds, **params))
        except ActionFailed as error:
            raise CallFailed(read_failure(*_words(cast("dict[str, object]", error.info)))) from error
        except ApiNotAvailable as error:
            raise CallFailed(Failure("refused", "offline", "账号没有连接")) from error
        except (NetworkError, WebSocketDisconnect, RuntimeError, OSError) as error:
            # The socket broke, or nobody answered in time: it may have arrived all the same.
            raise CallFailed(unconfirmed(f"没有收到回应：{type(error).__name__}")) from error


def _words(info: dict[str, object]) -> list[str]:
    return [str(info[key]) for key in ("message", "wording", "msg") if info.get(key)]
