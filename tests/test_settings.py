"""Settings: what .env.prod promises, what counts over what, and how a wrong value is refused."""

from __future__ import annotations

import re
from datetime import time
from pathlib import Path

import pytest
from dotenv import dotenv_values

from settings import (
    ROOT,
    QuietHours,
    Settings,
    SettingsError,
    load_settings,
    parse_quiet_hours,
    read_environment,
)

ENV_PROD = ROOT / ".env.prod"
_ASSIGNMENT = re.compile(r"^# ([A-Z][A-Z_]*)=(.*)$", re.MULTILINE)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that sets nothing of ours."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(name, raising=False)


def test_env_prod_lists_every_setting_once() -> None:
    names = [name.lower() for name, _ in _ASSIGNMENT.findall(ENV_PROD.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted(Settings.model_fields)


def test_env_prod_sets_nothing_by_itself() -> None:
    assert dict(dotenv_values(ENV_PROD, encoding="utf-8")) == {}


def test_env_prod_uncommented_is_the_defaults(tmp_path: Path, bare: None) -> None:
    text = _ASSIGNMENT.sub(r"\1=\2", ENV_PROD.read_text(encoding="utf-8"))
    (tmp_path / ".env.prod").write_text(text, encoding="utf-8")
    values = read_environment(tmp_path)
    assert set(values) >= set(Settings.model_fields)
    assert load_settings(values) == Settings()


def test_env_prod_shows_the_default_as_it_is_written() -> None:
    """An empty value would load as the default too: what has a default must show it."""
    for name, value in _ASSIGNMENT.findall(ENV_PROD.read_text(encoding="utf-8")):
        default = Settings.model_fields[name.lower()].default
        if default in ("", None):
            assert value == "", name
        elif default == ():
            assert value == "[]", name
        else:
            assert value, name


def test_every_setting_has_a_chinese_comment_above_it() -> None:
    lines = ENV_PROD.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if _ASSIGNMENT.match(line):
            above = lines[number - 1]
            assert re.match(r"^# .*[一-鿿]", above), line
            assert not _ASSIGNMENT.match(above), line


def test_env_prod_reads_on_windows() -> None:
    raw = ENV_PROD.read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    windows = raw.decode("utf-8").replace("\n", "\r\n")
    assert len(_ASSIGNMENT.findall(windows.replace("\r\n", "\n"))) == len(Settings.model_fields)


def test_the_environment_outranks_env_and_env_outranks_env_prod(
    tmp_path: Path, bare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env.prod").write_text("PORT=1001\nMAX_TURNS=2\nPERSONA=quiet\n", encoding="utf-8")
    (tmp_path / ".env").write_bytes("\ufeffPORT=1002\r\nMAX_TURNS=3\r\n".encode())
    monkeypatch.setenv("PORT", "1003")
    settings = load_settings(read_environment(tmp_path))
    assert (settings.port, settings.max_turns, settings.persona) == (1003, 3, "quiet")


def test_an_empty_value_keeps_the_default_unless_empty_means_something(bare: None) -> None:
    settings = load_settings({"port": "", "talk_frequency": " ", "enabled_groups": "", "quiet_hours": ""})
    assert (settings.port, settings.talk_frequency, settings.enabled_groups) == (8080, 0.3, ())
    assert settings.quiet_hours is None


@pytest.mark.parametrize(
    "text", ['["5000000011", "5000000012"]', "[5000000011, 5000000012]", "5000000011,5000000012", "5000000011，5000000012"]
)
def test_lists_are_read_in_every_usual_form(text: str) -> None:
    assert load_settings({"superusers": text}).superusers == (5000000011, 5000000012)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"talk_frequency": "often"}, ["TALK_FREQUENCY=often", "0 到 1"]),
        ({"talk_frequency": "1.2"}, ["TALK_FREQUENCY=1.2", "0 到 1"]),
        ({"talk_frequency": "nan"}, ["TALK_FREQUENCY=nan", "0 到 1"]),
        ({"port": "99999"}, ["PORT=99999", "65535"]),
        ({"database_url": "mysql://u:hidden@h/db"}, ["DATABASE_URL=mysql://u:***@h/db", "postgresql://"]),
        ({"quiet_hours": "25:00-7"}, ["QUIET_HOURS=25:00-7", "HH:MM-HH:MM"]),
        ({"timezone": "Mars/Base"}, ["TIMEZONE=Mars/Base", "Asia/Shanghai"]),
        ({"llm_base_url": "api.example.com"}, ["LLM_BASE_URL=api.example.com", "https://"]),
        ({"llm_model": "m"}, ["LLM_BASE_URL"]),
        ({"llm_base_url": "http://127.0.0.1/v1"}, ["LLM_MODEL"]),
        ({"embedding_model": "m"}, ["EMBEDDING_BASE_URL"]),
        ({"embedding_base_url": "http://127.0.0.1/v1"}, ["EMBEDDING_MODEL"]),
        ({"llm_structured": "xml"}, ["LLM_STRUCTURED=xml", "json_schema"]),
        ({"enabled_groups": '["a"]'}, ["ENABLED_GROUPS", "群号列表"]),
        ({"superusers": "[1"}, ["SUPERUSERS=[1", "QQ 号列表"]),
        ({"bot_names": "[小满]"}, ["BOT_NAMES=[小满]", '名字列表，例如 ["小满"]']),
        ({"host": "0.0.0.0"}, ["HOST=0.0.0.0", "ONEBOT_ACCESS_TOKEN"]),
        ({"debounce_seconds": "9"}, ["DEBOUNCE_MAX_SECONDS", "DEBOUNCE_SECONDS"]),
        ({"log_level": "loud"}, ["LOG_LEVEL=loud", "INFO"]),
        ({"llm_timeout_seconds": "0"}, ["LLM_TIMEOUT_SECONDS=0", "大于 0"]),
    ],
)
def test_a_wrong_value_is_named_with_what_is_accepted(values: dict[str, str], says: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(values)
    for words in says:
        assert words in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_all_wrong_values_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"port": "x", "max_turns": "0", "timezone": "nowhere"})
    assert len(str(caught.value).splitlines()) == 3


def test_quiet_hours_may_cross_midnight() -> None:
    night = parse_quiet_hours("23:30-06:00")
    assert night is not None
    assert [night.covers(time(*at)) for at in ((23, 29), (23, 30), (0, 0), (5, 59), (6, 0))] == [False, True, True, True, False]
    assert parse_quiet_hours("  ") is None
    assert parse_quiet_hours("1:00-7:00") == QuietHours(start=time(1), end=time(7))


def test_an_open_door_needs_a_token() -> None:
    assert load_settings({"host": "0.0.0.0", "onebot_access_token": "t"}).host == "0.0.0.0"
    assert load_settings({"host": "localhost"}).onebot_access_token == ""
