"""Pictures of a fusion: composites, bands, residuals, spectral angles, spectra, convergence.

Every function that draws returns a `matplotlib.figure.Figure` of its own, made by the object API: no pyplot, no window,
no state shared between calls. Sizes are in inches and suit an A4 page, colours are safe for colour-blind readers, and
lines differ in style and marker as well, so that they survive a grey printer.

What is shown
    An image is a cube (rows, columns, bands), or a `FusionResult`, of which only the bands and blocks that a picture
    needs are rendered. Scenes of more than 1500 pixels a side are shown by every n-th pixel, which the figure says.
    Missing pixels (a mask, or NaN) are grey and take no part in any scale.
Scales
    Panels of one row share one scale and one colour bar. Bands run from the 2nd to the 98th percentile of the
    reference, residuals symmetrically to the 99th percentile of their magnitude, angles and errors from 0 to their 99th
    percentile: the median over the panels, so that one estimate gone astray does not bleach the others. A colour bar
    ends in an arrow where values lie beyond it.
Numbers
    Arguments are indices, from 0. Labels call bands by number, from 1, as sensors and papers do.
"""

from ..model.shapes import size_name
from .composite import RGB_NM, rgb, rgb_bands, rgb_limits
from .images import band_name, display_step, shape_of
from .lines import convergence, spectra
from .maps import bands, comparison, composites, residuals, sam_maps, uncertainty
from .page import (
    FORMATS,
    HEADING_SIZE,
    LABEL_SIZE,
    PAGE_LENGTH,
    PAGE_WIDTH,
    TICK_SIZE,
    TITLE_SIZE,
    as_png,
    figure,
    heading,
    label,
    legend,
    log_axis,
    save,
    system_style,
    wrap,
)
from .pixels import pick_pixels

__all__ = [
    "FORMATS",
    "HEADING_SIZE",
    "LABEL_SIZE",
    "PAGE_LENGTH",
    "PAGE_WIDTH",
    "RGB_NM",
    "TICK_SIZE",
    "TITLE_SIZE",
    "as_png",
    "band_name",
    "bands",
    "comparison",
    "composites",
    "convergence",
    "display_step",
    "figure",
    "heading",
    "label",
    "legend",
    "log_axis",
    "pick_pixels",
    "residuals",
    "rgb",
    "rgb_bands",
    "rgb_limits",
    "sam_maps",
    "save",
    "shape_of",
    "size_name",
    "spectra",
    "system_style",
    "uncertainty",
    "wrap",
]
