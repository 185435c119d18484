"""The report: every section, nothing from outside, nothing unescaped, and a browser that opens it without a word."""

import base64
import dataclasses
import hashlib
import json
import re
import subprocess
from html.parser import HTMLParser

import browser
import numpy as np
import pytest

import fastccpd
from fastccpd import Degradation, Status, report
from fastccpd.estimation.fit import estimated_snr, relative_residual
from fastccpd.imaging import add_noise, degrade, preset, scenes, score
from fastccpd.model.result import Trace
from fastccpd.report import case as report_case

pytest.importorskip("matplotlib")

SHAPE = (24, 20, 36)
SECTIONS = ["Summary", "Inputs", "Parameters", "Metrics", "Colour composites"]
SECTIONS += ["Blur and response", "Spectra", "Convergence", "Versions"]
HOSTILE = '<script>alert("1")</script>&amp;'
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """A page taken apart: its elements, and the texts of headings, tables and captions. Tags must be balanced."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.open, self.texts = [], [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((tuple(self.open), data.strip()))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def inside(self, tag):
        return [text for where, text in self.texts if tag in where]

    def rows(self, heading):
        """The body rows of the table whose first column has this heading, as lists of cell texts."""
        table = re.search(rf'aria-label="Table: {heading}">(.*?)</table>', self.source, re.S)[1]
        body = re.search("<tbody>(.*?)</tbody>", table, re.S)[1]
        cells = [re.findall("<t[hd].*?>(.*?)</t[hd]>", row, re.S) for row in re.findall("<tr>(.*?)</tr>", body, re.S)]
        return [[re.sub("</?(code|th|td).*?>", "", cell) for cell in row] for row in cells]


@pytest.fixture(scope="module")
def case():
    """scene, wavelengths, degradation, hsi, msi, result."""
    scene = scenes.synthetic(SHAPE)
    degradation = preset("stereo", SHAPE)
    rng = np.random.default_rng(0)
    hsi, msi = (add_noise(image, 20.0, rng) for image in degrade(scene.cube, degradation))
    result = fastccpd.fuse(hsi, msi, degradation, rank=5, max_iter=8)
    result.decompose()
    # As of a method whose starts differ, which that of maps do not.
    result = dataclasses.replace(result, start_costs=(result.cost, 1.5 * result.cost))
    return scene.cube, scene.wavelengths, degradation, hsi, msi, result


@pytest.fixture(scope="module")
def known(case, tmp_path_factory):
    """The report of a scene whose truth is known."""
    scene, wavelengths, degradation, hsi, msi, result = case
    path = tmp_path_factory.mktemp("known") / "new folder" / "report.html"
    inputs = [
        {
            "name": "HSI",
            "path": f"/secret place/{HOSTILE}/{HOSTILE.replace('/', '')}.mat",
            "shape": hsi.shape,
            "dtype": "float64",
            "layout": "stored as (bands, rows, columns)",
            "sha256": "0a" * 32,
        },
        {
            "name": "MSI",
            "path": "C:\\secret place\\msi.tif",
            "shape": msi.shape,
            "dtype": "uint16",
            "sha256": "1b" * 32,
        },
    ]
    missing = np.zeros(SHAPE[:2], bool)
    missing[3:6, 4:9] = True
    written = report.fusion(
        path,
        result,
        hsi,
        msi,
        truth=scene,
        estimates={f"rival {HOSTILE}": scene + 0.01},
        degradation=degradation,
        wavelengths=wavelengths,
        inputs=inputs,
        notes=["A note.", HOSTILE, "\x00\udcff"],
        title=f"Report {HOSTILE}",
        missing=missing,
        quantity="reflectance",
    )
    assert written == path
    return path


@pytest.fixture(scope="module")
def unrendered(case):
    return dataclasses.replace(case[-1], image=None)


@pytest.fixture(scope="module")
def blind(case, unrendered, tmp_path_factory):
    """The report of images and operators."""
    _, _, degradation, hsi, msi, _ = case
    path = tmp_path_factory.mktemp("blind") / "report.html"
    return report.fusion(path, unrendered, hsi, msi, degradation=degradation)


@pytest.fixture(scope="module")
def scored(case, tmp_path_factory):
    """The report of images alone, with a table of scores."""
    *_, hsi, msi, result = case
    scores = {
        "ours": {"rsnr": 20.5, "SAM (deg)": 3.0, "own": 1.0, "cc": np.nan, "seconds": 2.0, "left_out": "cc: 2 bands"},
        "rival": {"rsnr": np.inf, "SAM (deg)": 4.0, "own": 2.0, "cc": 0.5, "seconds": 2.0, "left_out": ""},
        "third": {"rsnr": -1.5},
    }
    return report.fusion(tmp_path_factory.mktemp("scored") / "report.html", result, hsi, msi, scores=scores)


def test_every_section_is_there(known, blind):
    assert Page(known).inside("h2") == [*SECTIONS[:5], "Residuals and spectral angles", "Uncertainty", *SECTIONS[5:]]
    assert Page(blind).inside("h2") == [*SECTIONS[:5], "Fit", "Uncertainty", *SECTIONS[5:]]


def test_links_lead_to_the_sections(known):
    page = Page(known)
    ids = {attributes["id"] for attributes in page.all("h2")}
    assert {attributes["href"] for attributes in page.all("a")} == {f"#{name}" for name in ids}
    assert len(ids) == 11


@pytest.mark.parametrize("which", ["known", "blind"])
def test_a_report_needs_nothing_else(request, which):
    page = Page(request.getfixturevalue(which))
    assert len(page.all("img")) >= 6
    for image in page.all("img"):
        start, data = image["src"].split(",", 1)
        assert start == "data:image/png;base64"
        assert base64.b64decode(data, validate=True).startswith(b"\x89PNG")
        assert len(image["alt"]) > 10
        assert int(image["width"]) > 100
    assert [link["rel"] for link in page.all("link")] == ["icon"]
    assert page.all("link")[0]["href"].startswith("data:image/png;base64,")
    assert not page.all("script")
    assert not page.all("iframe")
    assert not re.search(r"https?:|url\(|@import", page.source)
    policy = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_a_report_is_accessible(known):
    page = Page(known)
    assert page.source.startswith("<!DOCTYPE html>")
    assert page.all("html") == [{"lang": "en"}]
    assert all(head.get("scope") in ("row", "col") for head in page.all("th"))
    assert len(page.all("figcaption")) == len(page.all("img"))
    assert "@media print" in page.inside("style")[0]
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))


def test_what_comes_from_outside_is_escaped(known):
    page = Page(known)
    assert "<script" not in page.source
    assert page.inside("title") == page.inside("h1") == [f"Report {HOSTILE}"]
    assert HOSTILE in page.inside("li")
    assert any(f"rival {HOSTILE}" in image["alt"] for image in page.all("img"))
    assert "\x00" not in page.source
    assert "\N{REPLACEMENT CHARACTER}\\udcff" in page.inside("li")


def test_the_summary_says_what_was_fused_and_how_it_ended(case, known):
    cells = Page(known).inside("td")
    assert "HSI 6×5×36 and MSI 24×20×6 into 24×20×36 (rows×columns×bands)" in cells
    assert str(case[-1].status) in cells
    assert "15 of 480 pixels, grey in pictures" in cells
    assert any(re.fullmatch("2, final costs .*; the image is that of the lowest", cell) for cell in cells)
    assert any(re.fullmatch(r"HSI \d\d\.\d dB, MSI \d\d\.\d dB", cell) for cell in cells)
    assert f"{case[-1].effective_rank} of 5" in cells
    assert "A note." in Page(known).inside("li")


def test_inputs_are_listed_by_file_name_with_their_hashes(known):
    rows = Page(known).rows("Input")
    assert rows[0][1] == "&lt;script&gt;alert(&quot;1&quot;)&lt;script&gt;&amp;amp;.mat"
    assert rows[0][2:] == ["6×5×36", "float64", "stored as (bands, rows, columns)", "0a" * 32]
    assert rows[1] == ["MSI", "msi.tif", "24×20×6", "uint16", "–", "1b" * 32]
    assert "secret place" not in Page(known).source


def test_arrays_without_files_are_hashed(case, blind):
    rows = Page(blind).rows("Input")
    for row, name, cube in zip(rows, ("HSI", "MSI"), case[3:5], strict=True):
        assert row[0] == name
        assert row[-1] == hashlib.sha256(np.ascontiguousarray(cube).tobytes()).hexdigest()


def test_parameters_list_every_option_seed_threads_and_degradation(case, known):
    page, result = Page(known), case[-1]
    heads = page.inside("th")
    assert {*result.options, "seed", "threads", "degradation"} <= set(heads)
    assert any("HSI 6×5×36, MSI 24×20×6; ratio 4×4" in cell for cell in page.inside("td"))
    assert {"numpy", "numba", "matplotlib"} <= set(heads)


def test_metrics_without_scores_are_those_of_score(case, known):
    scene, *_, result = case
    rows = {row[0]: row[1:] for row in Page(known).rows("System")}
    assert len(rows) == 2
    expected = score(result.sri, scene, 4)
    shown = [re.sub("</?strong>", "", cell) for cell in rows[f"result ({result.method})"]]
    for name, cell in zip(expected, shown):
        assert float(cell.replace("−", "-")) == pytest.approx(expected[name], rel=1e-3), name


def test_the_best_of_each_column_is_bold(scored):
    page = Page(scored)
    assert page.rows("System") == [
        ["ours", "20.5", "<strong>3</strong>", "1", "–", "<strong>2</strong>"],
        ["rival", "<strong>∞</strong>", "4", "2", "<strong>0.5</strong>", "<strong>2</strong>"],
        ["third", "−1.5", "–", "–", "–", "–"],
    ]
    heads = [text for where, text in page.texts if "thead" in where]
    start = heads.index("System")
    assert heads[start : start + 11] == [
        "System",
        "R-SNR",
        "↑",
        "(dB)",
        "SAM",
        "↓",
        "(degrees)",
        "own",
        "CC",
        "↑",
        "time",
    ]
    assert "Left out by ours: cc: 2 bands." in page.source


def fit_table(path):
    return [float(row[1].replace("−", "-")) for row in Page(path).rows("Image")]


def test_without_a_truth_the_fit_to_the_images_is_reported(case, blind):
    _, _, degradation, hsi, msi, result = case
    expected = [
        20 * np.log10(np.linalg.norm(image - seen) / np.linalg.norm(image))
        for image, seen in zip((hsi, msi), degrade(result.render(), degradation), strict=True)
    ]
    assert fit_table(blind) == pytest.approx(expected, rel=1e-3)
    assert "The truth is not known" in Page(blind).source
    alts = [image["alt"] for image in Page(blind).all("img")]
    assert sum("Residuals of the" in alt for alt in alts) == 2


def test_a_result_without_factors_is_reported_alike(case, blind, tmp_path):
    _, _, degradation, hsi, msi, result = case
    image_only = dataclasses.replace(result, known_factors=None, image=result.render())
    path = report.fusion(tmp_path / "a.html", image_only, hsi, msi, degradation=degradation)
    assert fit_table(path) == pytest.approx(fit_table(blind), rel=1e-3)


def test_what_is_known_already_is_not_computed_again(case, tmp_path, monkeypatch):
    _, _, degradation, hsi, msi, result = case
    result = dataclasses.replace(result, known_factors=None, maps=None, image=result.render())
    computed = report.fusion(tmp_path / "a.html", result, hsi, msi, degradation=degradation)
    seen = degrade(result, degradation)
    residuals = {name: relative_residual(*pair) for name, *pair in zip(("hsi", "msi"), (hsi, msi), seen)}
    snr = estimated_snr(result, hsi, msi)

    def never(*arguments):
        raise AssertionError("computed twice")

    for name in ("degrade", "relative_residual", "estimated_snr"):
        monkeypatch.setattr(report.case, name, never)
    known = {"degradation": degradation, "seen": seen, "residuals": residuals, "snr": snr}
    given = report.fusion(tmp_path / "b.html", result, hsi, msi, **known)
    assert given.read_bytes() == computed.read_bytes()
    with pytest.raises(AssertionError, match="computed twice"):
        report.fusion(tmp_path / "c.html", result, hsi, msi, **known | {"seen": None})


def test_what_is_given_is_what_is_shown(case, tmp_path):
    *_, hsi, msi, result = case
    path = report.fusion(
        tmp_path / "a.html", result, hsi, msi, residuals={"hsi": 0.1, "msi": 0.01}, snr={"hsi": 7.0, "msi": 8.0}
    )
    assert fit_table(path) == [-20.0, -40.0]
    assert "HSI 7.0 dB, MSI 8.0 dB" in Page(path).inside("td")


def test_rivals_are_said_to_run_as_they_are_published(case, tmp_path):
    *_, hsi, msi, result = case
    said = "Other methods run at the settings that their authors publish"
    truth = np.ones(result.shape)
    with_rival = report.fusion(tmp_path / "a.html", result, hsi, msi, truth=truth, estimates={"rival": 1.1 * truth})
    alone = report.fusion(tmp_path / "b.html", result, hsi, msi, truth=truth)
    assert [said in path.read_text() for path in (with_rival, alone)] == [True, False]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"seen": (np.ones((2, 3, 4)), np.ones((2, 3, 4)))}, "seen: got shapes"),
        ({"residuals": {"hsi": 0.1}}, "residuals: got \\['hsi'\\]; one for hsi and one for msi"),
        ({"snr": {"HSI": 1.0, "MSI": 2.0}}, "snr: got"),
    ],
)
def test_what_is_given_must_fit(case, tmp_path, wrong, sentence):
    *_, hsi, msi, result = case
    with pytest.raises(ValueError, match=sentence):
        report.fusion(tmp_path / "a.html", result, hsi, msi, **wrong)


def test_the_uncertainty_is_shown_and_beside_it_the_error_where_the_truth_is_known(case, known, blind):
    result = case[-1]
    for path, alt, there, more in (
        (known, "Maps of the expected error and of the error", np.ones(SHAPE[:2], bool), ", to be compared with"),
        (blind, "Map of the expected error", np.ones(SHAPE[:2], bool), "."),
    ):
        page = Page(path)
        assert alt in [image["alt"] for image in page.all("img")]
        if path == known:
            there[3:6, 4:9] = False
        expected = np.sqrt(np.mean(result.uncertainty[there] ** 2))
        (caption,) = [
            text for text in page.inside("figcaption") if text.startswith("The error that the method expects")
        ]
        assert f" Over all pixels it is {expected:.4g}{more}" in caption


def test_the_spread_of_starts_is_not_called_an_expected_error(case, tmp_path):
    _, _, degradation, hsi, msi, _ = case
    mean = fastccpd.fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=3, max_iter=3, starts=2, combine="mean")
    page = Page(report.fusion(tmp_path / "a.html", mean, hsi, msi, degradation=degradation))
    assert any(cell.endswith("the image is the mean of 2") for cell in page.inside("td"))
    assert any(text.startswith("The standard deviation of 2 starts") for text in page.inside("figcaption"))
    seen = degrade(mean.sri, degradation)
    expected = [20 * np.log10(np.linalg.norm(i - s) / np.linalg.norm(i)) for i, s in zip((hsi, msi), seen)]
    assert fit_table(tmp_path / "a.html") == pytest.approx(expected, rel=1e-3)


def test_a_method_that_tells_no_uncertainty_has_no_such_section(case, tmp_path):
    _, _, degradation, hsi, msi, _ = case
    plain = fastccpd.fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=3, max_iter=3)
    page = Page(report.fusion(tmp_path / "a.html", plain, hsi, msi, degradation=degradation))
    assert page.inside("h2") == [*SECTIONS[:5], "Fit", *SECTIONS[5:]]
    assert "Estimated SNR" not in page.inside("th")


def test_pixels_without_data_have_no_part_in_the_fit(case, tmp_path):
    _, _, degradation, hsi, msi, result = case
    there = np.ones(msi.shape[:2], bool)
    there[5, 6] = there[11:14, 2] = False
    spoiled = np.where(there[:, :, None], msi, np.nan)
    path = report.fusion(tmp_path / "a.html", result, hsi, spoiled, degradation=degradation, missing=~there)
    seen = degrade(result.render(), degradation)[1]
    expected = 20 * np.log10(np.linalg.norm((msi - seen)[there]) / np.linalg.norm(msi[there]))
    assert fit_table(path)[1] == pytest.approx(expected, rel=1e-3)
    assert "Pixels without data have no part in it." in Page(path).source


def test_without_truth_and_degradation_the_report_says_so(scored):
    page = Page(scored)
    assert "Nor is the degradation" in page.source
    assert not any("Residuals" in image["alt"] for image in page.all("img"))


def test_a_report_does_not_render_the_scene_whole(unrendered, blind):
    assert blind.exists()
    assert unrendered.image is None


def test_a_failed_run_has_a_report_too(case, tmp_path):
    *_, hsi, msi, result = case
    trace = Trace(*([np.nan] for _ in range(6)))
    failed = dataclasses.replace(
        result, known_factors=None, image=np.full(SHAPE, np.nan), trace=trace, cost=np.nan, status=Status.NOT_FINITE
    )
    page = Page(report.fusion(tmp_path / "a.html", failed, hsi, msi))
    assert "There is no finite cost to show." in page.source
    assert "No pixel has a spectrum to show." in page.source


def test_the_multispectral_bands_lie_at_the_means_of_their_response():
    PM = Degradation(np.eye(2), np.eye(3), [[0.5, 0.5, 0.0], [0.0, 1.0, 3.0]]).PM
    np.testing.assert_allclose(report_case._means_of([400.0, 500.0, 700.0], PM), [450.0, 650.0])
    assert report_case._means_of([400.0, 500.0], PM) is None


def refused(case, path, **changed):
    *_, hsi, msi, result = case
    return report.fusion(path, changed.pop("result", result), hsi, msi, **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"result": 3}, "result: got int"),
        ({"truth": np.ones((24, 20, 35))}, "truth: got 24×20×35, but the result is 24×20×36"),
        ({"estimates": {"a": np.ones((2, 20, 36))}}, "a: got 2×20×36, but the result is 24×20×36"),
        ({"estimates": {"HSI": np.ones(SHAPE)}}, "estimates: got the name 'HSI'"),
        ({"wavelengths": [1.0, 2.0]}, "wavelengths: got shape \\(2,\\), but there are 36 bands"),
        ({"msi_wavelengths": [1.0]}, "msi_wavelengths: got shape \\(1,\\), but there are 6 bands"),
        ({"missing": np.zeros((3, 4), bool)}, "missing: got 3×4, but the result is 24×20"),
        ({"band": 36}, "band: got 36"),
        ({"degradation": preset("stereo", (24, 24, 36))}, "hsi: 5 columns, but P2 maps to 6"),
    ],
)
def test_a_wrong_argument_gets_its_sentence_and_nothing_is_written(case, tmp_path, changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        refused(case, tmp_path / "new" / "a.html", **changed)
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept_unless_told_otherwise(case, tmp_path):
    path = tmp_path / "a.html"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="path: .* exists; overwrite=True would replace it"):
        refused(case, path)
    assert path.read_text(encoding="utf-8") == "mine"
    refused(case, path, overwrite=True)
    assert Page(path).inside("h1") == ["Fusion report"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.html"]


def test_a_folder_is_made_only_beside_others(case, tmp_path):
    with pytest.raises(FileNotFoundError, match="path: there is no folder"):
        refused(case, tmp_path / "one" / "two" / "a.html")
    with pytest.raises(IsADirectoryError, match="path: .* is a folder"):
        refused(case, tmp_path, overwrite=True)


def visit(path, folder):
    """Open a file in a browser: what it wrote to the console, what it asked the network for, its text, its picture."""
    log, picture = folder / "net.json", folder / "shot.png"
    logged = ("--enable-logging=stderr", f"--log-net-log={log}", f"--screenshot={picture}", "--window-size=1100,4000")
    start = browser.command(folder, *logged, "--dump-dom", path.as_uri())
    done = subprocess.run(start, capture_output=True, text=True, timeout=120, encoding="utf-8", errors="replace")
    assert done.returncode == 0, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return console, requests(json.loads(log.read_text(encoding="utf-8"))), done.stdout, picture


def requests(log):
    """The addresses that a page has asked for, its own files aside.

    The browser asks for some on its own account (the time, an account); those name no page that they come from.
    """
    start = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    found = [event["params"] for event in log["events"] if event["type"] == start and "url" in event.get("params", {})]
    outside = [entry for entry in found if not entry["url"].startswith(("file:", "data:", "chrome:"))]
    return [entry["url"] for entry in outside if entry.get("initiator") != "not an origin"]


@browser.needs_browser
@pytest.mark.parametrize("which", ["known", "blind"])
def test_a_browser_opens_the_report_without_error_or_request(request, which, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    path = request.getfixturevalue(which)
    console, asked, dom, picture = visit(path, tmp_path)
    assert console == []
    assert asked == []
    assert dom.count("<img") == len(Page(path).all("img"))
    shot = image.imread(picture)[:, :, :3]
    assert len(np.unique(shot[::7, ::7].reshape(-1, 3), axis=0)) > 500
    assert (shot < 0.5).mean() > 0.005
    assert (shot[:, :20] > 0.95).all()


@browser.needs_browser
def test_a_page_with_an_error_and_an_outside_picture_is_noticed(tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        '<!DOCTYPE html><title>bad</title><script>console.error("broken")</script><img src="http://127.0.0.1:9/a.png">'
        '<link rel="stylesheet" href="https://fonts.invalid/a.css">',
        encoding="utf-8",
    )
    console, asked, _, _ = visit(path, tmp_path)
    assert any("broken" in line for line in console)
    assert {"http://127.0.0.1:9/a.png", "https://fonts.invalid/a.css"} <= set(asked)
