"""The columns of a table of results: what each is called, in which unit it is, and which way is better."""

from collections.abc import Callable
from dataclasses import dataclass

from .comparison import Comparison


@dataclass(frozen=True)
class Column:
    """A column of a table of results.

    Attributes
    ----------
    name : str
        Its key in a row.
    label : str
        What people call it.
    unit : str or None
        Empty if it has none; None if it is that of the images.
    direction : int
        1 if larger is better, -1 if smaller is, 0 if neither.
    form : str
        How a value is formatted.
    """

    name: str
    label: str
    unit: str | None = ""
    direction: int = 0
    form: str = "#.4g"

    @property
    def heading(self) -> str:
        """The label with its unit."""
        return self.with_unit()

    def with_unit(self, of_images: str = "") -> str:
        """The label with its unit, `of_images` where that is the unit of the images."""
        unit = of_images if self.unit is None else self.unit
        return f"{self.label} ({unit})" if unit else self.label

    @property
    def better(self) -> str:
        """Which way is better, in words."""
        return {1: "larger is better", -1: "smaller is better"}.get(self.direction, "")


@dataclass(frozen=True, kw_only=True)
class Metric(Column):
    """A column that compares an estimate with the truth.

    Attributes
    ----------
    function : callable(Comparison) -> (float, str)
        The value, and a note on what it leaves out, empty if nothing.
    usual : bool
        Whether `usual`, demonstrations and experiments have it: papers report it, and it is quick.
    spatial : bool
        Whether it looks at windows, and so needs whole images, without gaps.
    needs : str
        The package it takes beside NumPy and SciPy; where that is not installed, `score` leaves the metric away.
    """

    function: Callable[[Comparison], tuple[float, str]]
    usual: bool = True
    spatial: bool = False
    needs: str = ""


#: What stands beside the metrics in a table: how long it took.
SECONDS = Column("seconds", "time", "s", -1, ".2f")
