"""The generated tables of docs/articles: what each snippet does, with links and the claims' verdicts."""

import inspect
import re

import snippets

WORDS = {
    "": {"head": "| item | what is printed | what happens when it runs | the right way | lesson | claim and verdict |",
         "runs": "runs", "raises": "raises", "trains something else": "trains something else", "changes nothing": "changes nothing",
         "not run": "not run: ", "at": "at", "Python": "Python", "warns": "warns", "none": "-", "colon": ": ", "comma": ", ",
         "gpus": "on a dry GPU", "stop": ".", "section": "section ",
         "measured": "Run on {machine}, PyTorch {torch}, commit {commit}, {date}."},
    ".zh": {"head": "| 编号 | 文章印了什么 | 运行时发生什么 | 正确写法 | 课程 | 论断与结论 |",
            "runs": "能运行", "raises": "报错", "trains something else": "训练成了别的东西", "changes nothing": "什么也没改变",
            "not run": "未运行:", "at": "出错行", "Python": "Python", "warns": "警告", "none": "-", "colon": ":", "comma": ",",
            "gpus": "在 dry GPU 上", "stop": "。", "section": "",
            "measured": "运行环境:{machine},PyTorch {torch},提交 {commit},{date}。"}}
VERDICTS_ZH = {"holds": "成立", "does not hold": "不成立", "depends": "视情况而定", "not decided": "未能判定", "not measured here": "此处未测量"}


# Of the articles whose sections have no numbers.
SECTIONS_ZH = {
    "introduction": "引言", "parallel loading": "并行数据加载", "several GPUs": "多 GPU 训练", "mixed precision": "混合精度",
    "early stopping": "提前停止", "sharding": "分片训练", "evaluation": "评估与推理", "the profiler": "profiler", "labels": "标签",
    "traces": "trace", "loading": "数据加载", "the allocator": "内存分配器", "stream processors": "流处理器", "batches": "批处理",
    "the batch size": "批大小", "the GPU's pipeline": "GPU 流水线", "overlap of compute and copies": "计算与传输重叠",
    "the state of the memory": "显存状态", "compression": "模型压缩", "distillation": "知识蒸馏", "model parallel": "模型分割",
    "pipeline parallel": "流水线并行", "gradient accumulation": "梯度累积", "memory of the optimizer": "优化器显存",
    "checkpointing": "梯度检查点", "the GPU's cache": "GPU 缓存", "matmuls": "矩阵计算"}


def section_of(one, language):
    numbered = one.section[:1].isdigit()
    named = SECTIONS_ZH.get(one.section, one.section) if language else one.section
    return WORDS[language]["section"] + named if numbered else named


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def code(text):
    return f"`{cell(text)}`"


def verdict(claims, claim):
    """Of all machines together, from its row of docs/claims.md."""
    row = next((line for line in claims.splitlines() if f'<a id="{claim}"></a>' in line), None)
    if row is None:
        raise ValueError(f"docs/claims.md has no {claim}")
    found = set(re.findall(r"\*\*(holds|does not hold|depends|not decided|not measured here)\*\*", row))
    decided = found - {"not decided", "not measured here"}
    if not decided and "not decided" in found:
        return "not decided"
    return "not measured here" if not decided else "depends" if len(decided) > 1 else decided.pop()


def lines_of(function):
    lines, first = inspect.getsourcelines(function)
    return f"#L{first}-L{first + len(lines) - 1}"


def number(value):
    return str(int(value)) if value == int(value) else f"{value:.2g}"


def what_happens(one, outcome, language):
    words = WORDS[language]
    if one.needs:
        return words["not run"] + (one.zh.get("needs", one.needs) if language else one.needs)
    text = f"**{words[one.does]}**" + (f" ({words['gpus']})" if one.gpus else "")
    if "error" in outcome:
        error = outcome["error"]
        message = error["message"] if len(error["message"]) < 120 else error["message"][:117] + "..."
        text += words["colon"] + code(error["type"] + ": " + message)
        if not error["line"].startswith("raise "):  # by which the snippet hands on what a compiler or a header says
            text += f"{words['comma']}{words['at']} {code(error['line'].split('  # ')[0])}"
    shown = [f"{one.zh.get(name, name) if language else name} {number(value)}" for name, value in outcome.get("numbers", {}).items()
             if isinstance(value, (int, float))]
    if shown:
        text += words["colon"] + words["comma"].join(shown)
    if outcome.get("warns"):
        text += f"{words['comma']}{words['warns']} {code(outcome['warns'])}"
    return text


def row(root, letter, article, one, outcome, claims, language):
    words = WORDS[language]
    about = one.zh["about"] if language else one.about
    right = []
    mended = article.mended.get(one.item)
    if mended:
        right.append(f"[Python](../../tests/articles/article_{letter.lower()}.py{lines_of(mended.function)})")
    elif one.does == "runs" and not one.needs:
        right.append(f"[Python](../../tests/articles/article_{letter.lower()}.py{lines_of(one.function)})")
    if one.cpp:
        if not (root / one.cpp).exists():
            raise ValueError(f"{one.item}: there is no {one.cpp}")
        right.append(f"[C++](../../{one.cpp})")
    lesson = words["none"]
    if one.lesson:
        folder = next(iter((root / "lessons").glob(f"{one.lesson}_*")), None)
        if folder is None:
            raise ValueError(f"{one.item}: there is no lesson {one.lesson}")
        lesson = f"[{one.lesson}](../../lessons/{folder.name}/README.md)"
    judged = []
    for claim in one.claims:
        found = verdict(claims, claim)
        judged.append(f"[{claim}](../claims.md#{claim}){words['colon']}{VERDICTS_ZH[found] if language else found}")
    return (f'| <a id="{one.item}"></a>{one.item} | {section_of(one, language)}{words["colon"]}{cell(about)} '
            f"| {what_happens(one, outcome, language)} | {words['comma'].join(right) or words['none']} | {lesson} "
            f"| {'<br>'.join(judged) or words['none']} |")


def replaced(text, name, body, page):
    begin, end = f"<!-- articles:begin {name} -->\n", "<!-- articles:end -->"
    if text.count(begin) != 1:
        raise ValueError(f"{page} has no line {begin.strip()}")
    start = text.index(begin) + len(begin)
    return text[:start] + body + text[text.index(end, start):]


def keep(root, page, text, old, write):
    if text == old:
        return []
    if not write:
        return [f"{page.relative_to(root)} is not as generated: .venv/bin/python tests/articles/run.py --tables"]
    page.write_text(text)
    return []


def tables(root, letter, module, kept, write):
    """Rewrites or checks the tables of an article's pages; complaints."""
    if letter not in kept:
        return [f"docs/articles/results.json has no {letter}: run.py --write {letter}"]
    run, article, complaints = kept[letter], module.article, []
    if (there := [s.item for s in article.snippets]) != list(run["items"]):
        return [f"docs/articles/results.json has other items than {', '.join(there)}: run.py --write {letter}"]
    claims = (root / "docs" / "claims.md").read_text()
    for language, words in WORDS.items():
        page = root / "docs" / "articles" / f"{letter}{language}.md"
        if not page.exists():
            complaints.append(f"there is no {page.relative_to(root)}")
            continue
        rows = [row(root, letter, article, s, run["items"][s.item], claims, language) for s in article.snippets]
        body = "\n".join([words["measured"].format(**run), "", words["head"], "|---|---|---|---|---|---|", *rows]) + "\n"
        old = page.read_text()
        complaints += keep(root, page, replaced(old, letter, body, page), old, write)
    return complaints


def counts(root, articles, write):
    """Rewrites or checks the table of all articles in docs/articles/README.md and its Chinese twin."""
    complaints = []
    for language, words in WORDS.items():
        page = root / "docs" / "articles" / f"README{language}.md"
        if not page.exists():
            continue
        title = {"": "| article | snippets | " + " | ".join(snippets.KINDS) + " | not run |",
                 ".zh": "| 文章 | 片段 | " + " | ".join(words[kind] for kind in snippets.KINDS) + " | 未运行 |"}[language]
        rows = []
        for letter, article in articles.items():
            run = [s for s in article.snippets if not s.needs]
            numbers = [len(article.snippets), *(sum(s.does == kind for s in run) for kind in snippets.KINDS), len(article.snippets) - len(run)]
            rows.append(f"| [{letter}]({letter}{language}.md) | " + " | ".join(map(str, numbers)) + " |")
        old = page.read_text()
        body = "\n".join([title, "|---|" + "---|" * 6, *rows]) + "\n"
        complaints += keep(root, page, replaced(old, "counts", body, page), old, write)
    return complaints
