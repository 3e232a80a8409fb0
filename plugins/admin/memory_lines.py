"""A memory as a line of JSON: what an export writes and an import reads."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from db.memory_models import CONTENT_CHARS, MemoryKind, MemoryStatus, SubjectKind
from db.models import ConversationKey
from db.moderation import Storable
from plugins.admin.errors import explain
from plugins.admin.params import MAX_ID, QQNumber
from plugins.admin.subjects import NamedSubject

MAX_ERRORS = 20
_LONGEST_RAW = 20 * CONTENT_CHARS


def one_claim(text: str) -> str:
    """Make a claim's text one line. Raises ValueError where nothing or too much is left."""
    line = " ".join(text.split())
    if not line:
        raise ValueError("不能为空")
    if len(line) > CONTENT_CHARS:
        raise ValueError(f"不能超过 {CONTENT_CHARS} 个字")
    return line


Content: TypeAlias = Annotated[Storable, Field(max_length=_LONGEST_RAW), AfterValidator(one_claim)]
SubjectNumber: TypeAlias = Annotated[int, Field(ge=0, le=MAX_ID)]


class MemoryLine(BaseModel):
    """One memory. ``group_id``, ``subject_id``, ``kind`` and ``content`` are enough; what it does not know it ignores."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    group_id: QQNumber | None = Field(default=None, description="群号")
    user_id: QQNumber | None = Field(default=None, description="好友的 QQ 号：私聊里的记忆")
    subject: SubjectKind | None = None
    subject_id: SubjectNumber | None = Field(default=None, description="成员的 QQ 号；0 或不写：群")
    kind: MemoryKind
    content: Content
    status: MemoryStatus = "active"
    locked: bool = Field(default=True, description="人给的，机器人不改它；不写为 true")
    uses: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    used_at: AwareDatetime | None = None
    created_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _one_place(self) -> MemoryLine:
        if (self.group_id is None) == (self.user_id is None):
            raise ValueError("group_id 和 user_id 要给且只给一个")
        return self

    @property
    def key(self) -> ConversationKey:
        """Where it belongs."""
        if self.group_id is not None:
            return ConversationKey("group", self.group_id)
        return ConversationKey("private", self.user_id or 0)

    @property
    def named(self) -> NamedSubject:
        """Whom it is about, as written."""
        return NamedSubject(self.subject, self.subject_id)


def read_line(raw: bytes) -> MemoryLine:
    """Read one line. Raises ValueError with a Chinese reason."""
    try:
        return MemoryLine.model_validate_json(raw)
    except ValidationError as error:
        raise ValueError(explain(error.errors())[:300]) from error


class BadLine(BaseModel):
    """A line that was left out, and why."""

    line: int
    detail: str


class LinesReport(BaseModel):
    """What an import of lines did. ``known`` ones were there before."""

    lines: int = Field(default=0, description="读到的行数，空行不算")
    new: int = Field(default=0, description="新存下的")
    known: int = Field(default=0, description="本来就有的")
    failed: int = Field(default=0, description="没能读懂的行")
    errors: list[BadLine] = Field(default_factory=list[BadLine], description=f"前 {MAX_ERRORS} 个没能读懂的行")

    def note(self, line: int, detail: str) -> None:
        """Count a line that was left out."""
        self.failed += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(BadLine(line=line, detail=detail))

    def summary(self) -> str:
        """Say it in one Chinese line."""
        return f"{self.lines} 行：新存下 {self.new}，本来就有 {self.known}，没读懂 {self.failed}"


class ImportReport(LinesReport):
    """What an import of memories did; ``embedded``: all of them have a vector by now."""

    embedded: bool = Field(default=False, description="都有向量了，召回的两条腿都能用")
    detail: str | None = Field(default=None, description="为什么 embedded 是 false")

    def summary(self) -> str:
        """Say it in one Chinese line."""
        embedded = "向量都算好了" if self.embedded else (self.detail or "向量还在后台算")
        return f"{LinesReport.summary(self)}；{embedded}"
