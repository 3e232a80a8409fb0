"""Chat lines in the lengths that chat has: mostly a few characters, sometimes a sentence, now and then a long one."""

from __future__ import annotations

import random


def among(text: str) -> tuple[str, ...]:
    """The words of a list that reads as text."""
    return tuple(text.split())


SHORT = among(
    "哈哈哈 确实 笑死 +1 ？ 好家伙 来了 可以 不行 懂了 绝了 在 等下 ok 6 真的假的 啊这 收到 没事 好的 冲 行吧 救命 早 晚安 "
    "对 不是吧 离谱 可恶 羡慕了 我也是 才起 在路上 马上 到了 没看懂 有道理 赞同 别 咋了 谁 嗯嗯 牛啊"
)
WHO = among("我 我弟 我室友 隔壁老师 楼下大爷 我同事 老板 我妈 群主 对面那家 我家猫 班长")
THING = among(
    "火锅 奶茶 作业 周报 显卡 快递 桌游 电影票 火车票 新番 那个副本 键盘 羽毛球 驾照 论文 猫粮 相机 露营 烧烤 盲盒 "
    "自行车 空气炸锅 面试 体检 合同 演唱会 图书馆 租房 蛋糕 发票 耳机 路由器 乌龟 跑步 考试 毛衣 停车位"
)
PLACE = among("学校门口 公司楼下 河边 老地方 地铁站 二食堂 体育馆 东门 菜市场 车站 万象那边 家里 网吧 湖边")
WHEN = among("今晚 明天 周末 下周三 刚才 昨天 月底 放假 中午 七点 等会儿 下个月")
FEEL = among("有点贵 还不错 一般般 太香了 没啥意思 挺好的 不太行 离大谱 真不戳 凑合 比想象的好 气死我了")

MIDDLE = (
    "{when}去不去{place}",
    "{who}说{thing}{feel}",
    "有人要{thing}吗",
    "{when}的{thing}谁来",
    "{thing}到底怎么弄啊",
    "我觉得{thing}{feel}",
    "{place}那家{thing}{feel}",
    "{who}{when}又在搞{thing}",
    "刚看到{place}在排队买{thing}",
    "{when}记得带{thing}",
    "你们{thing}都弄完了？",
    "{thing}降价了快看",
    "求推荐一个{thing}",
    "{when}下雨，{thing}泡汤了",
    "谁把我的{thing}拿走了",
    "{place}现在人多吗",
    "为什么{who}有{thing}我没有",
    "{thing}比上次{feel}",
    "别提{thing}了",
    "我{when}在{place}看到{who}了",
    "{who}居然会{thing}",
    "想{thing}了",
)
TAIL = (
    "，不过{when}可能没空",
    "，反正{feel}",
    "，你们先去我{when}到",
    "，{who}也这么说",
    "，要不改到{when}",
    "。{place}那边怎么样",
    "，上次{thing}就{feel}",
    "，有没有一起的",
    "，我先问问{who}",
    "，再看看吧",
)
SAYINGS = (
    "可以啊，{when}{place}见",
    "{thing}我也不太懂，问问{who}？",
    "听着{feel}，{when}试试",
    "别急，{thing}{when}再说",
    "我投{thing}一票，{place}近",
    "{who}上次弄过{thing}，他熟",
)


def short(rng: random.Random) -> str:
    """One to four characters."""
    return rng.choice(SHORT)


def middle(rng: random.Random) -> str:
    """A sentence of about ten characters."""
    return _fill(rng.choice(MIDDLE), rng)


def double(rng: random.Random) -> str:
    """A sentence and what follows from it, about twenty characters."""
    return middle(rng) + _fill(rng.choice(TAIL), rng)


def long(rng: random.Random) -> str:
    """Somebody who explains: 50 to 130 characters."""
    return "。".join(double(rng) for _ in range(rng.randint(3, 6)))


def line(rng: random.Random) -> str:
    """What somebody types, twelve characters in the mean."""
    kind = rng.choices((short, middle, double, long), (30, 46, 20, 4))[0]
    return kind(rng)


def saying(rng: random.Random) -> str:
    """What the fake model lets the bot say."""
    return _fill(rng.choice(SAYINGS), rng)


def _fill(template: str, rng: random.Random) -> str:
    return template.format(
        who=rng.choice(WHO), thing=rng.choice(THING), place=rng.choice(PLACE), when=rng.choice(WHEN), feel=rng.choice(FEEL)
    )
