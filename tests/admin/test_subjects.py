"""Whom a caller means: numbers and words, and what contradicts itself."""

from __future__ import annotations

import pytest

from db.memory_models import BOT, GROUP, Subject
from db.models import ConversationKey
from plugins.admin.subjects import NamedSubject, read_subject

HERE = ConversationKey("group", 7000000101)
FRIEND = ConversationKey("private", 5000000021)
OWN = {5000000001, 5000000002}
MING = Subject("member", 5000000011)


@pytest.mark.parametrize(
    ("named", "subject"),
    [
        (NamedSubject(), GROUP),
        (NamedSubject(number=0), GROUP),
        (NamedSubject(number=7000000101), GROUP),
        (NamedSubject(number=5000000002), BOT),
        (NamedSubject(number=5000000011), MING),
        (NamedSubject("group"), GROUP),
        (NamedSubject("group", 7000000101), GROUP),
        (NamedSubject("bot"), BOT),
        (NamedSubject("bot", 0), BOT),
        (NamedSubject("bot", 5000000001), BOT),
        (NamedSubject("member", 5000000011), MING),
    ],
)
def test_a_subject_is_read(named: NamedSubject, subject: Subject) -> None:
    assert read_subject(named, HERE, OWN) == subject


def test_a_friend_is_a_member_of_their_own_conversation() -> None:
    assert read_subject(NamedSubject(number=FRIEND.target_id), FRIEND, OWN) == Subject("member", FRIEND.target_id)


@pytest.mark.parametrize(
    "named",
    [
        NamedSubject("member"),
        NamedSubject("member", 0),
        NamedSubject("member", 5000000001),
        NamedSubject("member", 7000000101),
        NamedSubject("group", 5000000011),
        NamedSubject("bot", 5000000011),
    ],
)
def test_a_word_and_a_number_that_contradict_each_other_are_refused(named: NamedSubject) -> None:
    with pytest.raises(ValueError, match="subject"):
        read_subject(named, HERE, OWN)
