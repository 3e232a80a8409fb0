"""Errors of the API in Chinese: ``{"detail": "…"}`` for all of them, validation included."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from db.pool import DatabaseUnavailable

logger = logging.getLogger(__name__)


class Problem(BaseModel):
    """The body of every error."""

    detail: str = Field(description="出了什么问题，中文")


Shown = TypeVar("Shown", bound=BaseModel)


class Conflict(Problem, Generic[Shown]):
    """A change that did not happen, and what stands in its way as it is now."""

    current: Shown


def conflict(detail: str, current: BaseModel) -> JSONResponse:
    """Answer 409 in the shape of ``Conflict``."""
    return JSONResponse({"detail": detail, "current": current.model_dump(mode="json")}, status_code=409)


_REASONS = {
    "missing": "缺少这一项",
    "extra_forbidden": "不认识这一项",
    "int_parsing": "应为整数",
    "int_type": "应为整数",
    "int_from_float": "应为整数",
    "float_parsing": "应为数字",
    "float_type": "应为数字",
    "finite_number": "应为有限的数字",
    "bool_parsing": "应为 true 或 false",
    "bool_type": "应为 true 或 false",
    "string_type": "应为文字",
    "string_too_long": "不能超过 {max_length} 个字",
    "too_long": "不能超过 {max_length} 个字",
    "string_too_short": "不能少于 {min_length} 个字",
    "datetime_type": "应为时间，例如 2026-11-30T12:00:00+08:00",
    "datetime_parsing": "应为时间，例如 2026-11-30T12:00:00+08:00",
    "datetime_from_date_parsing": "应为时间，例如 2026-11-30T12:00:00+08:00",
    "timezone_aware": "时间要带时区，例如 2026-11-30T12:00:00+08:00",
    "greater_than": "应大于 {gt}",
    "greater_than_equal": "不能小于 {ge}",
    "less_than": "应小于 {lt}",
    "less_than_equal": "不能大于 {le}",
    "literal_error": "应为 {expected} 之一",
    "model_attributes_type": "应为 JSON 对象",
    "model_type": "应为 JSON 对象",
    "dict_type": "应为 JSON 对象",
    "json_invalid": "不是有效的 JSON",
}
_PLACES = {"query", "path", "body", "header"}


def explain(errors: Sequence[Mapping[str, Any]]) -> str:
    """Put pydantic's errors into one Chinese line, each with the field it is about."""
    return "；".join(_one(error) for error in errors)


def _one(error: Mapping[str, Any]) -> str:
    context: Mapping[str, Any] = error.get("ctx") or {}
    if error["type"] == "value_error":
        reason = str(context.get("error", "格式不对"))
    else:
        reason = _REASONS.get(error["type"], "格式不对").format(**context)
    where = ".".join(str(part) for part in error["loc"] if part not in _PLACES)
    # A broken JSON body is located by its character offset, which is not a field.
    return reason if not where or error["type"] == "json_invalid" else f"{where}：{reason}"


class ChineseRoute(APIRoute):
    """A route whose validation errors, and a database that is away, answer in Chinese."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route's own handler."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return JSONResponse({"detail": explain(error.errors())}, status_code=422)
            except DatabaseUnavailable:
                logger.warning("接口 %s %s 未能完成：数据库暂时连不上", request.method, request.url.path)
                return JSONResponse({"detail": "数据库暂时连不上，请稍后再试"}, status_code=503)

        return answer
