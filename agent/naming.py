"""How the prompt names the members that memories are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.snapshot import Snapshot
from db.history import find_members
from db.memory_models import Subject
from db.pool import Database
from llm.hygiene import plain_name
from llm.lines import speaker


async def tagged_names(database: Database, snapshot: Snapshot, users: Iterable[int]) -> dict[int, str]:
    """Name members as the lines do, ``小明[3]``; those without a line by what is known of them."""
    people = snapshot.people()
    wanted = set(users)
    names = {user: speaker(people[user]) for user in wanted if user in people}
    missing = sorted(wanted - names.keys())
    if missing:
        async with database.connection() as conn:
            known = await find_members(conn, snapshot.request.conversation.id, numbers=missing, names=[])
        names |= {member.user_id: f"{plain_name(member.name)}[{member.no}]" for member in known if member.user_id in missing}
    return names


def about(subject: Subject, names: Mapping[int, str]) -> str:
    """Say whom a memory is about."""
    match subject.kind:
        case "group":
            return "群里"
        case "bot":
            return "你"
        case "member":
            return names.get(subject.user_id, "某人[?]")
