"""The figures of a gallery script: every `matplotlib.figure.Figure` among its names, in the order of their making.

The package's pictures are made without pyplot, which is what the gallery would look at.
"""

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


def scrape(block, block_vars, gallery_conf):
    """Save the figures that a script has made since the block before."""
    names = block_vars["example_globals"]
    seen = names.setdefault("__figures__", [])
    new = [value for value in names.values() if isinstance(value, Figure) and value not in seen]
    paths = []
    for figure in new:
        paths.append(next(block_vars["image_path_iterator"]))
        figure.savefig(paths[-1], dpi=120)
    seen.extend(new)
    return figure_rst(paths, gallery_conf["src_dir"])
