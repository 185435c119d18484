"""`fastccpd score ESTIMATE REFERENCE`: how close one image is to another."""

import numpy as np

from .. import formats, imaging
from ..imaging.metrics import METRICS
from ..model.shapes import size_name
from ..rasters import gaps
from ..rasters.pair import band_axis_of
from .options import add_band_axis, add_output_options
from .output import print_json, print_scores


def add(commands):
    verb = commands.add_parser(
        "score",
        help="how close an estimate is to a reference",
        description=f"Print {_metrics_in_words()}. Pixels without data in either image are left out.",
    )
    verb.add_argument("estimate", metavar="ESTIMATE", help="the image to judge")
    verb.add_argument("reference", metavar="REFERENCE", help="what it should be")
    verb.add_argument("--ratio", type=float, required=True, metavar="D", help="MSI pixels per HSI pixel, for ERGAS")
    verb.add_argument("--lee", action="store_true", help="also score the estimate after a 3×3 Lee filter")
    add_band_axis(verb)
    add_output_options(verb)
    verb.set_defaults(run=run)


def run(options):
    images = [
        gaps.without_bad_bands(formats.read(path, band_axis=band_axis_of(path, options.band_axis)))
        for path in (options.estimate, options.reference)
    ]
    estimate, reference = images
    if estimate.shape != reference.shape:
        sizes = (size_name(image.shape) for image in images)
        raise ValueError("estimate: {}, but the reference is {}; they must agree".format(*sizes))
    missing = estimate.missing() | reference.missing()
    if missing.any():
        options.messages.note(f"{gaps.count_sentence('both', missing)} in one image or the other and left out")
    scores = {"estimate": _score(estimate.cube, reference.cube, missing, options.ratio)}
    if options.lee:
        # A filter would spread a gap into its neighbours.
        whole = gaps.filled(estimate, missing).cube if missing.any() else estimate.cube
        scores["after a Lee filter"] = _score(imaging.lee(whole), reference.cube, missing, options.ratio)
    left_out = dict.fromkeys(row.pop("left_out") for row in scores.values())
    for sentence in filter(None, left_out):
        options.messages.warn(f"left out: {sentence}")
    if options.json:
        print_json({"scores": scores, "pixels": int((~missing).sum()), **options.messages.said()})
    else:
        print_scores(scores)
    return 0


def _score(estimate, reference, missing, ratio):
    if not missing.any():
        return imaging.score(estimate, reference, ratio)
    if missing.all():
        raise ValueError("estimate: no pixel has data in both images; some are needed")
    # One column of the pixels that have data: enough for whatever looks at pixels or bands alone.
    row = imaging.score(*(np.ascontiguousarray(image[~missing][:, None]) for image in (estimate, reference)), ratio)
    # Metrics that look at windows cannot do with the pixels that are left.
    spatial = tuple(name for name, metric in METRICS.items() if metric.spatial)
    notes = [note for note in row["left_out"].split("; ") if note and not note.startswith(spatial)]
    kept = {name: value for name, value in row.items() if name not in spatial}
    return kept | {"left_out": "; ".join([*notes, f"{' and '.join(spatial)} need whole images"])}


def _metrics_in_words():
    """All metrics, and what some of them need."""
    by_package = {}
    for metric in METRICS.values():
        by_package.setdefault(metric.needs, []).append(metric.label)
    parts = (
        ", ".join(labels) + (f" where {needs} is installed" if needs else "") for needs, labels in by_package.items()
    )
    return "; ".join(parts)
