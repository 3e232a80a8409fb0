"""What a model answers about members. Pure."""

from __future__ import annotations

import re
from typing import Annotated, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from db.learned_models import TraitKind
from learner.fields import EACH, MOST_ITEMS, Labels

_TAGGED = re.compile(r".*[\[［(（【]\s*(\d{1,18})\s*[\]］)）】]", re.DOTALL)
_PLAIN = re.compile(r"\D{0,12}?(\d{1,18})")


def _number(value: object) -> object:
    """Read ``5000000011``, ``"5000000011"``, ``"小明[3]"`` and ``"user_id 5000000011"``."""
    if isinstance(value, str) and (match := _TAGGED.fullmatch(value.strip()) or _PLAIN.fullmatch(value.strip())):
        return int(match[1])
    return value


def _numbers(value: object) -> object:
    """Read the numbers of a list; what is none is left out, for it can only mean a trait that nobody showed."""
    if not isinstance(value, list):
        return [] if value is None else [_number(value)]
    read = [_number(item) for item in cast("list[object]", value)[:MOST_ITEMS]]
    return [item for item in read if isinstance(item, int)]


def _traits(value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    """A member of whom nothing fits is refused, unless something is to be dropped: one does not cost the other."""
    if value is None:
        return []
    try:
        return handler(value)
    except ValidationError:
        if info.data.get("drop"):
            return []
        raise


class TraitItem(BaseModel):
    """One thing to know of a member."""

    kind: TraitKind = Field(description="alias 别名，interest 兴趣，style 说话方式，relation 和群友的关系，fact 稳定的情况")
    content: str = Field(description="一句短话，不写本人名字；别名只写那个名字", min_length=1)
    evidence: Annotated[Labels, EACH, Field(description="本人说的、支持它的消息编号")]


class MemberItem(BaseModel):
    """What changes in one member's profile."""

    user_id: Annotated[int, BeforeValidator(_number)] = Field(description="成员列表里的 user_id")
    # Before ``add``, whose reading depends on it.
    drop: Annotated[list[int], BeforeValidator(_numbers)] = Field(default=[], description="不再成立的已知条目的编号")
    add: Annotated[list[TraitItem], EACH, WrapValidator(_traits)] = Field(default=[], description="新知道的")


class ProfilesAnswer(BaseModel):
    """The answer of ``member_profiles``."""

    members: Annotated[list[MemberItem], EACH] = Field(description="有变化的成员，没有就空着")
