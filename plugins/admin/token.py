"""The admin token: the setting, or one made at the first start and kept under DATA_DIR."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from filelock import FileLock

from settings import Settings

FILE_NAME = "admin_token"


@dataclass(frozen=True, slots=True)
class AdminToken:
    """The token. ``made``: it was made just now, and its owner has not seen it yet."""

    value: str
    made: bool

    def __repr__(self) -> str:
        return f"AdminToken(value='***', made={self.made})"


def admin_token(settings: Settings) -> AdminToken:
    """Give ADMIN_TOKEN, else the token kept in ``DATA_DIR/admin_token``, making it when there is none.

    Raises OSError when DATA_DIR cannot be written.
    """
    if settings.admin_token:
        return AdminToken(settings.admin_token, made=False)
    path = settings.data_dir / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f"{FILE_NAME}.lock")):  # two processes may start at once
        kept = path.read_text(encoding="utf-8").strip() if path.exists() else ""
        if kept:
            return AdminToken(kept, made=False)
        made = secrets.token_urlsafe(24)
        aside = path.with_name(f"{FILE_NAME}.new")
        aside.touch(mode=0o600)
        aside.write_text(made + "\n", encoding="utf-8")
        aside.replace(path)
    return AdminToken(made, made=True)
