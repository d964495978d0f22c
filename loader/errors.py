"""The errors that precast raises on purpose. Each message ends with what to do next."""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would import typing, which errors do not need
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class PrecastError(Exception):
    """The base of every error precast raises on purpose.

    ``code`` names the kind of error in logs and on the page that explains it, ``docs/errors.md``. It never changes
    its meaning. A subclass without a code of its own has that of its base.

    >>> issubclass(VariantNotFound, PrecastError), VariantNotFound.code
    (True, 'PCL07')

    The code is not part of the message, which callers may compare or show: it is a note, which Python 3.11 and newer
    print below the message of a traceback.
    """

    code = "PCL00"

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Here and not in ``__init__``, which a subclass may forget to call."""
        error = super().__new__(cls, *args, **kwargs)
        if hasattr(error, "add_note"):
            error.add_note(f"{cls.code}: 'python -m precast.loader error {cls.code}' explains it")
        return error

    def __str__(self) -> str:
        """The message. It may have words of a cache, a server or a kernel, which must not move a terminal's cursor."""
        text = super().__str__()
        if text.isprintable():
            return text
        from precast.loader.terminal_text import visible

        return visible(text)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without ``__init__``, whose parameters differ between subclasses: errors cross processes."""
        return _unpickled, (type(self), self.args), self.__dict__


def _unpickled(kind: type[PrecastError], args: tuple[object, ...]) -> PrecastError:
    return kind.__new__(kind, *args)


class ConfigError(PrecastError, ValueError):
    """A config, or one of its values, is not what the op takes."""

    code = "PCL01"


class TargetError(PrecastError, ValueError):
    """A target such as ``sm_90a`` is misspelt or unknown."""

    code = "PCL02"


class FormatError(PrecastError, ValueError):
    """A file does not follow its format. ``place`` is the position in the file; ``remedy`` is what to do."""

    code = "PCL03"

    def __init__(self, message: str, place: str = "", *, remedy: str = "") -> None:  # words: allow
        super().__init__(message + (f" in {place!r}" if place else "") + (f": {remedy}" if remedy else ""))
        self.message = message
        self.place = place  # words: allow
        self.remedy = remedy

    def within(self, outer: str | int) -> FormatError:
        """The same error with its place seen from one level further out.

        >>> str(FormatError("expected int, got str", "size").within(3).within("artifacts"))
        "expected int, got str in 'artifacts[3].size'"
        """
        if not self.place:
            path = f"[{outer}]" if isinstance(outer, int) else outer
        else:
            head = f"[{outer}]" if isinstance(outer, int) else outer
            path = head + (self.place if self.place.startswith("[") else f".{self.place}")
        return FormatError(self.message, path, remedy=self.remedy)


class CacheError(PrecastError):
    """A cache cannot be used: it is missing, incomplete, or of a format this loader does not read."""

    code = "PCL04"


class IntegrityError(CacheError):
    """Bytes in a cache are not the bytes its index promises."""

    code = "PCL05"


class SignatureError(PrecastError):
    """A cache is not signed by those whom a policy trusts, or could not be signed."""

    code = "PCL18"


class FetchError(PrecastError):
    """A cache could not be fetched or pushed: a server refused, or was not reached. The target is unchanged."""

    code = "PCL16"


class OpNotFound(PrecastError, LookupError):
    """No cache holds the requested op."""

    code = "PCL06"


class VariantNotFound(PrecastError, LookupError):
    """The op exists, but no artifact fits the config and the machine. The message is the whole decision.

    ``resolution`` holds the same as values.
    """

    code = "PCL07"

    def __init__(self, message: str, resolution: object = None) -> None:
        super().__init__(message)
        self.resolution = resolution


class LoadError(PrecastError):
    """The bytes of an artifact are intact, but the dynamic linker refused it."""

    code = "PCL08"


class LaunchError(PrecastError, ValueError):
    """A launch is not possible for these sizes, or the CUDA driver refused it."""

    code = "PCL09"


class Frozen(PrecastError, RuntimeError):
    """A load was requested after ``loader.freeze()``."""

    code = "PCL10"


class AttachNotInstalled(PrecastError, ImportError):
    """``loader.attach`` is used, and the distribution precast-attach, which has it, is not installed."""

    code = "PCL17"


class NoCudaDevice(PrecastError, RuntimeError):
    """A launch was requested on a machine without a usable CUDA device."""

    code = "PCL11"


class WrongDevice(PrecastError, RuntimeError):
    """A launch was requested on a device that the artifact was not built for."""

    code = "PCL12"
