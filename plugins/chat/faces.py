"""Names of QQ's classic faces, for messages and reactions that carry only the number."""

from __future__ import annotations

from typing import Final

_NAMES: Final = (
    "0惊讶 1撇嘴 2色 3发呆 4得意 5流泪 6害羞 7闭嘴 8睡 9大哭 10尴尬 11发怒 12调皮 13呲牙 14微笑 15难过 16酷 18抓狂 19吐 "
    "20偷笑 21可爱 22白眼 23傲慢 24饥饿 25困 26惊恐 27流汗 28憨笑 29悠闲 30奋斗 31咒骂 32疑问 33嘘 34晕 35折磨 36衰 37骷髅 "
    "38敲打 39再见 41发抖 42爱情 43跳跳 46猪头 49拥抱 53蛋糕 54闪电 55炸弹 56刀 57足球 59便便 60咖啡 61饭 63玫瑰 64凋谢 "
    "66爱心 67心碎 69礼物 74太阳 75月亮 76赞 77踩 78握手 79胜利 85飞吻 86怄火 89西瓜 96冷汗 97擦汗 98抠鼻 99鼓掌 100糗大了 "
    "101坏笑 102左哼哼 103右哼哼 104哈欠 105鄙视 106委屈 107快哭了 108阴险 109左亲亲 110吓 111可怜 112菜刀 113啤酒 114篮球 "
    "115乒乓 116示爱 117瓢虫 118抱拳 119勾引 120拳头 121差劲 122爱你 123NO 124OK 125转圈 126磕头 127回头 128跳绳 129挥手 "
    "130激动 131街舞 132献吻 133左太极 134右太极 136双喜 137鞭炮 138灯笼 140K歌 144喝彩 145祈祷 146爆筋 147棒棒糖 148喝奶 "
    "151飞机 158钞票 168药 169手枪 171茶 172眨眼睛 173泪奔 174无奈 175卖萌 176小纠结 177喷血 178斜眼笑 179doge 180惊喜 "
    "181骚扰 182笑哭 183我最美 185羊驼 187幽灵 190菊花 192红包 193大笑 194不开心 197冷漠 198呃 199好棒 200拜托 201点赞 202无聊 "
    "203托脸 204吃 205送花 206害怕 207花痴 208小样儿 210飙泪 211我不看 212托腮 262脑阔疼 263沧桑 264捂脸 265辣眼睛 266哦哟 "
    "267头秃 268问号脸 269暗中观察 270emm 271吃瓜 272呵呵哒 273我酸了 277汪汪 278汗 281无眼笑 282敬礼 283狂笑 284面无表情 "
    "285摸鱼 286魔鬼笑 287哦 289睁眼 293摸锦鲤 294期待 297拜谢 298元宝 299牛啊 300胖三斤 305右亲亲 306牛气冲天 307喵喵 311打call "
    "312变形 314仔细分析 317菜汪 318崇拜 319比心 320庆祝 323嫌弃 324吃糖 325惊吓 326生气 332举牌牌 333烟花 334虎虎生威 336豹富 "
    "337花朵脸 338我想开了 339舔屏 341打招呼 342酸Q 343我方了 344大怨种 345红包多多 346你真棒棒 349坚强 350贴贴 351敲敲 352咦 "
    "353拜托 354尊嘟假嘟 355耶 356666 357裂开"
)


def _table() -> dict[int, str]:
    table: dict[int, str] = {}
    for entry in _NAMES.split():
        # A face named by a number (666) keeps it: the id never has more than three digits.
        digits = next((at for at, char in enumerate(entry) if not char.isdigit()), 3)
        table[int(entry[:digits])] = entry[digits:]
    return table


FACES: Final = _table()
_FIRST_EMOJI = 0x203C


def face_name(face_id: int | None) -> str | None:
    """Name a classic face; None when the number is not known."""
    return None if face_id is None else FACES.get(face_id)


def reaction_name(emoji_id: str) -> str:
    """Name a reaction by QQ's emoji id: a classic face's name, or the emoji whose code point the id is."""
    number = int(emoji_id) if emoji_id.isascii() and emoji_id.isdigit() and len(emoji_id) <= 7 else None
    name = face_name(number)
    if name is None and number is not None and _FIRST_EMOJI <= number <= 0x1FAFF and not 0xD800 <= number <= 0xDFFF:
        name = chr(number)
    return name or "表情"
