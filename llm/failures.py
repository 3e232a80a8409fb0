"""What an exception from the service means: try again, shorten, or give up. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import openai
from pydantic import JsonValue, TypeAdapter, ValidationError

from llm.errors import ContextTooLong, ModelError, ModelRefused
from llm.wire import BadAnswer, ServiceSaid, words_of

MAX_WORDS = 300
RETRYABLE_STATUS = {408, 409, 425, 429}
_TOO_LONG = re.compile(
    r"context[ _]?(length|window|size)|maximum context|contextwindowexceeded|"
    r"(prompt|input|request|message)s? (is |are )?too (long|large)|input length|reduce the length|"
    r"exceed(s|ed)?( the| model)?( max(imum)?)?( input)?( model)? ?token (limit|count)|exceeded model token limit|"
    r"exceeds the (maximum|configured limit)|range of input length|input tokens exceed|too many tokens|"
    r"total message token length|tokens? (count )?exceeds|"
    r"(上下文|输入|提示|prompt|tokens?).{0,12}(过长|超长|超出|超过|超限)",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(r"insufficient[_ ]?(quota|balance)|exceeded your current quota|billing|arrear|余额|欠费", re.IGNORECASE)
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_KEY = re.compile(r"\b(sk|ak|key|ark)-[\w*.-]{4,}|Bearer\s+\S+", re.IGNORECASE)


class Passing(ModelError):
    """A failure that another attempt may not meet. ``retry_after`` in seconds, when the service asked for a pause."""

    def __init__(self, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Unserved(ModelRefused):
    """This model is not served here (403, 404); another one may be. ``ModelRefused`` to everyone else."""


class AccountRefused(ModelRefused):
    """The key is wrong or the account is empty: no other call will pass either."""


def classify(error: Exception, secret: str) -> ModelError:
    """Turn an exception of one attempt into Passing, ContextTooLong or ModelRefused; ``secret`` never shows."""
    if isinstance(error, openai.APIStatusError):
        return _by_status(error, secret)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Passing("模型服务超时，没有在时限内回答")
    if isinstance(error, openai.APIConnectionError):
        return Passing("连不上模型服务")
    if isinstance(error, ServiceSaid):
        words = clean(str(error), secret)
        return ContextTooLong(f"提示超出模型的上下文：{words}") if is_too_long(words) else Passing(f"模型服务报错：{words}")
    if isinstance(error, UnicodeEncodeError):
        return ModelRefused("请求里有无法编码的字符，没有发出")
    if isinstance(error, BadAnswer):
        return Passing(str(error))
    return Passing("模型服务返回的内容无法解析（不是合格的 JSON）")


def _by_status(error: openai.APIStatusError, secret: str) -> ModelError:
    status = error.status_code
    words = clean(words_said(error), secret)
    said = f"（HTTP {status}）：{words}" if words else f"（HTTP {status}）"
    if status not in {401, 402} and is_too_long(words):
        return ContextTooLong(f"提示超出模型的上下文{said}")
    if status == 402 or (status in {403, 429} and _NO_MONEY.search(words)):
        return AccountRefused(f"模型服务的额度或余额不足{said}")
    if status >= 500 or status in RETRYABLE_STATUS:
        kind = "模型服务限流" if status == 429 else "模型服务出错"
        return Passing(f"{kind}{said}", retry_after=retry_after(dict(error.response.headers)))
    if status == 401:
        return AccountRefused(f"模型服务不认密钥，请检查 LLM_API_KEY{said}")
    if status in {403, 404}:
        return Unserved(f"模型服务不提供这个模型或地址，请检查 LLM_MODEL 与 LLM_BASE_URL{said}")
    return ModelRefused(f"模型服务拒绝了请求{said}")


def words_said(error: openai.APIStatusError) -> str:
    """Read a service's own words out of an error, in whatever form it sent them."""
    try:
        body = _JSON.validate_python(error.body)
    except ValidationError:
        body = str(error.body)
    body = body or error.response.text
    if isinstance(body, str) and body.lstrip().startswith("<"):
        return "返回了网页"
    return words_of(body)


def is_too_long(words: str) -> bool:
    """Tell whether a service's words complain about the length of the prompt."""
    return _TOO_LONG.search(words) is not None


def clean(words: str, secret: str) -> str:
    """Fit a service's words for the log: one line, bounded, without keys."""
    text = words.replace(secret, "***") if len(secret) >= 4 else words
    text = " ".join(_KEY.sub("***", text).split())
    return text if len(text) <= MAX_WORDS else text[:MAX_WORDS] + "…"


def retry_after(headers: dict[str, str], now: datetime | None = None) -> float | None:
    """Read ``Retry-After`` (seconds or an HTTP date) or ``retry-after-ms``, in seconds; None when absent or odd."""
    lowered = {name.lower(): value for name, value in headers.items()}
    try:
        if "retry-after-ms" in lowered:
            return max(0.0, float(lowered["retry-after-ms"]) / 1000)
        if (value := lowered.get("retry-after")) is None:
            return None
        if re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            return float(value)
        return max(0.0, (parsedate_to_datetime(value) - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError):
        return None
