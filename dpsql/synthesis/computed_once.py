"""A mapping of names to values that are computed when they are first read: some are as large as a column of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

Computed = TypeVar("Computed")


class ComputedOnce(Mapping[str, Computed]):
    """Values by name, each of which is computed once."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names, self._found = tuple(names), dict[str, Computed]()

    @abstractmethod
    def compute(self, name: str) -> Computed:
        """The value of a name. Raises KeyError if there is no such name."""

    def __getitem__(self, name: str) -> Computed:
        if name not in self._found:
            self._found[name] = self.compute(name)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
