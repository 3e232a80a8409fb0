"""``/api/messages/import``: a conversation's past, as lines of JSON."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect

from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.imports import COUNTED_HERE, GREW, NDJSON, bounded
from plugins.admin.memory_lines import LinesReport
from plugins.admin.message_importing import MessageImport
from plugins.admin.message_lines import MessageLine
from plugins.admin.params import OptionalKey

logger = logging.getLogger(__name__)

router = APIRouter(route_class=ChineseRoute, prefix="/messages", tags=["消息"])

_BODY = {"requestBody": {"required": True, "content": {NDJSON: {"schema": MessageLine.model_json_schema()}}}}


@router.post(
    "/import",
    summary="导入聊天记录：一行一条 JSON，旧的在前",
    max_body_size=COUNTED_HERE,
    openapi_extra=_BODY,
    responses={413: {"model": Problem}},
)
async def import_messages(request: Request, key: OptionalKey, view: View) -> LinesReport:
    """Read messages line by line, of the conversation that the address or the line names; nobody is answered for them.

    Lines look like the items of ``GET /api/messages``. The same file again adds nothing.
    """
    work = MessageImport(view.database, key)
    try:
        await work.read(bounded(request))
    except ClientDisconnect:
        logger.warning("导入消息：对方中途断开，存下了 %d 条；同一个文件再导一次就会补全", work.report.new)
    report = work.report
    if report.new:
        view.keeper.poke()
    if report.new >= GREW:
        await view.grown()
    logger.info("导入消息完毕：%s", report.summary())
    return report
