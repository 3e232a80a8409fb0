"""Settings: read once at start, frozen, and refused in words when a value is wrong."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from dotenv import dotenv_values
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

ROOT = Path(__file__).resolve().parent
LOOPBACK = {"127.0.0.1", "::1", "localhost"}
ENV_FILES = (".env.prod", ".env")
_QUIET = re.compile(r"^([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)$")


class SettingsError(ValueError):
    """One or more settings are wrong; the text says which, in Chinese, and what is accepted."""


class QuietHours(BaseModel):
    """A daily span of local time; it may cross midnight."""

    model_config = ConfigDict(frozen=True)

    start: time
    end: time

    def covers(self, moment: time) -> bool:
        """Tell whether a local time of day lies in the span (start included, end not)."""
        if self.start <= self.end:
            return self.start <= moment < self.end
        return moment >= self.start or moment < self.end


def parse_quiet_hours(value: str) -> QuietHours | None:
    """Read ``HH:MM-HH:MM``; an empty text means no quiet hours. Raises ValueError."""
    text = value.strip()
    if not text:
        return None
    match = _QUIET.match(text)
    if match is None:
        raise ValueError("应为 HH:MM-HH:MM，例如 01:00-07:00；留空表示不设安静时段")
    h1, m1, h2, m2 = (int(part) for part in match.groups())
    return QuietHours(start=time(h1, m1), end=time(h2, m2))


def _as_list(value: object) -> object:
    """Accept a JSON list, a comma-separated text or one bare value."""
    if isinstance(value, int):
        return [value]
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return []
    if text.startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError('应为列表，例如 ["123456789"] 或 123456789,987654321') from error
    return [part.strip() for part in re.split(r"[,，\s]+", text) if part.strip()]


def _as_text(value: object) -> object:
    return str(value).strip() if isinstance(value, int | float | str) else value


Text = Annotated[str, BeforeValidator(_as_text)]
IdList = Annotated[tuple[int, ...], BeforeValidator(_as_list)]
NameList = Annotated[tuple[Text, ...], BeforeValidator(_as_list)]


class Settings(BaseModel):
    """Every setting of the bot. Names are those of ``.env.prod`` in lower case."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    host: Text = "127.0.0.1"
    port: int = Field(8080, ge=1, le=65535)
    log_level: Text = "INFO"
    onebot_access_token: Text = ""
    superusers: IdList = ()
    data_dir: Path = Path("./data")
    database_url: Text = ""
    enabled_groups: IdList = ()
    bot_names: NameList = ()
    persona: Text = "default"
    llm_base_url: Text = ""
    llm_api_key: Text = ""
    llm_model: Text = ""
    llm_fallback_model: Text = ""
    fast_model: Text = ""
    code_model: Text = ""
    vision_model: Text = ""
    learner_model: Text = ""
    llm_structured: Literal["json_schema", "json_object", "tool"] = "json_schema"
    llm_timeout_seconds: float = Field(60, gt=0, le=600)
    llm_max_steps: int = Field(8, ge=1, le=50)
    embedding_base_url: Text = ""
    embedding_api_key: Text = ""
    embedding_model: Text = ""
    embedding_dim: int | None = Field(None, ge=1, le=16000)
    talk_frequency: float = Field(0.3, ge=0, le=1)
    debounce_seconds: float = Field(2.5, ge=0, le=600)
    debounce_max_seconds: float = Field(8, ge=0, le=3600)
    scan_seconds: float = Field(15, ge=0.1, le=3600)
    quiet_hours: QuietHours | None = QuietHours(start=time(1), end=time(7))
    context_messages: int = Field(40, ge=5, le=400)
    max_turns: int = Field(4, ge=1, le=64)
    group_daily_calls: int = Field(500, ge=0)
    typing_chars_per_second: float = Field(6, ge=0)
    learner_seconds: float = Field(60, ge=0, le=86_400)
    learner_daily_tokens: int = Field(300_000, ge=0)
    learner_at_once: int = Field(1, ge=1, le=16)
    slang_auto_approve: bool = False
    profile_sensitive: bool = False
    retention_days: int = Field(90, ge=1)
    admin_token: Text = ""
    timezone: Text = "Asia/Shanghai"

    @field_validator("embedding_dim", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("quiet_hours", mode="before")
    @classmethod
    def _quiet_hours(cls, value: object) -> object:
        return parse_quiet_hours(value) if isinstance(value, str) else value

    @field_validator("database_url")
    @classmethod
    def _database_url(cls, value: str) -> str:
        if value and urlsplit(value).scheme not in {"postgresql", "postgres"}:
            raise ValueError("应为 postgresql://用户:密码@主机:端口/库名；留空则使用内置 PostgreSQL")
        return value

    @field_validator("llm_base_url", "embedding_base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if value and (urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).netloc):
            raise ValueError("应为 http:// 或 https:// 开头的地址，例如 https://api.example.com/v1")
        return value

    @field_validator("timezone")
    @classmethod
    def _timezone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError("应为时区名，例如 Asia/Shanghai") from error
        return value

    @field_validator("log_level")
    @classmethod
    def _log_level(cls, value: str) -> str:
        levels = {"TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL"}
        if value.upper() not in levels and not value.isdigit():
            raise ValueError("应为 DEBUG、INFO、WARNING 或 ERROR")
        return value.upper()

    @model_validator(mode="after")
    def _open_door(self) -> Settings:
        if self.host not in LOOPBACK and not self.onebot_access_token:
            raise ValueError(
                f"HOST={self.host} 会让别的机器连进来，而 ONEBOT_ACCESS_TOKEN 为空："
                "请设置 ONEBOT_ACCESS_TOKEN，或把 HOST 改回 127.0.0.1"
            )
        if self.llm_model and not self.llm_base_url:
            raise ValueError("设置了 LLM_MODEL 但 LLM_BASE_URL 为空：请填写模型服务地址，或把 LLM_MODEL 也留空（使用演示模型）")
        if self.llm_base_url and not self.llm_model:
            raise ValueError("设置了 LLM_BASE_URL 但 LLM_MODEL 为空：请填写模型名，或把 LLM_BASE_URL 也留空（使用演示模型）")
        if self.embedding_base_url and not self.embedding_model:
            raise ValueError("设置了 EMBEDDING_BASE_URL 但 EMBEDDING_MODEL 为空：请填写向量模型名，或两项都留空（用本地模型）")
        if self.embedding_model and not self.embedding_base_url:
            raise ValueError("设置了 EMBEDDING_MODEL 但 EMBEDDING_BASE_URL 为空：请填写服务地址，或两项都留空（用本地模型）")
        if self.debounce_max_seconds < self.debounce_seconds:
            raise ValueError("DEBOUNCE_MAX_SECONDS 不能小于 DEBOUNCE_SECONDS")
        return self

    @property
    def zone(self) -> ZoneInfo:
        """The time zone for people and prompts."""
        return ZoneInfo(self.timezone)

    @property
    def demo(self) -> bool:
        """True while no model service is set and the demo model answers."""
        return not self.llm_base_url


def read_environment(folder: Path | None = None) -> dict[str, str]:
    """Merge ``.env.prod``, ``.env`` and the environment, later ones winning; keys in lower case.

    Lines without ``=`` are skipped. An empty value counts as set: it means the empty default.
    """
    folder = folder or Path.cwd()
    merged: dict[str, str] = {}
    for name in ENV_FILES:
        for key, value in dotenv_values(folder / name, encoding="utf-8-sig").items():
            if value is not None:
                merged[key.lower()] = value
    merged.update({key.lower(): value for key, value in os.environ.items()})
    return merged


# An empty text in the environment means "not set" for everything that is not a text.
_BLANK_IS_A_VALUE = {
    name for name, field in Settings.model_fields.items() if name == "quiet_hours" or isinstance(field.default, str | tuple)
}


def load_settings(values: Mapping[str, str]) -> Settings:
    """Build the settings from raw texts. Raises SettingsError that names each wrong setting."""
    known = {
        key: value
        for key, value in values.items()
        if key in Settings.model_fields and (value.strip() or key in _BLANK_IS_A_VALUE)
    }
    try:
        return Settings.model_validate(known)
    except ValidationError as error:
        raise SettingsError(_explain(error, known)) from error


_ACCEPTED = {
    "port": "应为 1 到 65535 的整数",
    "talk_frequency": "应为 0 到 1 的小数，例如 0.3",
    "llm_structured": "应为 json_schema、json_object 或 tool",
    "slang_auto_approve": "应为 true 或 false",
    "profile_sensitive": "应为 true 或 false",
    "superusers": '应为 QQ 号列表，例如 ["123456789"]',
    "enabled_groups": "应为群号列表，例如 [123456789]",
    "bot_names": '应为名字列表，例如 ["小满"] 或 小满,满满',
}
_KINDS = {
    "int_parsing": "应为整数",
    "int_from_float": "应为整数",
    "float_parsing": "应为数字",
    "greater_than": "应大于 {gt}",
    "greater_than_equal": "不能小于 {ge}",
    "less_than_equal": "不能大于 {le}",
    "finite_number": "应为有限的数字",
}
_SECRET = re.compile(r"(key|token|url)$")


def _explain(error: ValidationError, values: Mapping[str, str]) -> str:
    lines: list[str] = []
    for item in error.errors():
        field = str(item["loc"][0]) if item["loc"] else ""
        if item["type"] == "value_error":
            reason = str(item.get("ctx", {}).get("error", item["msg"]))
        else:
            reason = _KINDS.get(item["type"], "格式不对").format(**item.get("ctx", {}))
        reason = _ACCEPTED.get(field, reason)
        if not field:
            lines.append(f"设置有误：{reason}")
            continue
        shown = _masked(field, str(values.get(field, "")))
        lines.append(f"设置有误：{field.upper()}={shown}：{reason}")
    return "\n".join(lines)


def _masked(field: str, value: str) -> str:
    if not _SECRET.search(field):
        return value
    if field == "database_url" or field.endswith("_url"):
        return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", value)
    return "***"
