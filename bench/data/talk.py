"""Small talk of a made-up group: sentences from many patterns and words, with the loose ends that typing has."""

from __future__ import annotations

import random

from bench.data.words import SHORT, among

WHO = among(
    "我 我 我 你 他 她 咱们 我们 他们 你们 我妈 我爸 我哥 我姐 室友 同事 老板 邻居 房东 导师 辅导员 舍长 组长 客户 "
    "司机 医生 快递员 表弟 外婆 我对象 前台 保安 店员 主播 老师 同桌 学弟 领导 实习生 猫 楼下那只狗"
)
THING = among(
    "火锅 奶茶 作业 周报 显卡 快递 桌游 电影票 车票 新番 副本 键盘 羽毛球 驾照 论文 猫粮 相机 帐篷 烧烤 盲盒 自行车 "
    "空气炸锅 简历 体检 合同 票 图书馆 房租 蛋糕 发票 耳机 路由器 乌龟 跑步机 考试 毛衣 停车位 咖啡 早饭 外卖 西瓜 "
    "面包 米线 螺蛳粉 烤鱼 炒饭 鸡蛋 牛奶 药 雨伞 钥匙 手机 屏幕 充电器 数据线 鼠标 显示器 硬盘 内存 代码 文档 表格 "
    "会议 方案 报告 工资 奖金 年假 加班费 社保 医保 身份证 护照 签证 机票 酒店 行李 地图 导航 公交 地铁 高铁 堵车 "
    "空调 暖气 热水器 洗衣机 冰箱 电饭锅 被子 枕头 衣服 裤子 鞋 帽子 口红 面膜 洗发水 牙膏 纸巾 小说 漫画 电视剧 综艺 "
    "纪录片 歌 吉他 钢琴 篮球 足球 游泳 健身卡 瑜伽垫 体重 头发 牙 眼镜 感冒 发烧 疫苗 口罩 猫 狗 仓鼠 鱼缸 花 绿萝 "
    "土豆 白菜 排骨 豆腐 辣椒 醋 酱油 月饼 粽子 汤圆 饺子 红包 彩票 股票 基金 房贷 押金 水电费 密码 账号 验证码 "
    "群文件 投票 视频 照片 表情 语音 链接 截图 邮件 打印机 复印件 照片 教材 笔记 试卷 课表 学分 选课 实验 答辩 毕业证 "
    "宿舍 食堂 澡堂"
)
PLACE = among(
    "学校 公司 楼下 河边 地铁站 体育馆 东门 西门 菜市场 车站 机场 家里 湖边 商场 超市 医院 银行 邮局 公园 电影院 "
    "咖啡店 图书馆 操场 宿舍 办公室 会议室 食堂 小区 路口 桥上 北京 上海 成都 杭州 老家 山上 海边 网上 车里 阳台 厨房"
)
WHEN = among(
    "今天 明天 昨天 今晚 昨晚 明早 刚才 周末 周一 周三 下周 上周 月底 月初 放假 中午 下午 早上 半夜 晚上 最近 以前 "
    "后来 马上 等会儿 待会 过两天 前几天 去年 年底 国庆 寒假 暑假 下班 下课 睡前 吃饭的时候 出门前 每天 有时候"
)
DO = among(
    "买 卖 退 换 修 洗 拿 找 丢 借 还 看 查 问 等 抢 订 取消 收 寄 拍 写 改 交 背 学 教 做 吃 喝 煮 点 带 送 扔 藏 搬 "
    "装 拆 试 挑 推荐 研究 准备 整理 收拾 打印 下载 更新 报名 预约 处理 解决 弄 搞定"
)
HOW = among(
    "好 贵 便宜 慢 快 大 小 多 少 累 困 饿 香 难吃 好吃 好看 难看 干净 脏 乱 吵 安静 无聊 有意思 麻烦 简单 难 方便 "
    "舒服 奇怪 正常 离谱 夸张 可爱 尴尬 开心 难过 生气 着急 紧张 放心 靠谱 热 冷 湿 干 亮 暗 远 近 新 旧 重 轻 值 亏 "
    "稳 危险 可惜 一般 不错 糟糕 厉害 普通 严重 热闹"
)
DEGREE = among("有点 挺 很 太 特别 非常 好 真 不太 不怎么 还算 比较 越来越 稍微 相当 超级 这么 那么")
END = ("", "", "", "", "吧", "啊", "呢", "吗", "了", "呀", "哦", "嘛", "啦", "哈哈", "哈哈哈", "…", "！", "？", "。", "~", "hh")
OPEN = (
    "",
    "",
    "",
    "",
    "",
    "话说",
    "不过",
    "其实",
    "感觉",
    "听说",
    "对了",
    "所以",
    "而且",
    "说实话",
    "反正",
    "难道",
    "主要是",
    "估计",
    "原来",
    "怪不得",
)

PATTERNS = (
    "{who}{when}{do}{thing}",
    "{when}{who}要{do}{thing}",
    "{thing}{degree}{how}",
    "{who}的{thing}{degree}{how}",
    "{place}的{thing}{how}了",
    "有没有人{do}{thing}",
    "谁{when}去{place}",
    "{who}在{place}{do}{thing}",
    "{do}{thing}要多久",
    "{do}个{thing}都这么{how}",
    "{who}说{place}{degree}{how}",
    "怎么{do}{thing}",
    "不想{do}{thing}",
    "{who}把{thing}{do}了",
    "{thing}被{who}{do}走了",
    "{when}的{thing}{do}完没",
    "{who}还没{do}{thing}",
    "别{do}{thing}",
    "{place}能{do}{thing}吗",
    "{who}{when}从{place}回来",
    "为了{thing}我{do}到{when}",
    "{thing}和{thing}哪个{how}",
    "{who}觉得{thing}{how}",
    "让{who}{do}一下{thing}",
    "{when}{place}人{degree}多",
    "{thing}又{how}又{how}",
    "刚{do}完{thing}",
    "{who}一{when}就{do}{thing}",
    "早知道{when}就{do}{thing}",
    "{do}不到{thing}",
    "我{thing}呢",
    "帮我{do}{thing}",
    "{thing}还能{do}吗",
    "没{do}过{thing}",
    "{when}在{place}看见{who}",
    "{who}居然{do}{thing}",
    "{thing}比{thing}{how}多了",
    "{place}离{place}{degree}远",
    "到{place}了",
    "{who}最{how}",
    "{do}{thing}{do}得{degree}{how}",
    "连{thing}都没有",
    "{thing}{how}得很",
    "{who}{degree}{how}",
    "{when}再{do}",
    "求{do}{thing}",
    "{thing}{num}块",
    "{num}点{place}见",
    "{do}了{num}个{thing}",
    "还有{num}天{when}",
    "第{num}次{do}{thing}",
    "{who}{do}了半天{thing}",
    "{thing}终于{do}到了",
    "只有{who}会{do}{thing}",
    "这{thing}是{who}的",
    "{place}那边{how}不{how}",
    "{who}{when}想{do}{thing}结果{thing}没了",
    "你{do}的{thing}在{place}",
    "除了{thing}都行",
    "{thing}的{thing}坏了",
    "到底要不要{do}{thing}",
    "我以为{thing}{degree}{how}",
)


def line(rng: random.Random) -> str:
    """What somebody types: half of it under ten characters."""
    luck = rng.random()
    if luck < 0.24:
        return rng.choice(SHORT)
    text = sentence(rng)
    if luck > 0.8:
        text = f"{text}{rng.choice(('，', '，', ' ', '。'))}{sentence(rng)}"
    if luck > 0.97:
        text = "，".join([text, *(sentence(rng) for _ in range(rng.randint(1, 4)))])
    return text


def sentence(rng: random.Random) -> str:
    """One sentence with an opening and an ending, or without."""
    text = rng.choice(PATTERNS)
    for name, words in _WORDS.items():
        while f"{{{name}}}" in text:
            text = text.replace(f"{{{name}}}", _some(rng, words), 1)
    while "{num}" in text:
        text = text.replace("{num}", str(rng.choice((1, 2, 3, 5, 7, 8, 10, 15, 20, 30, 50, 88, 99, 128, 200, 365, 599))), 1)
    return f"{rng.choice(OPEN)}{text}{rng.choice(END)}"


_WORDS = {"who": WHO, "thing": THING, "place": PLACE, "when": WHEN, "do": DO, "how": HOW, "degree": DEGREE}


def _some(rng: random.Random, words: tuple[str, ...]) -> str:
    """Pick a word: a group speaks of some things far more often than of others."""
    return words[int(len(words) * rng.random() ** 1.6)]
