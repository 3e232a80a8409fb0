"""One adapter for the session, served anew for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import nonebot
import pytest
from nonebot.log import logger

from plugins.napcat import NapCatAdapter
from tests.chat.adapter.door import Door, opened


@pytest.fixture(scope="session")
def adapter(nonebug_init: None) -> NapCatAdapter:
    """The one adapter of this session's NoneBot."""
    nonebot.get_driver().register_adapter(NapCatAdapter)  # pyright: ignore[reportUnknownMemberType] - untyped kwargs
    return nonebot.get_adapter(NapCatAdapter)


@pytest.fixture
async def door(adapter: NapCatAdapter) -> AsyncGenerator[Door, None]:
    """The adapter, served."""
    async with opened(adapter) as served:
        yield served


@pytest.fixture
def lines() -> Generator[list[str], None, None]:
    """What the log says."""
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), level="DEBUG", format="{message}")
    yield said
    logger.remove(sink)
