"""A group with traits that tests put in, and what became of them."""

from __future__ import annotations

from db import trait_prompt, traits
from db.learned_models import TraitId, TraitKind
from db.searchtext import content_key
from db.traits import Trait
from tests.db.memory_world import MING, MemoryWorld


class TraitWorld(MemoryWorld):
    """A group. 小明, 阿伟 and 老王 have the numbers 1, 2 and 3; rows are as the learner leaves them."""

    async def says(self, user: int, *texts: str) -> list[int]:
        """Store messages of one person; gives their positions."""
        return [await self.say(text, user) for text in texts]

    async def put(self, kind: TraitKind, content: str, *evidence: int, user: int = MING, **fields: object) -> TraitId:
        """Put in a trait with evidence (positions); ``fields`` are columns."""
        columns: dict[str, object] = {
            "user_id": user,
            "kind": kind,
            "content": content,
            "content_key": content_key(content),
            "source": "model",
        } | fields
        names = ", ".join(columns)
        values = ", ".join(f"%({name})s" for name in columns)
        [(made,)] = await self.rows(
            f"INSERT INTO traits (conversation_id, {names}) VALUES (%(c)s, {values}) RETURNING id", **columns
        )
        row = TraitId(int(str(made)))
        for pos in evidence:
            await self.rows(
                "INSERT INTO trait_evidence VALUES (%(id)s, %(message)s) RETURNING 1", id=row, message=await self.row(pos)
            )
        return row

    async def trait(self, row: TraitId) -> Trait | None:
        """Read one row."""
        async with self.database.connection() as conn:
            return await traits.get(conn, row)

    async def there(self, row: TraitId) -> Trait:
        """Read one row that must be there."""
        found = await self.trait(row)
        assert found is not None
        return found

    async def profile(self, user: int = MING) -> list[tuple[str, str]]:
        """The kinds and contents of a member's current traits."""
        found = await self.rows(
            "SELECT kind, content FROM traits WHERE user_id = %(user)s AND dropped_at IS NULL ORDER BY id", user=user
        )
        return [(str(kind), str(content)) for kind, content in found]

    async def supporting(self, row: TraitId) -> list[int]:
        """The positions of a row's evidence."""
        found = await self.rows(
            "SELECT m.pos FROM trait_evidence e JOIN messages m ON m.id = e.message WHERE e.trait_id = %(id)s ORDER BY m.pos",
            id=row,
        )
        return [int(str(pos)) for (pos,) in found]

    async def prompted(self, *users: int, sensitive: bool = False) -> list[str]:
        """The traits that a prompt about some members shows."""
        async with self.database.connection() as conn:
            found = await trait_prompt.of_members(conn, self.conversation, users or (MING,), sensitive=sensitive)
        return [known.content for known in found]

    async def leave(self, user: int) -> None:
        """A member leaves the group now."""
        await self.rows(
            "UPDATE members SET left_at = now() WHERE conversation_id = %(c)s AND user_id = %(user)s RETURNING 1", user=user
        )
