"""Notes and warnings of a fusion of files."""

import warnings
from typing import Protocol


class Listener(Protocol):
    """Gets the notes and warnings of a fusion of files as they come."""

    def note(self, text: str, /) -> None:
        """What was found or assumed."""
        ...

    def warn(self, text: str, /) -> None:
        """What may be wrong with the result."""
        ...


class Unheard:
    """A listener that drops all: of a first look at files, of which the second one says the same."""

    def note(self, text: str, /) -> None:
        pass

    def warn(self, text: str, /) -> None:
        pass


class Remarks:
    """Sentences on what was found or assumed (notes) and on what may be wrong (warnings), kept and passed on.

    Parameters
    ----------
    listener : object with note(text) and warn(text), optional
        Gets each sentence as it comes. None: warnings are Python's own, and notes are only kept.
    """

    def __init__(self, listener: Listener | None = None):
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self._listener = listener

    def note(self, text: str) -> None:
        """Say what was found or assumed."""
        self.notes.append(str(text))
        if self._listener is not None:
            self._listener.note(text)

    def warn(self, text: str) -> None:
        """Say what may be wrong with the result."""
        self.warnings.append(str(text))
        if self._listener is None:
            warnings.warn(str(text), UserWarning, stacklevel=4)
        else:
            self._listener.warn(text)
