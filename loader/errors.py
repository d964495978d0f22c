"""Every error precast raises on purpose. Each message ends with what to do next."""

from __future__ import annotations


class PrecastError(Exception):
    """The base of every error precast raises on purpose.

    >>> issubclass(VariantNotFound, PrecastError)
    True
    """


class ConfigError(PrecastError, ValueError):
    """A config, or one of its values, is not what the op takes."""


class TargetError(PrecastError, ValueError):
    """A target such as ``sm_90a`` is misspelt or unknown."""


class FormatError(PrecastError, ValueError):
    """A file that was read does not hold what its format says. Carries the place in the file."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"{message} in {place!r}" if place else message)
        self.message = message
        self.place = place

    def within(self, outer: str | int) -> FormatError:
        """The same error, seen from one level further out.

        >>> str(FormatError("expected int, not str", "size").within(3).within("artifacts"))
        "expected int, not str in 'artifacts[3].size'"
        """
        if not self.place:
            place = f"[{outer}]" if isinstance(outer, int) else outer
        else:
            head = f"[{outer}]" if isinstance(outer, int) else outer
            place = head + (self.place if self.place.startswith("[") else f".{self.place}")
        return FormatError(self.message, place)


class CacheError(PrecastError):
    """A cache cannot be used: it is missing, incomplete, or of a format this loader does not read."""


class IntegrityError(CacheError):
    """Bytes in a cache are not the bytes its index promises."""


class FetchError(PrecastError):
    """A cache could not be fetched or pushed: a server refused, or was not reached. What was there is as before."""


class OpNotFound(PrecastError, LookupError):
    """No cache holds the op that was asked for."""


class VariantNotFound(PrecastError, LookupError):
    """The op exists, but no artifact fits the config and the machine. The message is the whole decision.

    ``resolution`` holds the same as values.
    """

    def __init__(self, message: str, resolution: object = None) -> None:
        super().__init__(message)
        self.resolution = resolution

    def _repr_html_(self) -> str | None:
        return None if self.resolution is None else self.resolution._repr_html_()  # type: ignore[attr-defined]


class LoadError(PrecastError):
    """An artifact was found and its bytes are right, yet the dynamic linker refused it."""


class LaunchError(PrecastError, ValueError):
    """A launch is not possible for these sizes, or the CUDA driver refused it."""


class Frozen(PrecastError, RuntimeError):
    """A load was asked for after ``loader.freeze()``."""


class NoCudaDevice(PrecastError, RuntimeError):
    """A launch was asked for on a machine without a usable CUDA device."""


class WrongDevice(PrecastError, RuntimeError):
    """A launch was asked for on a device that the artifact was not built for."""
