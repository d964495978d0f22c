"""More ways to read what no import statement names: by other calls of the system, libraries, and kinds of files."""

from __future__ import annotations

from tests.helpers.inputs.route import (
    CHANGED,
    HEAD,
    MADE,
    ONE,
    TWO,
    C,
    Route,
    absent,
    existing,
    linked,
    listing,
    reading,
    running,
    write,
)

_FILE = "file:{search}/t.txt"


def _written(code: str, first: str, second: str, refused: str = "files: [") -> Route:
    """A route that reads ``t.txt``, whose content has a form."""
    return Route(HEAD + "T = here / 't.txt'\n" + code, write("t.txt", first), write("t.txt", second), (_FILE,), refused)


MORE_READ = {
    "sendfile": absent(
        C + "source, to = C.open(name, 0), os.open('/tmp/s', os.O_RDWR | os.O_CREAT)\n"
        "VALUE = source >= 0 and (os.sendfile(to, source, 0, 9), os.pread(to, 9, 0))"),
    "copy_file_range": absent(
        C + "source, to = C.open(name, 0), os.open('/tmp/s', os.O_RDWR | os.O_CREAT)\n"
        "VALUE = source >= 0 and (os.copy_file_range(source, to, 9), os.pread(to, 9, 0))"),
    "mmap of C": absent(
        C + "C.mmap.restype = ctypes.c_void_p\nfile = C.open(name, 0)\n"
        "VALUE = file >= 0 and ctypes.string_at(C.mmap(None, 1, 1, 2, file, ctypes.c_long(0)), 1)"),
    "statx by its number": absent(
        C + "VALUE = (C.syscall(332 if x86 else 291, -100, name, 0, 0x200, b), b.raw[40:48])"),
    "statfs of what it is": existing(C + "VALUE = C.statfs(name, b)"),
    "faccessat2 by its number": existing(C + "VALUE = C.syscall(439, -100, name, 0, 0)"),
    "realpath of C": existing(C + "VALUE = bool(C.realpath(name, b))"),
    "pathconf": existing("try: VALUE = os.pathconf(F, 'PC_NAME_MAX')\nexcept OSError: VALUE = -1"),
    "chdir into it": Route(
        HEAD + "try: os.chdir(D); VALUE = 1\nexcept OSError: VALUE = 0", write("unread", ""), ONE,
        ("folder:{search}/tiles",)),
    "an extended attribute": existing(
        C + "VALUE = C.getxattr(name, b'user.tile', b, 9), ctypes.get_errno()\nVALUE = C.access(name, 4), VALUE"),
    "a watch of the folder": existing(C + "VALUE = C.inotify_add_watch(C.inotify_init(), name, 2) >= 0"),
    "renamed, then read": absent("try: os.rename(F, '/tmp/moved'); VALUE = open('/tmp/moved').read()\n"
                                 "except OSError: VALUE = 0"),
    "readlink by its number": Route(
        HEAD + C + "VALUE = (C.syscall(267 if x86 else 78, -100, str(here / 'link').encode(), b, 99), b.raw[:1])",
        linked("a"), linked("b")),
    "scandir of C": listing(
        C + "C.opendir.restype = C.readdir.restype = ctypes.c_void_p\nC.readdir.argtypes = [ctypes.c_void_p]\n"
        "d, n = C.opendir(str(D).encode()), 0\nwhile d and C.readdir(d): n += 1\nVALUE = n"),
    "filecmp": existing("import filecmp\ntry: VALUE = filecmp.cmp(F, F)\nexcept OSError: VALUE = 0"),
    "dircmp": listing("import filecmp\nVALUE = sorted(filecmp.dircmp(D, here).left_list)", "files: ["),
    "copytree": listing("import shutil\nshutil.copytree(D, '/tmp/c')\nVALUE = sorted(os.listdir('/tmp/c'))",
                        "files: ["),
    "a tar file of it": reading(
        "import io, tarfile\nwith tarfile.open(fileobj=io.BytesIO(), mode='w') as t:\n"
        "    t.add(F, 'f')\n    VALUE = [m.size for m in t.getmembers()]"),
    "configparser": _written(
        "import configparser\nc = configparser.ConfigParser()\nc.read(T)\nVALUE = c.get('a', 'x', fallback=None)",
        "[a]\nx = 1", "[a]\nx = 2", ""),
    "csv": _written("import csv\nVALUE = list(csv.reader(T.open()))", "1,2", "1,3"),
    "plistlib": _written(
        "import plistlib\nVALUE = plistlib.load(T.open('rb'))", "<plist><integer>1</integer></plist>",
        "<plist><integer>2</integer></plist>"),
    "an XML file": _written(
        "import xml.etree.ElementTree as E\nVALUE = E.parse(str(T)).getroot().tag", "<a/>", "<b/>"),
    "YAML": _written("import yaml\nVALUE = yaml.safe_load(T.open())", "x: 1", "x: 2"),
    "numpy.loadtxt": _written(
        "import numpy\nVALUE = numpy.loadtxt(str(T)).tolist()", "1 2", "1 3"),
    "a netrc file": _written(
        "import netrc\nVALUE = netrc.netrc(str(T)).hosts", "machine a login 1 password x",
        "machine a login 2 password x"),
    "types of files": _written(
        "import mimetypes\nVALUE = mimetypes.read_mime_types(str(T)) or mimetypes.MimeTypes().read(str(T))",
        "x/a tile", "x/b tile"),
    "a translation": _written(
        "import gettext\nVALUE = gettext.find('tile', str(here), ['en']) or open(T).read()", "1", "2"),
    "a module in an archive": Route(
        HEAD + "import zipimport\nVALUE = zipimport.zipimporter(str(here / 'a.zip'))", MADE, CHANGED, (),
        "ZipImportError"),
    "the memory of the process that started it": Route(
        HEAD + "VALUE = open(f'/proc/{os.getppid()}/environ', 'rb').read().count(b'PRECAST_ROUTE')", MADE, CHANGED),
    "a link of /proc to the root": Route(
        HEAD + "VALUE = open(f'/proc/self/root{F}').read()", MADE, CHANGED, (), ""),
    "a name by /dev/fd": reading(
        "d = os.open(here, os.O_RDONLY)\nVALUE = open(f'/dev/fd/{d}/tiles.json').read()"),
    "a path with dots": reading("VALUE = open(here / '..' / here.name / '.' / 'tiles.json').read()"),
    "grep": running("VALUE = subprocess.run(['grep', '-o', '.', F], capture_output=True).stdout", "grep"),
    "sha256sum": running("VALUE = subprocess.run(['sha256sum', F], capture_output=True).stdout", "sha256sum"),
    "a program in an asyncio loop": running(
        "import asyncio\nasync def f():\n"
        "    p = await asyncio.create_subprocess_exec('cat', str(F), stdout=-1)\n"
        "    return (await p.communicate())[0]\n"
        "VALUE = asyncio.run(f())", "cat"),
    "a socket of a program": Route(
        HEAD + "import socket\ns = socket.socket(socket.AF_UNIX)\n"
        "try: s.connect('/run/dbus/system_bus_socket'); VALUE = 1\nexcept OSError: VALUE = 0", MADE, CHANGED),
    "a datagram": Route(
        HEAD + "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        MADE, CHANGED, (), "uses the network"),
    "urllib": Route(
        HEAD + "import urllib.request\nurllib.request.urlopen('http://192.0.2.1', timeout=1)", MADE, CHANGED, (),
        "uses the network"),
    "the system's fonts": Route(HEAD + "VALUE = os.path.exists('/usr/share/fonts')", MADE, CHANGED),
    "the time zone": Route(HEAD + "VALUE = open('/etc/localtime', 'rb').read()", MADE, CHANGED, (),
                           "files: [/etc/localtime]"),
    "mounted file systems": Route(HEAD + "VALUE = open('/etc/mtab').read()", MADE, CHANGED, (), "files: [/etc/mtab]"),
    "a list of two folders": Route(
        HEAD + "VALUE = sorted(os.listdir(D)) + sorted(os.listdir(here))", ONE, TWO, ("folder:{search}/tiles",),
        "files: ["),
}  # fmt: skip
