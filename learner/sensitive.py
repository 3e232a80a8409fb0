"""What nobody is to be known by without the owner's consent: health, sexuality, religion, politics, real-world identity. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from db.searchtext import fold

Area = Literal["health", "sexuality", "religion", "politics", "identity"]

_AREAS: Mapping[Area, re.Pattern[str]] = {
    "health": re.compile(
        r"(?<![毛通诟])病|患[有了上]|确诊|癌|肿瘤|抑郁|焦虑症|强迫症|多动症|双相|自闭|躁郁|精神分裂|心理(?:疾|咨询|医生|治疗|障碍)|"
        r"吃药|服药|药物|住院|手术|怀孕|孕期|备孕|流产|堕胎|艾滋|hiv|糖尿|血压|血糖|心脏|过敏|残疾|残障|失眠|体检|月经|痛经|"
        r"化疗|透析|肝炎|乙肝|哮喘|癫痫|痔疮|骨折|感冒|发烧|新冠|阳了|近视|色盲|耳聋|失明|瘫痪|体重|减肥药|戒毒|吸毒|酗酒|自杀|自残"
    ),
    "sexuality": re.compile(
        r"同性恋|双性恋|异性恋|泛性恋|无性恋|出柜|(?<![a-z])(?:gay|les|lesbian|lgbtq?|bi|homo)(?![a-z])|跨性别|变性|性取向|性向|"
        r"性癖|性生活|性伴侣|性爱|约炮|男同|女同|男娘|蕾丝边|喜欢(?:男|女)(?:生|人|的)|是弯的|性冷淡|阳痿|处男|处女(?!座)"
    ),
    "religion": re.compile(
        r"宗教|信仰|信教|信佛|信主|信神|基督|天主|耶稣|东正教|新教徒|佛教|佛祖|拜佛|吃斋|伊斯兰|穆斯林|回教|清真|道教|教徒|教堂|"
        r"做礼拜|祷告|祈祷|念经|诵经|皈依|受洗|洗礼|上帝|真主|斋月|古兰经|圣经|法轮|无神论|犹太教|印度教|摩门"
    ),
    "politics": re.compile(
        r"政治|政见|政权|政府|政党|党员|入党|退党|共产|国民党|民进党|民主党|共和党|保守党|工党|投票给|选举|大选|左派|右派|左翼|右翼|"
        r"自由派|保守派|台独|港独|疆独|藏独|独派|统派|游行|示威|抗议|反共|反华|粉红|五毛党|公知|民主自由|专制|独裁|特朗普|川普|拜登|"
        r"普京|泽连斯基|习近平|毛泽东|六四"
    ),
    "identity": re.compile(
        r"真名|本名|真实姓名|姓名|全名|大名叫|真实身份|身份证|证件|护照|驾照|社保|银行卡|卡号|账号|密码|电话|手机号|号码|微信号|邮箱|"
        r"住址|地址|家住|住在|住[于着]|居住|定居|小区|门牌|街道|楼栋|宿舍楼|号楼|单元|车牌|学号|工号|老家|户籍|户口|籍贯|出生|"
        r"就读|毕业于|母校|学校|(?<=[\u4e00-\u9fff])(?:大学|学院|中学|小学|附中|一中)(?!生|城)|公司|单位|任职|就职|供职|入职|"
        r"在.{1,12}(?:上班|工作|实习|上学|读书|念书)|(?<!百家)姓[\u4e00-\u9fff]|[\w.+-]+@[\w-]+\.\w|\d{6,}"
    ),
}


def sensitive_area(text: str) -> Area | None:
    """Tell which area a text touches; None: none. Rather too careful than not careful enough."""
    folded = "".join(fold(text).split())
    return next((area for area, words in _AREAS.items() if words.search(folded)), None)
