"""Asking QQ about the group and its members."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from agent.ports import MemberInfo, Notice, PlatformError
from agent.prompt.profiles import traits_told
from agent.tools.declaration import GROUP_ONLY, NoArgs, Tool, ToolArgs, ToolContext, ToolResult
from agent.tools.subjects import one_member
from db.history import find_members
from db.trait_prompt import of_members
from llm.hygiene import cut, one_line, plain_name
from llm.lines import day_clock

NOTICES = 5
NOTICE_CHARS = 250
TRAITS = 20
_ROLES = {"owner": "群主", "admin": "管理员", "member": "普通成员"}


class MemberArgs(ToolArgs):
    """One member of the group."""

    member: str = Field(min_length=1)


async def _member_info(ctx: ToolContext, args: MemberArgs) -> ToolResult:
    user_id = await one_member(ctx, args.member)
    info = await ctx.snapshot.request.platform.member_info(user_id)
    where = ctx.snapshot.request.conversation.id
    async with ctx.database.connection() as conn:
        known = await find_members(conn, where, numbers=[user_id], names=[])
        traits = await of_members(conn, where, [user_id], sensitive=ctx.sensitive, each=TRAITS)
    number = next((member.no for member in known if member.user_id == user_id), None)
    told = _told(ctx, info, number)
    return ToolResult(f"{told}\n画像：{traits_told(traits)}" if traits else told)


def _told(ctx: ToolContext, info: MemberInfo, number: int | None) -> str:
    zone = ctx.snapshot.zone
    facts = [f"{plain_name(info.name)}[{'?' if number is None else number}]", _ROLES.get(info.role, "身份未知")]
    if info.title.strip():
        facts.append(f"头衔 {plain_name(info.title)}")
    if info.level.strip():
        facts.append(f"等级 {plain_name(info.level)}")
    if info.joined_at is not None:
        facts.append(f"{info.joined_at.astimezone(zone):%Y-%m-%d} 入群")
    if info.last_spoke_at is not None:
        facts.append(f"最近发言 {day_clock(info.last_spoke_at, zone)}")
    return "，".join(facts)


def _listed(ctx: ToolContext, notices: Sequence[Notice], nothing: str) -> ToolResult:
    if not notices:
        return ToolResult(nothing)
    told: list[str] = []
    for notice in notices[:NOTICES]:
        at = "" if notice.at is None else f"{day_clock(notice.at, ctx.snapshot.zone)} "
        told.append(f"- {at}{plain_name(notice.author)}: {cut(one_line(notice.text), NOTICE_CHARS)}")
    return ToolResult("\n".join(told))


async def _notices(ctx: ToolContext, args: NoArgs) -> ToolResult:
    return _listed(ctx, await ctx.snapshot.request.platform.notices(), "这个群没有公告。")


async def _essence(ctx: ToolContext, args: NoArgs) -> ToolResult:
    return _listed(ctx, await ctx.snapshot.request.platform.essence(), "这个群没有精华消息。")


async def _poke(ctx: ToolContext, args: MemberArgs) -> ToolResult:
    user_id = await one_member(ctx, args.member)
    if user_id not in ctx.snapshot.people():
        async with ctx.database.connection() as conn:
            known = await find_members(conn, ctx.snapshot.request.conversation.id, numbers=[user_id], names=[])
        if not any(member.user_id == user_id and member.left_at is None for member in known):
            raise PlatformError("这个人不在群里")
    await ctx.snapshot.request.platform.poke(user_id)
    return ToolResult("戳好了。")


MEMBER_INFO = Tool("getMemberInfo", "查成员资料", MemberArgs, "read", _member_info, GROUP_ONLY)
NOTICE_LIST = Tool("getGroupNotices", "看群公告", NoArgs, "read", _notices, GROUP_ONLY)
ESSENCE_LIST = Tool("getEssenceMessages", "看群精华", NoArgs, "read", _essence, GROUP_ONLY)
POKE = Tool("poke", "戳一戳", MemberArgs, "outward", _poke, GROUP_ONLY)
