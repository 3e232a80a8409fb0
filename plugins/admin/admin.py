"""The REST API, mounted on NoneBot's FastAPI app. Routes stand before startup; until the bot runs they answer 503."""

from __future__ import annotations

from typing import cast

import nonebot
from fastapi import FastAPI
from nonebot.plugin import PluginMetadata

from plugins.admin.health import VERSION
from plugins.admin.router import build_router
from plugins.runtime import get_admin_token, get_runtime

__plugin_meta__ = PluginMetadata(
    name="群友管理接口",
    description="REST 接口：健康、会话、消息、轮、记忆、召回、搜索、发件箱、用量、审计",
    usage="GET /api/health；其余接口带上 Authorization: Bearer <ADMIN_TOKEN>，说明见 /docs",
)

app = cast("FastAPI", nonebot.get_app())
app.title = "群友"
app.version = VERSION
app.include_router(build_router(get_runtime, get_admin_token()))
