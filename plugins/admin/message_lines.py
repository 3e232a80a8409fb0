"""A message as a line of JSON: what ``GET /api/messages`` gives and an import reads."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from db.models import ConversationId, ConversationKey, display
from db.sightings import NewMessage
from plugins.admin.errors import explain
from plugins.admin.params import MAX_ID, QQNumber
from plugins.chat.hygiene import clean_text
from plugins.chat.names import show_name

IMPORTED = 0
"""The account under which imported messages are known: no account has this number."""
TEXT_CHARS = 20_000

Number: TypeAlias = Annotated[int, Field(ge=-MAX_ID, le=MAX_ID)]
Name: TypeAlias = Annotated[str, Field(max_length=200), AfterValidator(clean_text)]
Text: TypeAlias = Annotated[str, Field(max_length=TEXT_CHARS), AfterValidator(clean_text)]


class MessageLine(BaseModel):
    """One message. ``sender_id``, ``text`` and ``sent_at`` are enough; what it does not know it ignores.

    ``group_id`` or ``user_id`` says where it belongs, unless the request says it for all. ``account_id`` and ``message_id``
    name it as an own account knows it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    group_id: QQNumber | None = Field(default=None, description="群号；请求里给了就不用写")
    user_id: QQNumber | None = Field(default=None, description="好友的 QQ 号；请求里给了就不用写")
    id: Number | None = Field(default=None, description="来处的编号：引用靠它对上")
    account_id: QQNumber | None = None
    message_id: Number | None = None
    kind: Literal["message", "poke"] = "message"
    sender_id: QQNumber
    sender_name: Name = ""
    is_self: bool = False
    is_robot: bool = False
    is_command: bool = False
    text: Text = ""
    display: Text | None = Field(default=None, description="读者看到的；不写就是 text")
    quoted_id: Number | None = None
    quote_name: Name | None = None
    quote_text: Text | None = None
    sent_at: AwareDatetime
    withdrawn_at: AwareDatetime | None = None
    withdrawn_by: QQNumber | None = None

    @property
    def key(self) -> ConversationKey | None:
        """Where it says that it belongs; None: it does not. Raises ValueError where it names two places."""
        if self.group_id is not None and self.user_id is not None:
            raise ValueError("group_id 和 user_id 只能给一个")
        if self.group_id is not None:
            return ConversationKey("group", self.group_id)
        return None if self.user_id is None else ConversationKey("private", self.user_id)

    @property
    def body(self) -> str:
        """What a reader sees without the quote."""
        if self.display is None:
            return self.text
        head = display("", self.quote_name, self.quote_text)
        return self.display.removeprefix(head).lstrip(" ") if head else self.display


def read_message(raw: bytes) -> MessageLine:
    """Read one line. Raises ValueError with a Chinese reason."""
    try:
        line = MessageLine.model_validate_json(raw)
    except ValidationError as error:
        raise ValueError(explain(error.errors())[:300]) from error
    if not line.body and not line.text:
        raise ValueError("text 和 display 都是空的")
    return line


def imported_key(line: MessageLine, key: ConversationKey, nth: int) -> int:
    """Derive the number under which an imported message is known: the same for the same words, person and time.

    ``nth`` tells apart equal messages of one moment.
    """
    moment = line.sent_at.timestamp()
    told = f"{key.kind}:{key.target_id}:{line.kind}:{line.sender_id}:{moment:.3f}:{nth}:{line.text}\0{line.body}"
    digest = hashlib.sha256(told.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def new_message(line: MessageLine, where: ConversationId, known_as: tuple[int, int]) -> NewMessage:
    """Make the row: history that calls nobody. ``known_as``: account and message id.

    It has no real_seq: a number that a file tells would claim the place of a message that QQ still has to send. Nor has it
    what it quotes, until that is found: a withdrawal, or its author's wish to be forgotten, must reach those words as well.
    """
    return NewMessage(
        conversation_id=where,
        account_id=known_as[0],
        message_id=known_as[1],
        real_seq=None,
        sender_id=line.sender_id,
        sender_name=show_name("", line.sender_name, line.sender_id),
        sent_at=line.sent_at,
        text=line.text,
        body=line.body,
        kind=line.kind,
        is_self=line.is_self,
        is_robot=line.is_robot and not line.is_self,
        is_command=line.is_command,
        quote_name=None if line.quote_name is None else "",
        backfilled=True,
        withdrawn_at=line.withdrawn_at,
        withdrawn_by=line.withdrawn_by,
    )
