"""Whether two images can be what their operators say they are."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Grade(Enum):
    """How far two images agree; the value is what a person reads first."""

    AGREE = "the images agree"
    MODEL_ERROR = "limited by model error"
    DISAGREE = "the images disagree"
    UNKNOWN = "not judged"


@dataclass(frozen=True)
class Verdict:
    """What the two images, blurred and seen through the response, say of the operators between them.

    Attributes
    ----------
    grade : Grade
        The verdict itself.
    misfit : float
        Root mean square of what they differ by at the HSI's pixels, over that which noise explains.
    beyond : float
        The part of it beyond noise, relative to the image's root mean square.
    cause : str or None
        "scale", "shift", "blur", "response" or "mask": what explains most of a disagreement.
    explained : float
        The part of the disagreement that mending the cause would take away.
    gain : float
        By how much, in dB, mending it should change the image.
    details : str
        The cause in words, with its numbers.
    advice : str
        What to try.
    """

    grade: Grade
    misfit: float = float("nan")
    beyond: float = 0.0
    cause: str | None = None
    explained: float = 0.0
    gain: float = 0.0
    details: str = ""
    advice: str = ""

    @property
    def disagrees(self) -> bool:
        return self.grade is Grade.DISAGREE

    def figures(self) -> dict:
        """All of it, for JSON."""
        return {
            "grade": self.grade.name.lower(),
            "misfit": self.misfit,
            "beyond": self.beyond,
            "cause": self.cause,
            "explained": self.explained,
            "gain_db": self.gain,
            "details": self.details,
            "advice": self.advice,
            "sentence": str(self),
        }

    def as_json(self) -> dict:
        """Plain values, of which `from_json` makes it again."""
        return asdict(self) | {"grade": self.grade.name}

    @staticmethod
    def from_json(plain: dict) -> "Verdict":
        """The verdict that `as_json` gave."""
        values: dict[str, Any] = {**plain, "grade": Grade[plain["grade"]]}
        return Verdict(**values)

    def __str__(self):
        if self.grade is Grade.AGREE:
            return f"{self.grade.value}: they differ by no more than their noise"
        if self.grade is Grade.UNKNOWN:
            return f"{self.grade.value}: {self.details}"
        part = (
            f"{100 * self.beyond:.2g} % of" if self.beyond < 0.995 else f"{self.beyond:.{int(self.beyond < 10)}f} times"
        )
        size = f"they differ by {part} the image beyond noise"
        if self.grade is Grade.MODEL_ERROR:
            hint = f"; {self.details}" if self.details else ""
            return f"{self.grade.value}: {size}{hint}"
        return f"{self.grade.value}: {self.details}; {size}; {self.advice}"


@dataclass(frozen=True)
class Judged:
    """A verdict on a whole scene, for what is fused of it.

    Attributes
    ----------
    verdict : Verdict
    size : float
        Root mean square of the scene's HSI.
    """

    verdict: Verdict
    size: float
