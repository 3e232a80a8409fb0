"""Personas: found, checked, and read again when their file changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from persona.loader import PersonaMissing, Personas, list_personas, load_persona


def write(data_dir: Path, name: str, text: str) -> Path:
    """Write an owner's persona."""
    path = data_dir / "persona" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_default_persona(tmp_path: Path) -> None:
    persona = load_persona("default", tmp_path)
    assert (persona.title, persona.names) == ("小满", ("小满",))
    assert "---" not in persona.text
    assert len(persona.text) < 600


def test_all_built_in_personas_can_be_read(tmp_path: Path) -> None:
    names = list_personas(tmp_path)
    assert {"default", "gentle", "quiet"} <= set(names)
    assert all(load_persona(name, tmp_path).text for name in names)


def test_the_owners_file_comes_first(tmp_path: Path) -> None:
    write(tmp_path, "default", "\ufeff---\r\ntitle: 小八\r\nnames: 小八，八哥、 bage\r\n---\r\n你是小八。\r\n")
    persona = load_persona("default", tmp_path)
    assert (persona.title, persona.names, persona.text) == ("小八", ("小八", "八哥", "bage"), "你是小八。")


def test_a_file_without_front_matter_is_all_text(tmp_path: Path) -> None:
    write(tmp_path, "阿呆", "你是阿呆。\n---\n别的")
    assert load_persona("阿呆", tmp_path).names == ("阿呆",)
    assert load_persona("阿呆", tmp_path).text.endswith("别的")


@pytest.mark.parametrize("name", ["nobody", "", "../persona/default", "a/b", "default.md", "..", "x" * 99])
def test_a_missing_persona_lists_what_exists(tmp_path: Path, name: str) -> None:
    with pytest.raises(PersonaMissing, match="现有：default、gentle、quiet"):
        load_persona(name, tmp_path)


@pytest.mark.parametrize("text", ["", "---\nnames: 小八\n---\n", "长" * 20_001])
def test_an_empty_or_endless_persona_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, "bad", text)
    with pytest.raises(PersonaMissing, match="正文"):
        load_persona("bad", tmp_path)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "bad", "x").write_bytes("你好".encode("gbk"))
    with pytest.raises(PersonaMissing, match="UTF-8"):
        load_persona("bad", tmp_path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    personas = Personas(tmp_path)
    path = write(tmp_path, "mine", "旧的")
    assert personas.get("mine").text == "旧的"
    assert personas.get("mine") is personas.get("mine")
    path.write_text("新的", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert personas.get("mine").text == "新的"
    path.unlink()
    with pytest.raises(PersonaMissing):
        personas.get("mine")
    assert "mine" not in personas.names()
