"""A group with expressions that tests put in, and what became of them."""

from __future__ import annotations

from db import expression_prompt, expressions
from db.expressions import Expression, read_pair
from db.learned_models import ExpressionId
from tests.db.memory_world import MING, WANG, WEI, MemoryWorld

PEOPLE = (MING, WEI, WANG)


class ExpressionWorld(MemoryWorld):
    """A group. Rows are as the learner leaves them."""

    async def talk(self, *texts: str) -> list[int]:
        """Store messages of 小明, 阿伟 and 老王 in turn; gives their positions."""
        return [await self.say(text, PEOPLE[number % 3]) for number, text in enumerate(texts)]

    async def put(self, situation: str, phrase: str, *evidence: int, **fields: object) -> ExpressionId:
        """Put in a row with evidence (positions); ``fields`` are columns."""
        pair = read_pair(situation, phrase)
        columns: dict[str, object] = {
            "situation": pair.situation,
            "phrase": pair.phrase,
            "pair_key": pair.key,
            "phrase_key": pair.phrase_key,
            "search": pair.search,
            "phrase_search": pair.phrase_search,
            "source": "model",
            "confidence": 0.8,
        } | fields
        names = ", ".join(columns)
        values = ", ".join(f"%({name})s" for name in columns)
        [(made,)] = await self.rows(
            f"INSERT INTO expressions (conversation_id, {names}) VALUES (%(c)s, {values}) RETURNING id", **columns
        )
        row = ExpressionId(int(str(made)))
        for pos in evidence:
            await self.rows(
                "INSERT INTO expression_evidence VALUES (%(id)s, %(message)s) RETURNING 1", id=row, message=await self.row(pos)
            )
        return row

    async def approved(self, situation: str, phrase: str, *evidence: int, **fields: object) -> ExpressionId:
        """Put in a row that a person approved."""
        return await self.put(situation, phrase, *evidence, **({"status": "approved", "decided_by": "api"} | fields))

    async def expression(self, row: ExpressionId) -> Expression | None:
        """Read one row."""
        async with self.database.connection() as conn:
            return await expressions.get(conn, row)

    async def there(self, row: ExpressionId) -> Expression:
        """Read one row that must be there."""
        found = await self.expression(row)
        assert found is not None
        return found

    async def all(self) -> list[tuple[object, ...]]:
        """Situation, phrase and status of every row."""
        return [tuple(row) for row in await self.rows("SELECT situation, phrase, status FROM expressions ORDER BY id")]

    async def supporting(self, row: ExpressionId) -> list[int]:
        """The positions of a row's evidence."""
        found = await self.rows(
            """
            SELECT m.pos FROM expression_evidence e JOIN messages m ON m.id = e.message
            WHERE e.expression_id = %(id)s ORDER BY m.pos
            """,
            id=row,
        )
        return [int(str(pos)) for (pos,) in found]

    async def prompted(self, text: str) -> list[str]:
        """The phrases that a prompt about a text shows."""
        async with self.database.connection() as conn:
            return [known.phrase for known in await expression_prompt.fitting(conn, self.conversation, text)]
