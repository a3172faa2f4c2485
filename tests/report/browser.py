"""Opens a report in a real browser: filters and sorting work, the console stays silent, no request leaves the file.
Usage: browser.py DRIVER RESULTS [SCREENSHOTS]. Exit code 77 where playwright or a browser is missing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


try:
    from playwright.sync_api import sync_playwright
except ImportError:
    skip("the Python package playwright is missing; set up with: ./tenfold test")


def check(condition, message):
    if not condition:
        print("failed: " + message)
        sys.exit(1)


def attribute_of_all(rows, name):
    """One question for all rows: hundreds of questions, one for each, take a minute."""
    return rows.evaluate_all("(all, name) => all.map(one => one.getAttribute(name))", name)


def shown(page):
    return page.locator("#all-verdicts tbody tr:visible")


def with_script(context, file, sweeps, shots):
    page = context.new_page()
    problems, requests = [], []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    rows = page.locator("#all-verdicts tbody tr")
    whole = rows.count()
    check(whole > 20 and shown(page).count() == whole, "not all verdicts are shown at first")

    label = page.eval_on_selector_all("#by-label option", "all => all.map(o => o.value).filter(v => v)")
    check(sum(labelled(page, one) for one in label) == whole, "the labels do not add up to all verdicts")
    page.select_option("#by-label", "FASTER")
    fast = shown(page).count()
    check(0 < fast < whole, "the filter by label changes nothing")
    check(page.locator("#shown").inner_text() == f"{fast} of {whole} verdicts shown", "the count is not announced")
    lesson = shown(page).first.get_attribute("data-lesson")
    page.select_option("#by-lesson", lesson)
    check(set(attribute_of_all(shown(page), "data-lesson")) == {lesson} and
          set(attribute_of_all(shown(page), "data-label")) == {"FASTER"}, "two filters together let others through")
    page.click("#filters button[type=reset]")
    page.wait_for_function(f"document.getElementById('shown').textContent.startsWith('{whole} of')")
    page.focus("#by-surprise")
    page.keyboard.press("Space")
    expected = page.locator("#all-verdicts tr[data-surprise='1']").count()
    check(shown(page).count() == expected, "the filter for surprises is wrong")
    page.keyboard.press("Space")

    speed = page.locator("th[data-sort=ratio] button")
    for direction, order in (("ascending", 1), ("descending", -1)):
        speed.focus()
        page.keyboard.press("Enter")
        check(page.get_attribute("th[data-sort=ratio]", "aria-sort") == direction, "aria-sort does not say the order")
        values = attribute_of_all(rows, "data-ratio")
        numbers = [float(value) for value in values if value]
        check(numbers == sorted(numbers, reverse=order < 0) and values[len(numbers):] == [""] * (whole - len(numbers)),
              "sorted wrongly")
    broken = page.evaluate("[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href'))"
                           ".filter(h => !document.getElementById(h.slice(1)))")
    check(broken == [], f"links lead nowhere: {broken}")
    link = page.locator("#all-verdicts a").first
    wanted = f"details[id='{link.get_attribute('href')[1:]}']"
    lesson = page.locator(wanted)
    check(lesson.get_attribute("open") is None, "a lesson is open before anybody asked for it")
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{wanted}[open]")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    check(page.locator("details.lesson:not([open])").count() == 0, "on paper a lesson would be closed")
    sweeps_and_kernels(page, sweeps)
    check(problems == [], f"the console says {problems}")
    check(requests == [file.as_uri()], f"the page asks for {requests}")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    page.set_viewport_size({"width": 400, "height": 800})
    check(page.evaluate(wide) <= 0, "at 400 pixels the page scrolls sideways")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 with margins of 1 cm
    cut_off = page.locator("figure table, table.counts").evaluate_all(
        "all => all.filter(table => table.getBoundingClientRect().right > 718).map(table => table.caption.innerText)")
    check(cut_off == [], f"on paper tables are cut off: {cut_off}")
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 400, "height": 800})
    if shots:
        page.reload()
        page.screenshot(path=shots / "narrow.png")
        for part in ("sweeps", "kernels"):
            page.evaluate(f"document.getElementById('{part}').scrollIntoView()")
            page.screenshot(path=shots / f"narrow_{part}.png")
        page.set_viewport_size({"width": 1200, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=shots / f"{scheme}.png")
            page.locator("#roofline").scroll_into_view_if_needed()
            page.screenshot(path=shots / f"{scheme}_full.png", full_page=True)
            for part in ("sweeps", "kernels"):
                page.evaluate(f"document.getElementById('{part}').scrollIntoView()")
                page.screenshot(path=shots / f"{scheme}_{part}.png")
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size({"width": 720, "height": 1000})
        for part in ("sweeps", "kernels"):
            page.evaluate(f"document.getElementById('{part}').scrollIntoView()")
            page.screenshot(path=shots / f"print_{part}.png")
        page.pdf(path=shots / "print.pdf", print_background=True)


def sweeps_and_kernels(page, sweeps):
    """A picture stands next to the numbers that it shows; tables that scroll can be reached with the keyboard."""
    check(page.locator("figure").count() == sweeps > 0, f"{page.locator('figure').count()} of {sweeps} sweeps are shown")
    for figure in page.locator("figure").all():
        name = figure.locator("figcaption b").inner_text()
        dots = figure.locator("svg.curve circle")
        ratios = figure.locator("tbody td:nth-child(2)").all_inner_texts()
        check(dots.count() == sum("x [" in ratio for ratio in ratios) >= 2, f"{name}: not a dot for each ratio")
        check(figure.locator("svg.curve line.unit").count() == 1, f"{name}: there is no line at 1x")
        middle = figure.locator("svg.curve line.unit").evaluate("line => line.getBoundingClientRect().y")
        drawn = dots.evaluate_all("""all => all.map(dot => {
            const box = dot.getBoundingClientRect();
            return [box.y + box.height / 2, dot.querySelector('title').textContent];
        })""")
        for (y, hint), ratio in zip(drawn, (ratio for ratio in ratios if "x [" in ratio)):
            value = float(ratio.split("x [")[0].split()[-1])
            check((y < middle) == (value > 1) or abs(value - 1) < 0.01, f"{name}: {ratio} is on the wrong side of 1x")
            check(ratio.split()[-3].removesuffix("x") in hint, f"{name}: the hint of a dot is not its row's: {ratio}")
        check(figure.locator("svg.curve").get_attribute("role") == "img", f"{name}: no picture to a screen reader")
    tables = page.locator(".wide:has(> table.counts)")
    lessons = set(attribute_of_all(tables.locator("caption a"), "href"))
    check({"#40_coalescing", "#41_shared_memory", "#42_gemm_ladder"} <= lessons, f"kernels are missing: {lessons}")
    for table in tables.all():
        table.focus()
        check(table.evaluate("all => all === document.activeElement"), "a wide table cannot be scrolled by keyboard")


def labelled(page, label):
    return page.locator(f"#all-verdicts tr[data-label='{label}']").count()


def without_script(browser, file):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(file.as_uri())
    check(page.locator("#all-verdicts tbody tr:visible").count() > 20, "without scripts no verdicts are shown")
    check(not page.locator("#filters").is_visible(), "without scripts there are filters that do nothing")


def main():
    driver, results = sys.argv[1:3]
    shots = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        skip("no browser; install one with: sudo apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        for source in Path(results).glob("*.json"):
            shutil.copy(source, folder)
        # Published sweeps are shown as they are; one that also lies among the results is shown once.
        published = sorted(Path(results).glob("sweeps/*.json"))
        sweeps = sum(len(json.loads(source.read_text())["cases"][0]["verdicts"]) for source in published)
        (Path(folder) / "sweeps").mkdir()
        for source in published[:1]:
            shutil.copy(source, Path(folder) / "sweeps")
        subprocess.run([driver, "report", "--out", folder], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
        file = Path(folder) / "report.html"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            with_script(browser.new_context(viewport={"width": 1200, "height": 900}), file, sweeps, shots)
            without_script(browser, file)
            browser.close()
    print("the report works in " + chromium)


main()
