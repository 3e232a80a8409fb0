"""Memories in bulk for the benchmarks of recall: written in PostgreSQL's binary form, indexed afterwards."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from psycopg import sql
from psycopg.rows import class_row, scalar_row

from bench.data.chat import Lines
from db.memory_models import MEMORY_KINDS, Vector
from db.pool import Connection
from db.searchtext import search_text

DIM = 384
MEMBERS = 50
FIRST_MEMBER = 5_000_000_001
_PIECE = 1_000
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_NULL = struct.pack(">i", -1)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Loaded:
    """How long it took to write rows (without indexes) and to make each index, in seconds."""

    copy_seconds: float
    index_seconds: float


@dataclass(frozen=True, slots=True)
class Size:
    """A table or index and its size."""

    name: str
    mib: float


def unit_vectors(count: int, seed: int) -> Iterator[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """Give random directions in pieces: the hardest vectors for an index, since none are neighbours."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, _PIECE):
        vectors = rng.standard_normal((min(_PIECE, count - start), DIM), dtype=np.float32)
        yield vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def a_vector(rng: random.Random) -> Vector:
    """One random direction, as a question's vector."""
    [[values]] = list(unit_vectors(1, rng.getrandbits(32)))
    return Vector(1, tuple(float(value) for value in values))


def _field(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _number(value: int) -> bytes:
    return struct.pack(">iq", 8, value)


def _moment(value: datetime) -> bytes:
    return _number(int((value - _EPOCH).total_seconds() * 1_000_000))


@dataclass(frozen=True, slots=True)
class Text:
    """A line as it goes into a row."""

    content: bytes
    search: bytes


def texts_of(lines: Lines) -> list[Text]:
    """Prepare lines once for all loads."""
    return [Text(line.encode(), search_text(line).encode()) for line in lines.texts]


async def load(conn: Connection, rows: int, groups: int, texts: Sequence[Text], tell: Callable[[int], None]) -> Loaded:
    """Fill a new database with memories spread over groups, then index and count them. ``tell``: how many were written."""
    await conn.execute("INSERT INTO embedding_spaces (model, dim) VALUES ('bench', %(dim)s)", {"dim": DIM})
    await conn.execute(
        """
        INSERT INTO conversations (kind, target_id)
        SELECT 'group', 5700000000 + n FROM generate_series(1, %(groups)s) AS n
        """,
        {"groups": groups},
    )
    indexes = await _definitions(conn)
    for index in indexes:
        await conn.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(index.name)))
    began = time.perf_counter()
    await _copy(conn, rows, groups, texts, tell)
    copied = time.perf_counter()
    await conn.execute("SET maintenance_work_mem = '256MB'")
    for index in indexes:
        await conn.execute(index.definition.encode())
    await conn.execute("RESET maintenance_work_mem")
    await conn.execute("VACUUM ANALYZE memories")
    return Loaded(copied - began, time.perf_counter() - copied)


async def _copy(conn: Connection, rows: int, groups: int, texts: Sequence[Text], tell: Callable[[int], None]) -> None:
    rng = random.Random(1)
    now = _moment(datetime.now(UTC))
    written = 0
    async with (
        conn.cursor() as cur,
        cur.copy(
            """
            COPY memories (conversation_id, subject_kind, subject_id, kind, content, content_key, search, space_id, embedding,
                           status, archived_at, source, created_at, updated_at)
            FROM STDIN (FORMAT BINARY)
            """
        ) as copy,
    ):
        await copy.write(_HEADER)
        for vectors in unit_vectors(rows, 1):
            halves = vectors.astype(">f2")
            piece: list[bytes] = []
            for half in halves:
                piece.append(_row(written, groups, rng.choice(texts), half.tobytes(), now))
                written += 1
            await copy.write(b"".join(piece))
            tell(written)
        await copy.write(struct.pack(">h", -1))


def _row(number: int, groups: int, text: Text, halves: bytes, now: bytes) -> bytes:
    """One row: one in 50 of a group is about each member, one in 100 is archived."""
    turn = number // groups
    archived = turn % 100 == 99
    return b"".join(
        (
            struct.pack(">h", 14),
            _number(1 + number % groups),
            _field(b"member"),
            _number(FIRST_MEMBER + turn % MEMBERS),
            _field(MEMORY_KINDS[turn // MEMBERS % len(MEMORY_KINDS)].encode()),
            _field(text.content),
            _field(b"%d" % number),
            _field(text.search),
            struct.pack(">ii", 4, 1),
            _field(struct.pack(">hh", DIM, 0) + halves),
            _field(b"archived" if archived else b"active"),
            now if archived else _NULL,
            _field(b"import"),
            now,
            now,
        )
    )


@dataclass(frozen=True, slots=True)
class _Index:
    name: str
    definition: str


async def _definitions(conn: Connection) -> Sequence[_Index]:
    async with conn.cursor(row_factory=class_row(_Index)) as cur:
        await cur.execute(
            """
            SELECT indexname AS name, indexdef AS definition FROM pg_indexes
            WHERE tablename = 'memories' AND indexname <> 'memories_pkey'
            """
        )
        return await cur.fetchall()


async def sizes(conn: Connection, names: Sequence[str]) -> list[Size]:
    """Ask how big tables and indexes are; those that do not exist are left out."""
    async with conn.cursor(row_factory=class_row(Size)) as cur:
        await cur.execute(
            """
            SELECT n.name, pg_relation_size(to_regclass(n.name)) / 1048576.0::float8 AS mib
            FROM unnest(%(names)s::text[]) WITH ORDINALITY AS n (name, place)
            WHERE to_regclass(n.name) IS NOT NULL
            ORDER BY n.place
            """,
            {"names": list(names)},
        )
        return await cur.fetchall()


async def biggest_index(conn: Connection) -> str | None:
    """Name an index over the vectors of one conversation, if there is one."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT indexname::text FROM pg_indexes WHERE indexname LIKE 'memories_hnsw_%' LIMIT 1")
        name = await cur.fetchone()
        return None if name is None else str(name)
