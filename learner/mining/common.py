"""What is common vocabulary: jieba's dictionary with its frequencies, and Latin words that everybody types. Pure."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import rjieba

from learner.mining.text import is_han

DICTIONARY_TOTAL = 60_101_967
"""The sum of all frequencies in jieba's dictionary."""
RARE = 60
"""A dictionary word up to this frequency may mean something else here."""
_LATIN_FREQUENCY = 20


def _among(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ORDINARY = _among(
    """
    ok okay yes no hi hello hey bye sorry thanks thank thx you me my we he she it is are am be was do did go get got app
    apk wifi wlan vip svip id ip url pdf ppt word excel doc docx txt zip rar exe mp mp3 mp4 gif jpg jpeg png avi mkv html
    css cpu gpu ssd hdd usb ram rom led lcd tv dvd cd pc mac ios android windows win linux ubuntu python java js cpp php
    sql git github google apple iphone ipad macbook airpods samsung xiaomi huawei vivo oppo honor sony nike adidas kfc qq
    wechat weixin tim bilibili taobao jd tb steam switch ns ps ps4 ps5 xbox epic youtube twitter facebook instagram tiktok
    nba cba fifa f1 ktv diy dna pm ceo cto cfo hr pr ai api bug log new old one two the a an of to in on at for and or not
    up down out off all with this that what who how why when good nice cool love like day time game play music live show
    mv pk kg km cm mm ml gb mb kb hz ghz mah wh pro max plus mini ultra air lite se xl xxl size a4 b5 4k 2k 1080p 720p 3d
    2d 4g 5g 3c h5 gps sim rtx gtx amd intel nvidia ddr hdmi type c email mail test admin root user null none true false
    http https www com cn net org eg ie vs etc happy birthday merry christmas year please help baby boy girl man men god
    oh omg wow ah haha hahaha lol emm emmm emmmm em hmm team logo ui ux bgm cp diss dj mc rap rock vlog blog low high
    offer deadline ddl meeting office boss
    """
)
_NUMBER = re.compile(r"\d+")
_QUANTITY = re.compile(r"\d+[a-z]{1,3}|[a-z]{1,2}\d{3,}|\d+[a-z]+\d*[a-z]*\d{3,}", re.ASCII)
_HEX = re.compile(r"(?=.*\d)[0-9a-f]{8,}", re.ASCII)
_LAUGH = re.compile(r"h+|a+|e+|w+|(?:ha|he|xi|hei|lo)+l?", re.ASCII)
MEASURES = frozenset(
    "个块元岁号点分秒天月年日度斤克米公里升人次条张件本页层楼路线班级章集期折万千百亿多几%％+-—~～:：/位台辆套双件杯碗瓶只支把名周星时小米平寸倍毫厘"
)
"""What follows a number that counts something."""
BEFORE_NUMBERS = frozenset("第￥¥$约近共满减差过到")


@lru_cache(maxsize=50_000)
def frequency(word: str) -> int:
    """How often jieba's dictionary has seen a word; 0: it does not know it."""
    return rjieba.suggest_freq(word) if rjieba.has_word(word) else 0


@lru_cache(maxsize=50_000)
def expected(unit: str) -> float:
    """The natural logarithm of how likely a unit is in common Chinese."""
    seen = frequency(unit) if is_han(unit) else _LATIN_FREQUENCY
    return math.log((seen + 0.5) / DICTIONARY_TOTAL)


@lru_cache(maxsize=50_000)
def is_ordinary(text: str) -> bool:
    """Tell whether a text is common vocabulary: a word that the dictionary knows well, or a common Latin one."""
    half = text[: len(text) // 2]
    if text.isascii():
        return text in _ORDINARY
    return frequency(text) > RARE or _CRIES.issuperset(text) or (len(half) > 1 and text == half * 2 and frequency(half) > RARE)


def is_plain_token(token: str) -> bool:
    """Tell whether a Latin token is no word: a laugh, a size, a model, a hash, a year, a number of one or two digits."""
    if _NUMBER.fullmatch(token):
        return len(token) < 3 or len(token) > 8 or 1900 <= int(token) <= 2099 or int(token) % 100 == 0
    return (
        len(token) < 2 or len(token) > 16 or bool(_QUANTITY.fullmatch(token) or _HEX.fullmatch(token) or _LAUGH.fullmatch(token))
    )


def is_number(token: str) -> bool:
    """Tell whether a token is digits only."""
    return _NUMBER.fullmatch(token) is not None


_CRIES = frozenset("哈嘻嘿呵嗯恩啧咳呃额哦噢啊呜哎唉呀诶欸哟呦喂哇啦嘛吧呢吗咦")
LOOSE = _among(
    """
    的 了 吗 吧 啊 呢 呀 嘛 哦 哈 么 着 过 得 地 是 在 有 就 都 也 又 还 很 太 真 好 这 那 我 你 他 她 它 们 我们 你们
    他们 和 跟 把 被 给 让 到 去 来 不 没 要 会 能 想 说 个 一 一个 什么 怎么 这个 那个 没有 可以 觉得 真的 现在 今天 明天
    昨天 还是 但是 就是 不是 所以 因为 然后 已经 应该 可能 知道 谁 哪 几 再 才 只 最 更 比 从 对 向 为 上 下 里 中 完 好像
    有点 咱 咱们 大家 自己 别 多 少 大 小 吃 看 做 用 人 时候 一下 一起 而且 反正 不过 如果 虽然 而 或 或者 之 与 及 等 叫
    请 啦 嘞 咯 哇 诶 唉 嗯 噢 喔 哎 呗
    """
)
"""Words that open or close a phrase without belonging to it."""
_SURNAMES = _among(
    """
    王 李 张 刘 陈 杨 黄 赵 吴 周 徐 孙 马 朱 胡 郭 何 林 高 罗 郑 梁 谢 宋 唐 许 韩 冯 邓 曹 彭 曾 肖 田 董 潘 袁 蔡 蒋
    余 于 杜 叶 程 魏 苏 吕 丁 任 沈 姚 卢 姜 崔 钟 谭 陆 汪 范 金 石 廖 贾 夏 韦 傅 方 白 邹 孟 熊 秦 邱 江 尹 薛 闫 段
    雷 侯 龙 史 陶 黎 贺 顾 毛 郝 龚 邵 万 钱 严 覃 武 戴 莫 孔 向 汤
    """
)


@lru_cache(maxsize=20_000)
def is_person(text: str) -> bool:
    """Tell whether a text looks like the full name of a person."""
    if len(text) != 3 or text[0] not in _SURNAMES:
        return False
    tagged: list[tuple[str, str]] = rjieba.tag(text)
    return any(tag.startswith("nr") for _, tag in tagged)
