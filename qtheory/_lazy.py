"""`scipy.special`, loaded at its first use.

It costs as much to load as all else that a small model needs, and such a model never calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import special
else:

    class _Special:
        def __getattr__(self, name: str) -> Any:
            from scipy import special as loaded

            function = getattr(loaded, name)
            setattr(self, name, function)
            return function

    special = _Special()

__all__ = ["special"]
