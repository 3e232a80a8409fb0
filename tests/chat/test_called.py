"""What the bot is called: BOT_NAMES, else the names of the persona that speaks in the conversation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from db.pool import Database
from persona.loader import Personas
from plugins.chat import called
from plugins.chat.called import CallNames
from settings import load_settings
from tests.chat.world import GROUP2, WANG, open_world
from tests.llm.fake_service import FakeService


def write_persona(folder: Path, name: str, names: str) -> Path:
    """A persona of the owner's."""
    path = folder / "persona" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"---\ntitle: {name}\nnames: {names}\n---\n你是{name}。\n", encoding="utf-8")
    return path


async def test_a_group_with_another_persona_calls_it_by_its_own_name(
    database: Database, tmp_path: Path, service: FakeService
) -> None:
    write_persona(tmp_path, "two", "阿财，财哥")
    async with open_world(database, tmp_path, service, bot_names="") as world:
        world.connect()
        world.say("/群友 人格 two", user=WANG)
        await world.until(lambda: len(world.napcat.sent) == 1)
        world.say("小满，在吗")
        world.say("阿财，在吗")
        world.say("阿财，在吗", group=GROUP2)
        world.say("小满，在吗", group=GROUP2)
        await world.settle()
        rows = await world.rows(
            """
            SELECT m.body, c.target_id = %(g)s AS second
            FROM owed o JOIN messages m ON m.id = o.message JOIN conversations c ON c.id = m.conversation_id
            ORDER BY c.id
            """,
            g=GROUP2,
        )
        assert [(row["body"], row["second"]) for row in rows] == [("阿财，在吗", False), ("小满，在吗", True)]


def call_names(folder: Path, bot_names: str = "") -> CallNames:
    """The names as settings and files give them."""
    settings = load_settings({"data_dir": str(folder), "bot_names": bot_names, "enabled_groups": "[]"})
    return CallNames(Personas(folder), settings)


def test_names_of_the_settings_are_those_of_every_persona(tmp_path: Path) -> None:
    write_persona(tmp_path, "two", "阿财")
    names = call_names(tmp_path, "团子")
    assert names.own_name == "团子"
    assert names.of("two") is names.of(None)
    assert names.of("two").called_in("团子，在吗")
    assert not names.of("two").called_in("阿财，在吗")


def test_a_persona_that_is_gone_is_called_as_the_default_one(tmp_path: Path) -> None:
    names = call_names(tmp_path)
    assert names.of("没有这个") is names.of(None)
    assert names.own_name == "小满"


def test_new_names_in_a_file_count_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(called, "FRESH_SECONDS", 3600.0)
    path = write_persona(tmp_path, "two", "阿财")
    names = call_names(tmp_path)
    assert names.of("two").called_in("阿财，在吗")
    write_persona(tmp_path, "two", "旺财")
    os.utime(path, ns=(1, 1))
    assert names.of("two").called_in("阿财，在吗")  # the file is not looked at for every message
    monkeypatch.setattr(called, "FRESH_SECONDS", 0.0)
    assert not names.of("two").called_in("阿财，在吗")
    assert names.of("two").called_in("旺财，在吗")
