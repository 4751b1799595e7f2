"""YAML as entries that know their position in the text, so that mistakes can be located.

The tree of nodes is read, not the values a loader would construct: values have no position, and of two equal keys a loader
silently keeps the last. Names are taken as written (`on` is a name, not a boolean).
"""

from __future__ import annotations

import importlib
from typing import Any

from dpsql.catalog.policy import MOST_BOUND
from dpsql.errors import OperationalError, PolicyError
from dpsql.types import Span


class YamlEntry:
    """A node of the YAML tree that knows its path, so that its faults can be located."""

    def __init__(self, node: Any, path: tuple[str, ...], loader: Any, text: str, source: str) -> None:
        self._node, self.path, self._loader, self._text, self._source = node, path, loader, text, source

    def fault(self, reason: str, *, try_: str = "", code: str = "metadata") -> PolicyError:
        span = Span(self._node.start_mark.index, max(self._node.end_mark.index, self._node.start_mark.index + 1))
        path = ".".join(part or "''" for part in self.path)
        return PolicyError(f"{path or 'the metadata'}: {reason}", code=code, try_=try_, span=span, subject=path, text=self._text,
                           source=self._source)

    def mapping(self, what: str) -> dict[str, YamlEntry]:
        """The entries of this mapping, by name. `what` describes the expected entries in the error message."""
        if self._node.id != "mapping" or not self._node.value:
            raise self.fault(f"must be a mapping of {what}")
        names: set[str] = set()
        for key, _ in self._node.value:
            if key.id != "scalar":
                raise self._below(key, "").fault("a name must be a single value")
            if key.value.lower() in names:
                raise self._below(key, key.value).fault("this name occurs twice; case makes no difference")
            names.add(key.value.lower())
        try:
            self._loader.flatten_mapping(self._node)  # what << merges in comes first: the entries written here override it
        except Exception:
            raise self.fault("the merge (<<) cannot be read") from None
        return {str(key.value): self._below(node, str(key.value)) for key, node in self._node.value}

    def _below(self, node: Any, name: str) -> YamlEntry:
        return YamlEntry(node, (*self.path, name), self._loader, self._text, self._source)

    def scalar(self) -> object:
        if self._node.id != "scalar":
            raise self.fault("must be a single value")
        try:
            return self._loader.construct_object(self._node)
        except Exception:  # an unknown tag, or an impossible date
            raise self.fault("this value cannot be read") from None

    @property
    def nested(self) -> bool:
        return bool(self._node.id == "mapping")

    def flag(self) -> bool:
        found = self.scalar()
        if not isinstance(found, bool):
            raise self.fault("must be true or false")
        return found

    def number(self) -> int | float:
        found = self.scalar()
        if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= MOST_BOUND:
            raise self.fault("must be a finite number within ±1e15")
        return found


def root_of(text: str, source: str) -> YamlEntry:
    """The whole text as an entry. Raises PolicyError if it is not YAML, OperationalError without PyYAML."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise OperationalError("the metadata of SmartNoise SQL are YAML, and PyYAML is not installed", code="no-pyyaml",
                               try_="pip install 'dpsql[smartnoise]'") from None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        at = mark.index if mark is not None else getattr(fault, "position", 0)
        raise PolicyError(f"this is not YAML: {getattr(fault, 'problem', None) or getattr(fault, 'reason', 'it cannot be read')}",
                          code="metadata-syntax", span=Span(at, at + 1), text=text, source=source) from None
    if node is None:
        raise PolicyError("the metadata are empty", code="metadata", source=source)
    return YamlEntry(node, (), loader, text, source)
