"""A group with slang rows that tests put in, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence

from db import slang, slang_counts, slang_prompt
from db.learned_models import SlangId
from db.slang import Slang
from db.slang_terms import term_key
from tests.db.memory_world import MING, WANG, WEI, MemoryWorld

PEOPLE = (MING, WEI, WANG)


class SlangWorld(MemoryWorld):
    """A group. Rows are as the learner leaves them."""

    async def talk(self, *texts: str) -> list[int]:
        """Store messages of 小明, 阿伟 and 老王 in turn; gives their positions."""
        return [await self.hear(text, PEOPLE[number % 3]) for number, text in enumerate(texts)]

    async def hear(self, text: str, user: int = MING, **more: object) -> int:
        """Store one message of a person."""
        return await self.say(text, user, **more)

    async def put(self, term: str, meaning: str = "", *evidence: int, **fields: object) -> SlangId:
        """Put in a row with evidence (positions); ``fields`` are columns. A meaning is in the history, from the evidence."""
        columns: dict[str, object] = {
            "term": term,
            "term_key": term_key(term),
            "meaning": meaning,
            "source": "model",
            "confidence": 0.8 if meaning else None,
        } | fields
        names = ", ".join(columns)
        values = ", ".join(f"%({name})s" for name in columns)
        [(made,)] = await self.rows(
            f"INSERT INTO slang (conversation_id, {names}) VALUES (%(c)s, {values}) RETURNING id", **columns
        )
        row = SlangId(int(str(made)))
        messages = [await self.row(pos) for pos in evidence]
        async with self.database.transaction() as conn:
            for message in messages:
                await conn.execute("INSERT INTO slang_evidence VALUES (%(id)s, %(message)s)", {"id": row, "message": message})
            if meaning:
                await conn.execute(
                    """
                    INSERT INTO slang_meanings (slang_id, occurrences, meaning, source, sources)
                    VALUES (%(id)s, 1, %(meaning)s, 'model', %(sources)s)
                    """,
                    {"id": row, "meaning": meaning, "sources": messages},
                )
            await slang_counts.recount(conn, [row])
        return row

    async def spell(self, row: SlangId, *variants: str) -> None:
        """Give a row other spellings."""
        for variant in variants:
            await self.rows(
                "INSERT INTO slang_variants VALUES (%(c)s, %(key)s, %(variant)s, %(id)s) RETURNING slang_id",
                key=term_key(variant), variant=variant, id=row,
            )  # fmt: skip

    async def slang(self, row: SlangId) -> Slang | None:
        """Read one row."""
        async with self.database.connection() as conn:
            return await slang.get(conn, row)

    async def there(self, row: SlangId) -> Slang:
        """Read one row that must be there."""
        found = await self.slang(row)
        assert found is not None
        return found

    async def by_term(self, term: str) -> Slang | None:
        """Read the row of a term."""
        found = await self.rows("SELECT id FROM slang WHERE conversation_id = %(c)s AND term_key = %(key)s", key=term_key(term))
        return await self.there(SlangId(int(str(found[0][0])))) if found else None

    async def supporting(self, row: SlangId) -> list[int]:
        """The positions of a row's evidence."""
        found = await self.rows(
            "SELECT m.pos FROM slang_evidence e JOIN messages m ON m.id = e.message WHERE e.slang_id = %(id)s ORDER BY m.pos",
            id=row,
        )
        return [int(str(pos)) for (pos,) in found]

    async def meanings(self, row: SlangId) -> list[str]:
        """The history of a row's meanings."""
        return [
            str(text)
            for (text,) in await self.rows("SELECT meaning FROM slang_meanings WHERE slang_id = %(id)s ORDER BY id", id=row)
        ]

    async def prompted(self, text: str) -> list[str]:
        """The terms that a prompt about a text shows."""
        async with self.database.connection() as conn:
            return [known.term for known in await slang_prompt.in_text(conn, self.conversation, text)]

    async def looked_up(self, term: str) -> list[str]:
        """The terms that a lookup finds."""
        async with self.database.connection() as conn:
            return [known.term for known in await slang_prompt.look_up(conn, self.conversation, term)]

    async def acts(self) -> Sequence[tuple[object, ...]]:
        """Who did what, and the status before and after."""
        return await self.rows("SELECT actor, action, before ->> 'status', after ->> 'status' FROM audit ORDER BY id")
