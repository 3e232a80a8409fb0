"""What the log tells an owner to do next. Pure."""

from __future__ import annotations

from settings import LOOPBACK, Settings


def next_steps(settings: Settings) -> list[str]:
    """Say in Chinese how to connect NapCat, where the API is, and whether the demo model answers."""
    host = settings.host if settings.host in LOOPBACK else "本机IP"
    lines = [
        "启动好了。接下来在 NapCat「网络配置 → 新建 → Websocket 客户端」里填：",
        f"  URL    ws://{host}:{settings.port}/onebot/v11/ws",
        f"  Token  {_token(settings)}",
        "  消息格式选 array，勾选「启用」，保存",
        f"接口说明 http://{host}:{settings.port}/docs （需要 ADMIN_TOKEN；管理页面还在建设中）",
    ]
    if not settings.enabled_groups:
        lines.append("还没有开启任何群：在 .env 里写 ENABLED_GROUPS=[群号]，或由 SUPERUSERS 在群里发 /群友 开启")
    if settings.demo:
        lines.append("现在用的是演示模型（不是语言模型）：在 .env 里设置 LLM_BASE_URL、LLM_API_KEY、LLM_MODEL 后重启")
    return lines


def _token(settings: Settings) -> str:
    return settings.onebot_access_token or "（留空）"
