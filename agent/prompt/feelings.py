"""The small blocks of what the bot carries along: its working note, whom it likes, its mood."""

from __future__ import annotations

from agent.prompt.block import View
from db.intimacy import MIDDLE, level
from db.moods import Mood
from llm.hygiene import one_line
from llm.lines import speaker

LIKED = 8
"""As many people's liking is told."""
SLIGHT, STRONG = 0.2, 0.6
"""From which distance to rest a mood has a word, and a stronger one."""

_VALENCE = ("很难受", "有点低落", "心情不错", "很开心")
_ENERGY = ("很累", "有点累", "挺精神", "很兴奋")
_SOCIABILITY = ("想一个人静静", "不太想说话", "愿意聊天", "很想聊天")


def note(view: View) -> str:
    """What the bot noted for itself."""
    text = one_line(view.snapshot.mind.note)
    return f"便签：{text}" if text else ""


def liking(view: View) -> str:
    """How the bot likes the people present, where that is out of the ordinary; the latest speakers first."""
    told: list[str] = []
    for user_id, line in view.snapshot.people().items():
        named = level(view.snapshot.mind.liking.get(user_id, 0.0))
        if named != MIDDLE:
            told.append(f"{speaker(line)} {named}")
    return f"好感：{'、'.join(told[:LIKED])}" if told else ""


def mood(view: View) -> str:
    """How the bot feels, where it is not at rest."""
    words = mood_words(view.snapshot.mind.mood)
    return f"心情：{words}" if words else ""


def mood_words(felt: Mood) -> str:
    """Say a mood in words; an empty text at rest."""
    scales = ((felt.valence, _VALENCE), (felt.energy, _ENERGY), (felt.sociability, _SOCIABILITY))
    return "，".join(word for value, words in scales if (word := _word(value, words)))


def _word(value: float, words: tuple[str, str, str, str]) -> str:
    if abs(value) < SLIGHT:
        return ""
    strong = abs(value) >= STRONG
    if value < 0:
        return words[0 if strong else 1]
    return words[3 if strong else 2]
