"""Who may call the API: the bearer of ADMIN_TOKEN, and only once the bot is running."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias, cast

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from plugins.admin.ports import RuntimeView

FindView: TypeAlias = Callable[[], RuntimeView | None]

_bearer = HTTPBearer(auto_error=False, description="ADMIN_TOKEN")


def require_token(token: str) -> Callable[[HTTPAuthorizationCredentials | None], Awaitable[None]]:
    """Make a dependency that answers 401 without the token. An empty token lets nobody in."""
    expected = token.encode()

    async def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
        # Header texts are the bytes as latin-1: this gives back what was sent, in whatever encoding.
        offered = given.credentials.encode("latin-1") if given else b""
        if not expected or not secrets.compare_digest(offered, expected):
            raise HTTPException(
                401,
                "需要管理令牌：请求头应为 Authorization: Bearer <ADMIN_TOKEN>",
                headers={"WWW-Authenticate": "Bearer"},
            )

    return check


def provide(find: FindView) -> Callable[[Request], Awaitable[None]]:
    """Make a dependency that puts the running bot where ``current_view`` finds it, or None before it runs."""

    async def put(request: Request) -> None:
        request.state.runtime_view = find()

    return put


async def possible_view(request: Request) -> RuntimeView | None:
    """Give the running bot, or None while it starts."""
    return cast("RuntimeView | None", request.state.runtime_view)


async def current_view(view: Annotated[RuntimeView | None, Depends(possible_view)]) -> RuntimeView:
    """Give the running bot; 503 while it starts."""
    if view is None:
        raise HTTPException(503, "机器人还在启动，请稍后再试")
    return view


PossibleView: TypeAlias = Annotated[RuntimeView | None, Depends(possible_view)]
View: TypeAlias = Annotated[RuntimeView, Depends(current_view)]
