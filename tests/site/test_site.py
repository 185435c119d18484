"""The built site, as a reader meets it: every link leads somewhere, nothing is asked of another host, search finds.

`FASTCCPD_SITE` names the folder that `sphinx-build -W docs FOLDER` has filled; `.ci/run` builds it first.
"""

import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

SITE = os.environ.get("FASTCCPD_SITE")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "Google Chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)

pytestmark = pytest.mark.skipif(SITE is None, reason="FASTCCPD_SITE names no built site")


class Page(HTMLParser):
    """What a page points to, and where one may point to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "href" in given and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def pages():
    # The theme carries a template of its own among its scripts, which is no page.
    files = (path.resolve() for path in Path(SITE).rglob("*.html") if "_static" not in path.parts)
    found = {path: Page(path) for path in files}
    assert len(found) > 100
    return found


def outside(target):
    return "://" in target or target.startswith(("mailto:", "data:", "//"))


def test_every_internal_link_leads_to_a_page_and_a_place_in_it(pages):
    lost = []
    for path, page in pages.items():
        for target in page.links:
            file, _, anchor = unquote(target).partition("#")
            if outside(target) or "_static" in file:
                continue
            aim = (path.parent / file.partition("?")[0]).resolve() if file else path
            fine = aim.exists() and (not anchor or aim.suffix != ".html" or anchor in pages[aim].anchors)
            if not fine:
                lost.append(f"{path.name}: {target}")
    assert lost == []


def test_pages_load_nothing_from_another_host(pages):
    loaded = ((path.name, target) for path, page in pages.items() for target in page.loaded)
    assert {(name, target) for name, target in loaded if outside(target) and not target.startswith("data:")} == set()
    styles = Path(SITE).rglob("*.css")
    assert [path.name for path in styles if "url(http" in path.read_text(encoding="utf-8").replace('"', "")] == []


def test_what_pages_load_is_there(pages):
    missing = [
        f"{path.name}: {target}"
        for path, page in pages.items()
        for target in page.loaded
        if not outside(target) and not (path.parent / unquote(target).partition("?")[0]).exists()
    ]
    assert missing == []


@pytest.fixture(scope="module")
def browser():
    driver = shutil.which("chromedriver")
    if None in (BROWSER, driver) and os.environ.get("CI") != "true":
        pytest.skip("no browser, or no chromedriver")
    assert BROWSER is not None, "CI=true, and there is no browser"
    assert driver is not None, "CI=true, and there is no chromedriver"
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    quiet = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    for argument in (*quiet, "--disable-component-update", "--disable-sync", "--allow-file-access-from-files"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


def visited(browser, place):
    """Open a page; the errors of its console, and the requests that left this machine's files."""
    browser.get(f"{Path(SITE).resolve().as_uri()}/{place}")
    errors = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    events = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return errors, [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


PLACES = [
    "index.html",
    "learn/index.html",
    "learn/first-fusion.html",
    "learn/verdict-and-uncertainty.html",
    "learn/beyond-memory.html",
    "howto/index.html",
    "howto/blur-and-response.html",
    "howto/extend.html",
    "understand/mathematics.html",
    "understand/architecture.html",
    "understand/speed.html",
    "lookup/api.html",
    "lookup/api/fastccpd.fuse.html",
    "lookup/command-line.html",
    "gallery_built/index.html",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_page_opens_without_an_error_or_a_request(browser, place):
    assert visited(browser, place) == ([], [])
    assert browser.find_elements("css selector", "article h1")


def test_every_script_of_the_gallery_has_a_page_with_a_picture(pages):
    scripts = [path.stem for path in (Path(__file__).parents[2] / "docs" / "gallery").glob("plot_*.py")]
    assert 10 <= len(scripts) <= 15
    for script in scripts:
        (page,) = (page for path, page in pages.items() if path.stem == script)
        assert any(f"sphx_glr_{script}_001" in image for image in page.loaded), script


def test_formulas_are_drawn(browser):
    visited(browser, "understand/mathematics.html")
    formulas = browser.find_elements("css selector", "img.math")
    assert len(formulas) > 50
    assert all(formula.size["height"] > 0 and formula.get_attribute("alt") for formula in formulas)


def test_search_finds_a_kernel(browser):
    from selenium.webdriver.support.ui import WebDriverWait

    assert visited(browser, "search.html?q=mttkrp_all") == ([], [])
    wait = WebDriverWait(browser, 20)
    links = wait.until(lambda b: b.find_elements("css selector", "#search-results li a"))
    assert any("mttkrp_all" in link.get_attribute("href") or "kernels" in link.get_attribute("href") for link in links)
