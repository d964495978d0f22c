"""Native noise: requests of native code and of other programs that are ignored, beside the rules for all requests.

- byte code of Python, the settings of the dynamic linker, and locales;
- what is installed on the system beside a program, as its libraries and the headers of a compiler: the program's own
  content counts in their place;
- variables that say where folders are, how text is encoded, or how the C library and Python start: what they lead to
  is observed itself;
- what git and bash query whenever they start: the clock, to log it or to seed a generator, and the name of the host.
"""

from __future__ import annotations

import re

from precast.build.inputs.observation import Ask

RANDOM = ("/dev/random", "/dev/urandom")
_KERNEL = ("/proc/", "/sys/", "/dev/")
_PATHS = re.compile(
    r"\.pyc$|/__pycache__(/|$)|^/etc/ld\.so\.|^/usr/(lib|share)/(locale|i18n)/|/gconv/|^/(proc|sys|dev)?$|/\.$"
)
_INSTALLED = (
    "/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/", "/usr/share/", "/usr/include/",
    "/usr/x86_64-linux-gnu/", "/usr/aarch64-linux-gnu/",
)  # fmt: skip
_FOLDERS = (
    "HOME", "PATH", "TMPDIR", "TMP", "TEMP", "USER", "LOGNAME", "PWD", "OLDPWD", "SHELL", "SHLVL", "TERM", "LANG",
    "LANGUAGE", "TZ",
)  # fmt: skip
_STARTING = ("LC_", "LD_", "XDG_", "PYTHON", "GLIBC_", "MALLOC_", "PRECAST_")
_STARTS = {"clock": (" in git", " in bash"), "host": (" in bash", " in git", " in sh", " in dash")}
_FACTS = re.compile(
    r"/proc/(cpuinfo|meminfo|loadavg|uptime|version|stat|net|partitions|driver|sys/kernel/(hostname|osrelease))\b"
    r"|/sys/(class|bus|block|firmware)(/|$)|/dev/shm/"
)
_LIBRARIES = ("/lib", "/usr/lib", "/usr/local/lib")
_PATH_KINDS = ("file", "folder", "exists", "link")


def is_fact_of_host(ask: Ask) -> bool:
    """Whether a program, or code that calls the C library by name, reads what the kernel says of this machine. Other
    libraries read it for their own purposes.

    >>> is_fact_of_host(Ask("file", "/proc/cpuinfo", "/kernels/norm.py", 3))
    True
    >>> is_fact_of_host(Ask("file", "/proc/cpuinfo", "/usr/lib/libnuma.so", 0))
    False
    """
    by_library = ".so" in ask.file.rpartition("/")[2] and "/libffi" not in ask.file
    return ask.kind in _PATH_KINDS and not by_library and bool(_FACTS.match(ask.what))


def is_of_library(file: str) -> bool:
    """Whether a library of the system makes a request for its own purposes, as SQLite seeds its generator.

    >>> is_of_library("/usr/lib/libsqlite3.so.0"), is_of_library("/usr/lib/libffi.so.8"), is_of_library("/kernels/a.so")
    (True, False, False)
    """
    return ".so" in file.rpartition("/")[2] and "/libffi" not in file and file.startswith(_LIBRARIES)


def is_noise(ask: Ask) -> bool:
    """Whether a request does not count.

    >>> is_noise(Ask("file", "/usr/lib/locale/locale-archive", "/kernels/norm.py", 3))
    True
    >>> is_noise(Ask("file", "/kernels/tiles.json", "/kernels/norm.py", 3))
    False
    """
    if ask.kind in _PATH_KINDS:
        if ask.what in RANDOM:
            return False
        return bool(_PATHS.search(ask.what)) or f"{ask.what}/".startswith((*_KERNEL, *_INSTALLED))
    if ask.kind == "variable":
        return ask.what in _FOLDERS or ask.what.startswith(_STARTING)
    return ask.what.endswith(_STARTS.get(ask.kind, ("\0",)))
