"""The API as one router, ready to be mounted on any FastAPI app."""

from __future__ import annotations

from fastapi import APIRouter, Depends, HTTPException

from plugins.admin import (
    audit,
    conversations,
    embedding,
    expressions,
    health,
    imports,
    learner,
    logs,
    members,
    memories,
    message_imports,
    messages,
    profiles,
    recall,
    search,
    slang,
    topics,
    turns,
    usage,
)
from plugins.admin.access import FindView, provide, require_token
from plugins.admin.errors import ChineseRoute, Problem

MAX_BODY_BYTES = 256 * 1024


def build_router(find: FindView, token: str) -> APIRouter:
    """Build everything under ``/api``.

    ``find`` gives the running bot, or None while it starts: routes then answer 503.
    ``token`` is what callers must bear; only health is open.
    """
    api = APIRouter(prefix="/api", dependencies=[Depends(provide(find))], max_body_size=MAX_BODY_BYTES)
    api.include_router(health.router)
    private = APIRouter(
        dependencies=[Depends(require_token(token))],
        responses={401: {"model": Problem}, 422: {"model": Problem}, 503: {"model": Problem}},
    )
    for part in (
        *(conversations, messages, turns, logs, usage, embedding, imports, memories, recall, search, members),
        *(audit, topics, slang, expressions, profiles, learner, message_imports),
    ):
        private.include_router(part.router)
    private.include_router(_unknown)
    api.include_router(private)
    return api


_unknown = APIRouter(route_class=ChineseRoute, include_in_schema=False)


@_unknown.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def unknown_path(path: str) -> None:
    """Answer what no route answers."""
    raise HTTPException(404, f"没有这个接口，或方法不对：/api/{path[:100]}")
