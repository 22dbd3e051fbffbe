"""Lines of C with indentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["Writer"]


class Writer:
    """Collects lines; `block` indents what is written inside it and closes the brace."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str = "") -> None:
        self.lines.append("    " * self.depth + text if text else "")

    def all(self, lines: Iterable[str]) -> None:
        for text in lines:
            self.line(text)

    def insert(self, at: int, lines: Iterable[str]) -> None:
        """Lines in front of line `at`, as far in as what is written now."""
        self.lines[at:at] = ["    " * self.depth + text for text in lines]

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self.line(head + " {" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(tail)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
