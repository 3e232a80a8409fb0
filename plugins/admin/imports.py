"""``/api/memories/import`` and ``/api/memories/export``: many memories at once, as lines of JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from db.memory_lists import ExportLine, export
from llm.errors import EmbeddingUnavailable
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.importing import Import
from plugins.admin.memory_lines import ImportReport, MemoryLine
from plugins.admin.params import OptionalKey
from plugins.admin.places import find_place
from plugins.admin.ports import RuntimeView

logger = logging.getLogger(__name__)

router = APIRouter(route_class=ChineseRoute, prefix="/memories", tags=["记忆"])

IMPORT_BYTES = 256 * 1024 * 1024
COUNTED_HERE = 2**62
"""The framework's own limit would answer in English."""
NDJSON = "application/x-ndjson"
GREW = 200
"""So many new memories at once change how common words are."""
_PIECE_LINES = 200
_BODY = {"requestBody": {"required": True, "content": {NDJSON: {"schema": MemoryLine.model_json_schema()}}}}


@router.post(
    "/import",
    summary="导入记忆：一行一条 JSON",
    max_body_size=COUNTED_HERE,
    openapi_extra=_BODY,
    responses={413: {"model": Problem}},
)
async def import_memories(
    request: Request,
    view: View,
    wait: Annotated[bool, Query(description="等到都有了向量才返回")] = False,
) -> ImportReport:
    """Read memories line by line; bad lines are left out and told, good ones go in, known ones stay as they are."""
    work = Import(view.database)
    try:
        await work.read(bounded(request))
    except ClientDisconnect:
        logger.warning("导入记忆：对方中途断开，存下了 %d 条；同一个文件再导一次就会补全", work.report.new)
        wait = False
    report = work.report
    if report.failed:
        logger.info("导入记忆：有 %d 行没能读懂", report.failed)
    await _embed(view, work, wait=wait)
    if report.new >= GREW:
        await view.grown()
    logger.info("导入记忆完毕：%s", report.summary())
    return report


async def bounded(request: Request) -> AsyncIterator[bytes]:
    """Give the body as it comes. Raises HTTPException 413 once it is known to be too large."""
    size = 0
    promised = request.headers.get("content-length", "")
    if promised.isdecimal() and int(promised) > IMPORT_BYTES:
        raise _too_large()
    async for piece in request.stream():
        size += len(piece)
        if size > IMPORT_BYTES:
            raise _too_large()
        yield piece


def _too_large() -> HTTPException:
    return HTTPException(413, f"一次最多导入 {IMPORT_BYTES // 1024**2} MiB，请分成几个文件")


async def _embed(view: RuntimeView, work: Import, *, wait: bool) -> None:
    """Have the new memories embedded, now or in the background, and write down which."""
    report = work.report
    if not wait:
        view.keeper.poke()
        report.detail = "向量在后台算，进度见 /api/embedding；想等算完再返回，加上 ?wait=true"
        return
    try:
        await view.keeper.settled(list(work.ids))
    except EmbeddingUnavailable as error:
        report.detail = f"都存下了，但现在算不出向量（{error}）；文字那条腿照常，向量好了会自动补上"
    else:
        report.embedded = True


@router.get(
    "/export", summary="导出记忆：一行一条 JSON", response_class=StreamingResponse, responses={200: {"content": {NDJSON: {}}}}
)
async def export_memories(key: OptionalKey, view: View) -> StreamingResponse:
    """Write out the memories of one conversation, or all of them; what comes out can be imported."""
    place = None if key is None else await find_place(view, key)
    if key is not None and place is None:
        raise HTTPException(404, "没有这个会话")
    lines = export(view.database, () if place is None else (place.id,))
    # The first line is read before the answer begins: a database that is away is still an error then.
    first = await anext(lines, None)
    return StreamingResponse(_written(first, lines), media_type=NDJSON)


async def _written(first: ExportLine | None, lines: AsyncGenerator[ExportLine]) -> AsyncIterator[bytes]:
    try:
        if first is None:
            return
        piece = [_write(first)]
        async for line in lines:
            piece.append(_write(line))
            if len(piece) >= _PIECE_LINES:
                yield b"".join(piece)
                piece.clear()
        yield b"".join(piece)
    finally:
        await lines.aclose()


def _write(line: ExportLine) -> bytes:
    group = line.conversation_kind == "group"
    written = MemoryLine(
        group_id=line.target_id if group else None,
        user_id=None if group else line.target_id,
        subject=line.subject_kind,
        subject_id=line.subject_id,
        kind=line.kind,
        content=line.content,
        status=line.status,
        locked=line.locked,
        uses=line.uses,
        used_at=line.used_at,
        created_at=line.created_at,
        updated_at=line.updated_at,
    )
    return written.model_dump_json(exclude_none=True).encode() + b"\n"
