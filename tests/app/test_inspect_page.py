# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The report of gma inspect in headless Chromium (Debian's package `chromium`)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import BINARY, Browser, Page
from conftest import TINY, gma_ok
from large_report import write_large_report
from planted import CATEGORIES, TEXT, category_of, changed, planted_run

pytestmark = pytest.mark.skipif(BINARY is None, reason="no browser: apt-get install chromium")

HOSTILE = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">\n'


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a planted model, whose components are the categories of its tokens."""
    folder = tmp_path_factory.mktemp("planted")
    checkpoint, text = planted_run(folder)
    gma_ok("inspect", checkpoint, "--data", text, "--out", folder / "out", "--threads=1")
    return folder / "out" / "report.html"


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    page = browser.page()
    page.open(report)
    yield page
    assert page.complaints == []
    assert {url for url in page.requests if not url.startswith("data:")} == {report.as_uri()}
    page.close()


def tip(page: Page) -> str:
    return str(page.run("document.getElementById('tip').hidden ? '' "
                        ": document.getElementById('tip').innerText"))


def panel(page: Page) -> str:
    return str(page.run("document.getElementById('panel').innerText"))


def shown_text(page: Page) -> str:
    return str(page.run(
        "[...document.querySelectorAll('.t')].map((one) => one.firstChild.data).join('')"))


def test_the_summary_says_what_was_planted(page: Page) -> None:
    summary = page.run("document.getElementById('summary').innerText")
    assert "16 of 16 components are used" in summary and "none is dead" in summary
    assert "Components are token categories: normalised mutual information 1.000" in summary
    assert "Routing tells tokens apart well" in summary and "alike" not in summary
    assert "The most specialised is component" in summary
    assert page.run("document.querySelectorAll('#overview button').length") == 8
    assert shown_text(page).startswith("A1, B22; C333. D4: E55! F6, 77 G\u21b5A1")


def test_hover_and_click(page: Page) -> None:
    page.hover(".t[data-token='0']")  # "A"
    said = tip(page)
    assert said.startswith("A capitalised, token 0") and "0\n100%" in said
    page.hover(".t[data-token='1']")  # "1"
    assert "digit" in tip(page) and "1\n100%" in tip(page)
    page.click(".t[data-token='1']")
    said = panel(page)
    assert said.startswith("Component 1") and "100% of them are digit" in said
    assert "Most characteristic tokens" in said and "Overlaps most with" in said
    assert page.run("document.querySelectorAll('.t.chosen').length > 50")
    assert page.run("[...document.querySelectorAll('.t.chosen')].every("
                    "(one) => /[0-9]/.test(one.firstChild.data))")
    page.click(".contexts li:nth-child(3) button")
    assert page.run("document.querySelectorAll('.t.here').length") == 1
    page.click(".neighbours button")
    assert not panel(page).startswith("Component 1")


def test_keys(page: Page) -> None:
    page.run("document.getElementById('text').focus()")
    page.press("ArrowRight")
    page.press("ArrowRight")
    assert page.run("document.querySelector('.t.here').dataset.token") == "2"
    assert "punctuation" in tip(page)
    assert "punctuation" in page.run("document.getElementById('spoken').textContent")
    page.press("Enter")
    assert panel(page).startswith("Component 2")
    page.press("n")
    assert page.run("document.querySelector('.t.here').dataset.token") == "7"  # ";" of "A1, B22;"
    page.press("p")
    assert page.run("document.querySelector('.t.here').dataset.token") == "2"
    page.press("]")
    page.press(".")
    page.press("k")
    assert page.run("document.getElementById('layer').value") == "1"
    assert page.run("document.getElementById('head').value") == "1"
    assert page.run("document.querySelector('input[name=side]:checked').value") == "key"
    page.press("PageDown")
    assert page.run("document.querySelector('.t').dataset.token") == "400"
    page.press("Escape")
    assert panel(page).startswith("Components")
    page.press("?")
    assert "next layer" in page.run("document.getElementById('help').innerText")
    address = page.run("location.hash")
    assert "layer=1" in address and "side=key" in address and "first=400" in address


def test_find_and_address(page: Page, report: Path) -> None:
    page.run("document.getElementById('find').focus()")
    for key in "e55":
        page.press(key)
    page.press("Enter")
    token = int(page.run("document.querySelector('.t.here').dataset.token"))
    assert page.run(f"[{token}, {token + 1}].map((i) => shown.model.piece(i)).join('')") == "E5"
    page.open(report, "#layer=1&head=1&side=key&component=3&first=33")
    page.call("Page.reload")
    page.wait_for("document.documentElement?.dataset.ready === 'true'")
    assert panel(page).split("\n\n")[:2] == ["Component 3", "layer 1, head 1, keys"]
    assert page.run("document.querySelector('.t').dataset.token") == "33"


def test_charts(page: Page) -> None:
    for name in ("usage", "categories", "affinity", "projection", "overlap"):
        page.run(f"document.getElementById('chart-{name}').scrollIntoView()")
        page.wait_for(f"document.querySelector('#chart-{name} .main-svg') !== null")
    data = page.run("document.getElementById('chart-categories').data[0].z")
    rows = {name: row for name, row in zip(page.run("page.categories"), data, strict=True)}
    assert sorted(map(tuple, (rows[name] for name in CATEGORIES))) == sorted(
        tuple(float(i == j) for j in range(4)) for i in range(4))
    # What a query reads is shared by the keys of its component up to itself.
    first, second = page.run("document.getElementById('chart-affinity').data[0].z.slice(4, 6)")
    # "B" after "A1, ": half of each of two, of five; then the same of six.
    assert first[:5] == pytest.approx([2.5, 0, 0, 0, 2.5], abs=1e-4)
    assert second[:6] == pytest.approx([0, 3, 0, 0, 0, 3], abs=1e-4) and second[6] is None
    assert "rank 4 of at most 4" in page.run(
        "document.querySelector('#chart-affinity').parentNode.innerText")
    page.run("document.getElementById('chart-usage').scrollIntoView({block: 'center'})")
    box = page.run("(() => { const one = document.querySelectorAll('#chart-usage .bars .point')[2]"
                   ".getBoundingClientRect(); return [one.x + one.width / 2, one.y + one.height / 2]; })()")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    page.click_at(*box)
    page.wait_for("document.getElementById('panel').innerText.startsWith('Component 2')")


def test_figures_of_the_page_are_those_of_the_program(page: Page, report: Path) -> None:
    head = json.loads((report.parent / "metrics.json").read_text())["layers"][1]["heads"][0]
    page.run("update({layer: 1, head: 0})")
    pairs = [(a, b) for a in range(4) for b in range(a)]
    values = [page.run(f"overlap(shown.mixture, {a}, {b})") for a, b in pairs]
    assert max(values) == pytest.approx(head["overlap_max"], rel=1e-4, abs=1e-30)
    worst = page.run("""Math.max(...sides.flatMap((side) => shown.model.windows.flatMap(
        ([start, length], w) => shown.layer.windowVectors(side, 0, w).map((x, i) => {
          const gamma = responsibilities(x, shown.mixture);
          const top = shown.layer.top(side, 0);
          return Math.abs(gamma[top.components[start + i]] - top.shares[start + i] * top.unit);
        }))))""")
    assert worst <= 0.5 / 65535 + 1e-5


def test_a_soft_head_is_shown_as_soft_as_it_is(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    """All four components alike, which in 255ths would be 25.1%."""
    planted = report.parent.parent
    checkpoint = changed(planted / "planted.safetensors", "collapsed.safetensors", "mixer.means", 0.0)
    gma_ok("inspect", checkpoint, "--data", planted / "planted.txt", "--out", tmp_path / "out")
    page = browser.page()
    page.open(tmp_path / "out" / "report.html")
    assert page.run("shareOf(0)") == pytest.approx(0.25, abs=1e-6)
    summary = page.run("document.getElementById('summary').innerText")
    assert "All tokens are routed alike" in summary and "spread" not in summary
    assert "routing information 0.000" in summary and "most specialised" not in summary
    assert page.complaints == []
    page.close()


def test_weights_of_a_window_are_those_of_the_model(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    planted = report.parent.parent
    gma_ok("inspect", planted / "planted.safetensors", "--data", planted / "planted.txt", "--out",
           tmp_path / "out", "--context=2000")
    page = browser.page()
    page.open(tmp_path / "out" / "report.html")
    page.run("document.getElementById('chart-affinity').scrollIntoView()")
    page.wait_for("document.querySelector('#chart-affinity .main-svg') !== null")
    start, length = page.run("shown.model.windows[5]")
    kinds = [category_of(ord(c)) for c in TEXT[: start + length]]
    assert start > 500
    for shown_as in ("read", "share"):
        page.run(f"""(() => {{
          document.getElementById('affinity-kind').value = '{shown_as}';
          const select = document.getElementById('window');
          select.value = 5;
          select.dispatchEvent(new Event('change'));
        }})()""")
        z = page.run("document.getElementById('chart-affinity').data[0].z")
        for i in (0, 1, length - 1):
            token = start + i
            seen = kinds[: token + 1]
            like = seen.count(kinds[token])
            for j in range(i + 1):
                weight = (kinds[start + j] == kinds[token]) / like
                if shown_as == "share":
                    weight *= len(seen)
                assert z[i][j] == pytest.approx(weight, rel=1e-3, abs=1e-5)
    assert "before the window too" in page.run(
        "document.querySelector('#chart-affinity').parentNode.innerText")
    page.close()


CONTRASTS = """(() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((value, i) => a * value + (1 - a) * under[i]);
  const luminance = (rgb) => rgb.map((value) => value / 255)
    .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const opacity = (node) => node === null ? 1
    : Number(getComputedStyle(node).opacity) * opacity(node.parentElement);
  const page = parse(getComputedStyle(document.body).backgroundColor).slice(0, 3);
  const made = document.querySelector('.t');
  const worst = { text: Infinity, number: Infinity, opacity: opacity(made) };
  for (let k = 0; k < 64; ++k) {
    for (const strength of [0, 1]) {
      paint(made, k, strength);
      const fill = over(parse(getComputedStyle(made).backgroundColor), page);
      for (const [name, node] of [['text', made], ['number', made.querySelector('small')]]) {
        const shades = [fill, over(parse(getComputedStyle(node).color), fill)].map(luminance);
        const contrast = (Math.max(...shades) + 0.05) / (Math.min(...shades) + 0.05);
        worst[name] = Math.min(worst[name], contrast);
      }
    }
  }
  return worst;
})()"""


def test_tokens_and_their_numbers_can_be_read(page: Page) -> None:
    """At the least contrast that WCAG 2 asks for, over the colours of 64 components."""
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        for component in ("null", "1"):
            page.run(f"update({{component: {component}}})")
            worst = page.run(CONTRASTS)
            assert min(worst["text"], worst["number"]) >= 4.5, (scheme, component, worst)
            assert worst["opacity"] == 1
        fills = page.run("""['.t:not(.chosen)', '.t.chosen'].map((one) =>
            getComputedStyle(document.querySelector(one)).backgroundColor.match(/[\\d.]+/g)[3])""")
        assert float(fills[0]) < float(fills[1]), "the others are paler"


def test_labels_of_charts_are_no_html(page: Page) -> None:
    page.run("shown.model.pieces.fill('<b>bold</b>&amp;')")
    for name, read in (("affinity", "document.querySelector('#chart-affinity .xtick text').textContent"),
                       ("projection", None)):
        page.run(f"document.getElementById('chart-{name}').scrollIntoView()")
        page.wait_for(f"document.querySelector('#chart-{name} .main-svg') !== null")
        if read is not None:
            assert page.run(read) == "<b>bold</b>&amp;"
        data = page.run(f"document.getElementById('chart-{name}').data[0].customdata.flat(2)")
        assert "&lt;b>bold&lt;/b>&amp;amp;" in data and "<b>bold</b>&amp;" not in data


def test_variances_are_no_figures_of_sides(page: Page) -> None:
    page.run("update({component: 1})")
    rows = page.run("factRows(1)")
    [row] = [row for row in rows if row[0] == "variance, least to greatest"]
    assert row[1] == "" and row[2].count(" to ") == 1


def test_an_address_with_fractions(page: Page, report: Path) -> None:
    page.open(report, "#layer=0.5&head=1.9&first=33.3&component=0.5")
    page.call("Page.reload")
    page.wait_for("document.documentElement?.dataset.ready === 'true'")
    assert page.run("[state.layer, state.head, state.first, state.component]") == [0, 1, 33, None]
    assert page.run("document.querySelectorAll('.t').length") == 400


def test_any_text_is_text(browser: Browser, lm_run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text(HOSTILE + "\u4f60\u597d \U0001f600 /*DATA*/ <!--BLOCKS-->")
    gma_ok("inspect", lm_run, "--data", text, "--out", tmp_path / "out", "--title", HOSTILE)
    page = browser.page()
    page.open(tmp_path / "out" / "report.html")
    assert page.run("window.hacked") is None
    assert page.run("document.title") == HOSTILE.strip()
    assert shown_text(page).replace("\u00b7", "") == (
        HOSTILE.replace("\n", "\u21b5") + "\u4f60\u597d \U0001f600 /*DATA*/ <!--BLOCKS-->")
    assert page.complaints == []
    page.close()


def test_one_token(browser: Browser, lm_run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    gma_ok("inspect", lm_run, "--data", tmp_path / "text", "--out", tmp_path / "out")
    page = browser.page()
    page.open(tmp_path / "out" / "report.html")
    summary = page.run("document.getElementById('summary').innerText")
    assert "too few tokens to compare" in summary and "Components are" not in summary
    assert "routed alike" not in summary and "most specialised" not in summary
    page.click(".t")
    assert panel(page).startswith("Component ")
    page.run("document.getElementById('chart-projection').scrollIntoView()")
    page.wait_for("document.querySelector('#chart-projection .main-svg') !== null")
    assert page.complaints == []
    page.close()


def test_one_component(
    browser: Browser, text_file: Path, tmp_path: Path
) -> None:
    gma_ok("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY, "--steps=1",
           "--components=1")
    gma_ok("inspect", tmp_path / "run", "--data", text_file, "--tokens=100", "--out", tmp_path / "out")
    page = browser.page()
    page.open(tmp_path / "out" / "report.html")
    lines = page.run("document.getElementById('summary').innerText").splitlines()
    assert lines[0].startswith("2 of 2 components are used")
    assert lines[1:] == ["With one component there is nothing to route."]
    assert page.complaints == []
    page.close()


def test_comparison(browser: Browser, report: Path, lm_run: Path, tmp_path: Path) -> None:
    text = report.parent.parent / "planted.txt"
    gma_ok("inspect", "--compare", report.parent.parent / "planted.safetensors", lm_run, "--data",
           text, "--out", tmp_path / "out")
    page = browser.page()
    page.open(tmp_path / "out" / "report.html")
    rows = page.run("[...document.querySelectorAll('#comparison tr')].map((row) => row.innerText)")
    assert any(row.startswith("NMI with categories\t1.000\t") for row in rows)
    page.press("m")
    assert page.run("document.getElementById('layer').length") == 1
    assert page.complaints == []
    page.close()


def test_a_large_report_opens_quickly(browser: Browser, report: Path, tmp_path: Path) -> None:
    """12 layers of 8 heads with 256 components, 100,000 tokens."""
    write_large_report(report, tmp_path / "large.html")
    page = browser.page()
    page.call("Performance.enable")
    seconds = page.open(tmp_path / "large.html")
    used = {one["name"]: one["value"] for one in page.call("Performance.getMetrics")["metrics"]}
    began = page.run("performance.now()")
    page.run("update({layer: 7, head: 3, side: 'key', component: 17})")
    redraw = (page.run("performance.now()") - began) / 1000
    print(f"opened in {seconds:.1f} s ({used['ThreadTime']:.1f} s of a core), head in {redraw:.2f} s")
    # Of a core's time, which is the page's own: other work on the machine has no part in it.
    assert used["ThreadTime"] < 5
    assert redraw < 5
    assert panel(page).split("\n\n")[:2] == ["Component 17", "layer 7, head 3, keys"]
    assert page.complaints == []
    page.close()
