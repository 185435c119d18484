"""What maps are made of: grids of panels that suit a page, a picture in a panel, a scale with its colour bar."""

from dataclasses import dataclass

import numpy as np

from .images import display_step, percentiles, shape_of
from .page import (
    GREY,
    LABEL_SIZE,
    PAGE_WIDTH,
    TICK_SIZE,
    figure,
    lines_high,
    matplotlib_module,
    without_surplus,
    wrap,
)


@dataclass(frozen=True)
class Scale:
    """How a row of pictures is coloured, and what its colour bar says."""

    colours: str
    low: float
    high: float
    label: str

    def draw(self, axes, picture, shape=None):
        colours = matplotlib_module("cm").ScalarMappable(cmap=self.colours).cmap.with_extremes(bad=GREY)
        draw_picture(
            axes, np.ma.masked_invalid(picture), shape or picture.shape, cmap=colours, vmin=self.low, vmax=self.high
        )

    def bar(self, drawn, axes, pictures, inches):
        """One colour bar beside some axes, so many inches high, with arrows where pictures go beyond the scale."""
        values = [picture[np.isfinite(picture)] for picture in pictures]
        below = any(value.size and value.min() < self.low for value in values)
        above = any(value.size and value.max() > self.high for value in values)
        extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get((below, above), "neither")
        image = next(one.images[0] for one in np.ravel(axes) if one.images)
        bar = drawn.colorbar(
            image,
            ax=np.ravel(axes).tolist(),
            extend=extend,
            extendfrac=0.06,
            pad=0.015,
            fraction=0.08,
            aspect=9.0 * inches,
        )
        bar.set_label(wrap(self.label, inches, LABEL_SIZE), fontsize=LABEL_SIZE, parse_math=False)
        bar.ax.tick_params(labelsize=TICK_SIZE)
        bar.ax.yaxis.get_offset_text().set_size(TICK_SIZE)
        bar.locator = matplotlib_module("ticker").MaxNLocator(max(3, int(2.0 * inches)))
        bar.formatter.set_powerlimits((-3, 4))
        bar.formatter.set_useMathText(True)
        bar.update_ticks()


def band_scale(reference, what):
    """From the 2nd to the 98th percentile of the reference."""
    low, high = percentiles(reference, (2.0, 98.0))
    return Scale("viridis", low, high if high > low else low + 1.0, what)


def residual_scale(pictures, what):
    """Symmetric about zero, to the 99th percentile of the magnitudes."""
    high = _typical_peak([np.abs(picture) for picture in pictures])
    return Scale("RdBu_r", -high, high, what)


def angle_scale(pictures, what):
    """From zero to the 99th percentile."""
    return Scale("magma", 0.0, _typical_peak(pictures), what)


def _typical_peak(pictures):
    """The median, over the pictures, of their 99th percentile; 1 where there is nothing above zero."""
    peaks = [percentiles(picture, (99.0,))[0] for picture in pictures if np.isfinite(picture).any()]
    return float(np.median(peaks) if peaks else 0.0) or 1.0


def grid(images, right=0.0, lines_below=0):
    """A figure of up to four pictures in a row, its axes in a list, and the width of a picture in inches."""
    rows = -(-len(images) // 4)
    columns = -(-len(images) // rows)
    side, high = sides(finest(images), min(2.8, (PAGE_WIDTH - right) / columns - 0.08))
    titles = lines_high([wrap(name, side) for name in images]) + 0.16 * lines_below
    height = rows * (high + titles + 0.1) + 0.05
    drawn, axes = figure(rows, columns, width=columns * (side + 0.08) + right, height=height)
    return drawn, without_surplus(axes, len(images)), side


def sides(shape, widest):
    """Width and height of a picture in inches: a strip is neither higher than a page bears nor lower than a label."""
    tall = shape[0] / shape[1]
    high = widest * min(1.8, max(0.3, tall))
    return max(1.1, high / tall) if tall > 1.8 else widest, high


def finest(images):
    """The shape of the image with most pixels."""
    return max((shape_of(image) for image in images.values()), key=lambda shape: shape[0] * shape[1])


def draw_picture(axes, picture, shape, **colours):
    """A picture in the coordinates of its image's pixels, without ticks."""
    extent = (-0.5, shape[1] - 0.5, shape[0] - 0.5, -0.5)
    axes.imshow(picture, extent=extent, interpolation="antialiased", **colours)
    _frame(axes)


def draw_nothing(axes, shape):
    """A place without a picture, as large as one, so that the label at its side stays in line."""
    axes.set(xlim=(-0.5, shape[1] - 0.5), ylim=(shape[0] - 0.5, -0.5), aspect="equal", facecolor="none")
    _frame(axes, 0.0)


def _frame(axes, linewidth=0.5):
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(linewidth=linewidth, visible=linewidth > 0.0)


def say_decimation(drawn, shapes):
    """Write below a figure that images of these shapes are shown by every n-th pixel, if one is."""
    steps = sorted(set(map(display_step, shapes)) - {1})
    if steps:
        said = " or ".join(f"{step}." for step in steps)
        note = wrap(f"large images are shown by every {said} row and column", drawn.get_figwidth() - 0.2, TICK_SIZE)
        drawn.supxlabel(note, fontsize=TICK_SIZE)
        drawn.set_figheight(drawn.get_figheight() + lines_high([note]) + 0.1)
