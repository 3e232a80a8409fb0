"""The admin token: the setting, or a file that is made once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plugins.admin.token import admin_token
from tests.admin.seed import settings_with


def test_the_setting_counts_and_leaves_no_file(tmp_path: Path) -> None:
    token = admin_token(settings_with(tmp_path, admin_token="my-own-token"))
    assert (token.value, token.made) == ("my-own-token", False)
    assert list(tmp_path.iterdir()) == []


def test_it_is_made_once_and_kept(tmp_path: Path) -> None:
    settings = settings_with(tmp_path / "new" / "data")
    first, second = admin_token(settings), admin_token(settings)
    assert (first.made, second.made) == (True, False)
    assert first.value == second.value
    assert len(first.value) >= 32
    assert first.value not in repr(first)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    admin_token(settings_with(tmp_path))
    assert (tmp_path / "admin_token").stat().st_mode & 0o077 == 0


def test_many_at_once_agree(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda _: admin_token(settings), range(8)))
    assert len({token.value for token in tokens}) == 1
    assert sum(token.made for token in tokens) == 1


def test_an_emptied_file_gets_a_new_token(tmp_path: Path) -> None:
    (tmp_path / "admin_token").write_text("\n", encoding="utf-8")
    assert admin_token(settings_with(tmp_path)).made
