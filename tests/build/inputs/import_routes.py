"""Ways by which the import system, or what is installed, could hand something to a kernel."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

from tests.helpers.inputs.project import Project
from tests.helpers.inputs.route import CHANGED, HEAD, MADE, Route, Step, install, linked, remove, steps, write

_METADATA = "import acme, importlib.metadata as m\n"
_PK = write("pk/__init__.py", "")
_POINTS = "importlib.metadata as m\nVALUE = sorted(p.value for p in m.entry_points(group='tiles'))"


def byte_code(name: str, source: str, folder: str = "search", *, checked: bool = False) -> Step:
    """A file with the byte code of a source that is not there, valid whatever the source beside it is now."""

    def step(project: Project) -> None:
        path: Path = getattr(project, folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = project.folder / "compiled.py"
        text.write_text(source)
        mode = py_compile.PycInvalidationMode
        py_compile.compile(
            str(text), str(path), invalidation_mode=mode.CHECKED_HASH if checked else mode.UNCHECKED_HASH
        )

    return step


def cached(name: str) -> str:
    import importlib.util

    return importlib.util.cache_from_source(name)


def listed_last(project: Project) -> None:
    """As after a copy of the environment: the lists of files are the newest."""
    for record in project.site.glob("*.dist-info/RECORD"):
        os.utime(record)


IMPORTED = {
    "a package in place of a module": Route(
        "import tiles\nVALUE = tiles.x", write("tiles.py", "x = 1"), write("tiles/__init__.py", "x = 2")),
    "a package in place of a namespace": Route(
        "import spaces.one\nVALUE = spaces.one.x", write("spaces/one.py", "x = 1"),
        steps(write("spaces/__init__.py", "", "tools"), write("spaces/one.py", "x = 2", "tools"))),
    "an extension in place of a module": Route(
        "try:\n    import tiles\n    VALUE = tiles.x\nexcept ImportError: VALUE = 0", write("tiles.py", "x = 1"),
        write("tiles.abi3.so", "")),
    "byte code without its source": Route(
        "import tiles\nVALUE = tiles.x", byte_code("tiles.pyc", "x = 1"), byte_code("tiles.pyc", "x = 2")),
    "byte code of a package without its source": Route(
        "import acme.core\nVALUE = acme.core.x",
        steps(byte_code("acme/core.pyc", "x = 1", "site"), install("acme", "1.0", {"acme/__init__.py": ""})),
        byte_code("acme/core.pyc", "x = 2", "site")),
    "byte code that a package lists": Route(
        "import acme.core\nVALUE = acme.core.x",
        steps(byte_code("acme/core.pyc", "x = 1", "site"),
              lambda p: p.install("acme", "1.0", {"acme/__init__.py": ""}, "acme/core.pyc,,")),
        byte_code("acme/core.pyc", "x = 2", "site")),
    "byte code that no source is compared with": Route(
        "import acme\nVALUE = acme.x",
        steps(install("acme", "1.0", {"acme/__init__.py": "x = 1"}),
              byte_code(cached("acme/__init__.py"), "x = 1", "site")),
        write("acme/__init__.py", "x = 2", "site")),
    "a portion of a namespace in another folder": Route(
        "import spaces.one, spaces.two\nVALUE = spaces.two.x",
        steps(write("spaces/one.py", ""), write("spaces/two.py", "x = 1", "tools")),
        write("spaces/two.py", "x = 2", "tools")),
    "a portion that hides another": Route(
        "import spaces.one\nVALUE = spaces.one.x", write("spaces/one.py", "x = 1", "tools"),
        write("spaces/one.py", "x = 2")),
    "a package that extends its path": Route(
        "import pk.tiles\nVALUE = pk.tiles.x",
        steps(write("pk/__init__.py", "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)"),
              write("pk/tiles.py", "x = 1", "tools")),
        write("pk/tiles.py", "x = 2", "tools")),
    "a module on PYTHONPATH": Route(
        "import tiles\nVALUE = tiles.x", write("tiles.py", "x = 1", "tools"), write("tiles.py", "x = 2", "tools")),
    "a module that hides that on PYTHONPATH": Route(
        "import tiles\nVALUE = tiles.x", write("tiles.py", "x = 1", "tools"), write("tiles.py", "x = 2")),
    "the version of an editable install": Route(
        _METADATA + "VALUE = m.version('acme')",
        steps(write("acme.py", "", "tools"), write("acme.egg-info/PKG-INFO", "Name: acme\nVersion: 1\n", "tools")),
        write("acme.egg-info/PKG-INFO", "Name: acme\nVersion: 2\n", "tools")),
    "entry points of an editable install": Route(
        "import acme, " + _POINTS,
        steps(write("acme.py", "", "tools"), write("acme.egg-info/PKG-INFO", "Name: acme\nVersion: 1\n", "tools"),
              write("acme.egg-info/entry_points.txt", "[tiles]\na = acme:a\n", "tools")),
        write("acme.egg-info/entry_points.txt", "[tiles]\na = acme:b\n", "tools")),
    "entry points of the project itself": Route(
        "import " + _POINTS,
        steps(write("mine.egg-info/PKG-INFO", "Name: mine\nVersion: 1\n"),
              write("mine.egg-info/entry_points.txt", "[tiles]\na = mine:a\n")),
        write("mine.egg-info/entry_points.txt", "[tiles]\na = mine:b\n")),
    "a distribution whose name begins like precast's": Route(
        "import precast_acme\nVALUE = precast_acme.x", install("precast-acme", "1.0", {"precast_acme.py": "x = 1"}),
        install("precast-acme", "1.1", {"precast_acme.py": "x = 2"})),
    "a package that was edited before it was moved": Route(
        "import acme\nVALUE = acme.x", install("acme", "1.0", {"acme/__init__.py": "x = 1"}),
        steps(write("acme/__init__.py", "x = 2", "site"), listed_last)),
    "a package in which another one puts a module": Route(
        "import acme, os\nVALUE = sorted(os.listdir(os.path.dirname(acme.__file__)))",
        install("acme", "1.0", {"acme/__init__.py": ""}), install("more", "1.0", {"acme/more.py": ""})),
    "a requirement that is installed later": Route(
        "import acme\nVALUE = acme.x",
        install("acme", "1.0", {"acme.py": "try:\n    import more\n    x = 1\nexcept ImportError: x = 0"}, ("more",)),
        install("more", "1.0", {"more.py": ""})),
    "a link in place of a module": Route(
        "import tiles\nVALUE = tiles.x",
        steps(write("t.py", "x = 1", "outside"), lambda p: (p.search / "tiles.py").symlink_to(p.outside / "t.py")),
        write("t.py", "x = 2", "outside")),
    "a link in place of a package": Route(
        "import pk.tiles\nVALUE = pk.tiles.x",
        steps(write("pk/__init__.py", "", "outside"), write("pk/tiles.py", "x = 1", "outside"),
              lambda p: (p.search / "pk").symlink_to(p.outside / "pk")),
        write("pk/tiles.py", "x = 2", "outside")),
    "a module that is a link to another one": Route(
        "import tiles\nVALUE = tiles.x",
        steps(write("one.py", "x = 1"), write("two.py", "x = 2"),
              lambda p: (p.search / "tiles.py").symlink_to("one.py")),
        steps(remove("tiles.py"), lambda p: (p.search / "tiles.py").symlink_to("two.py"))),
    "an import of a file in another encoding": Route(
        "import outer\nVALUE = outer.x",
        steps(lambda p: (p.search / "outer.py").write_bytes(b"# coding: latin-1\n'\xe4'\nfrom tiles import x"),
              write("tiles.py", "x = 1")), write("tiles.py", "x = 2")),
    "an import in a case": Route(
        "match 1:\n    case 1:\n        import tiles\nVALUE = tiles.x", write("tiles.py", "x = 1"),
        write("tiles.py", "x = 2")),
    "the parent of a package": Route(
        "from pk.deep import tiles\nVALUE = tiles.x",
        steps(_PK, write("pk/deep/__init__.py", ""), write("pk/up.py", "x = 1"),
              write("pk/deep/tiles.py", "from ..up import x")),
        write("pk/up.py", "x = 2")),
}  # fmt: skip

NOT_IMPORTED = {
    "byte code beside a source": Route(
        "import tiles\nVALUE = tiles.x", write("tiles.py", "x = 1"), byte_code(cached("tiles.py"), "x = 2")),
    "a portion of a namespace that nothing imports": Route(
        "import spaces.one, pkgutil\nVALUE = sorted(m.name for m in pkgutil.iter_modules(spaces.__path__))",
        write("spaces/one.py", ""), write("spaces/two.py", "", "tools")),
    "modules of the own folder": Route(
        HEAD + "import pkgutil\nVALUE = [m.name for m in pkgutil.iter_modules([str(here)])]", MADE,
        write("more.py", "")),
    "modules of a package that imports all it finds": Route(
        "import pk\nVALUE = getattr(pk, 'tiles', None) and pk.tiles.x",
        steps(write("pk/__init__.py", "import pkgutil\nfor m in pkgutil.iter_modules(__path__): "
                    "__import__(f'pk.{m.name}')"), write("pk/tiles.py", "x = 1")),
        write("pk/tiles.py", "x = 2"), ("folder:{search}/pk",)),
    "a package that edits its path": Route(
        HEAD + "import pk.tiles\nVALUE = pk.tiles.x",
        steps(write("pk/__init__.py", "__path__.insert(0, __path__[0] + '/impl')"), write("pk/impl/tiles.py", "x = 1")),
        write("pk/impl/tiles.py", "x = 2"), ("folder:{search}/pk/impl",), "ModuleNotFoundError"),
    "a module of a lazy package": Route(
        "import pk\nVALUE = pk.tiles.x",
        steps(write("pk/__init__.py", "def __getattr__(n):\n    import importlib\n"
                    "    return importlib.import_module('.' + n, __name__)"), write("pk/tiles.py", "x = 1")),
        write("pk/tiles.py", "x = 2"), ("file:{search}/pk/tiles.py",), "ModuleNotFoundError"),
    "an import in a text": Route(
        "exec('import tiles')\nVALUE = tiles.x", write("tiles.py", "x = 1"), write("tiles.py", "x = 2"),
        ("file:{search}/tiles.py",), "ModuleNotFoundError"),
    "a relative name in another package": Route(
        "import pk, importlib\nVALUE = importlib.import_module('.tiles', package='pk').x",
        steps(_PK, write("pk/tiles.py", "x = 1")), write("pk/tiles.py", "x = 2"), ("file:{search}/pk/tiles.py",),
        "ModuleNotFoundError"),
    "a finder of the kernel's own": Route(
        HEAD + "import importlib.abc as a, importlib.util as u\nclass Finder(a.MetaPathFinder, a.Loader):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        return u.spec_from_loader(name, self) if name == 'made' else None\n"
        "    def exec_module(self, module): module.x = F.read_text()\n"
        "sys.meta_path.insert(0, Finder())\nimport made\nVALUE = made.x", MADE, CHANGED,
        ("file:{search}/tiles.json",), "files: ["),
    "a hook of the path": Route(
        HEAD + "import importlib.machinery as a\n"
        "sys.path_hooks.insert(0, a.FileFinder.path_hook((a.SourceFileLoader, ['.json'])))\n"
        "sys.path_importer_cache.clear()\nsys.path.insert(0, str(here / 'vendor'))\nimport acme\nVALUE = acme.x",
        write("vendor/acme.json", "x = 1"), write("vendor/acme.json", "x = 2"), ("folder:{search}/vendor",),
        "ModuleNotFoundError"),
    "data by a loader": Route(
        HEAD + "VALUE = __loader__.get_data(str(F))", MADE, CHANGED, ("file:{search}/tiles.json",), "files: ["),
    "an archive on the path": Route(
        HEAD + "sys.path.insert(0, str(here / 'a.zip'))\nimport tiles\nVALUE = tiles.x",
        lambda p: _module_in_archive(p, 1), lambda p: _module_in_archive(p, 2), ("file:{search}/a.zip",),
        "ModuleNotFoundError"),
    "byte code by its path": Route(
        HEAD + "from importlib.machinery import SourcelessFileLoader as L\nimport types\nm = types.ModuleType('t')\n"
        "L('t', str(here / 't.bin')).exec_module(m)\nVALUE = m.x", byte_code("t.bin", "x = 1"),
        byte_code("t.bin", "x = 2"), ("file:{search}/t.bin",), "files: ["),
    "an extension by its path": Route(
        HEAD + "from importlib.machinery import ExtensionFileLoader as L, ModuleSpec\nimport _imp\n"
        "p = str(here / 't.so')\n_imp.create_dynamic(ModuleSpec('t', L('t', p), origin=p))", MADE, write("t.so", "")),
    "resources of a namespace": Route(
        "import spaces.one, importlib.resources as r\nVALUE = sorted(f.name for f in r.files('spaces').iterdir())",
        write("spaces/one.py", ""), write("spaces/tiles.json", "")),
    "distributions of the own folder": Route(
        HEAD + "import importlib.metadata as m\n"
        "VALUE = [d.metadata['Name'] for d in m.distributions(path=[str(here / 'vendor')])]",
        MADE, write("vendor/x-1.dist-info/METADATA", "Name: x\n"), ("folder:{search}/vendor",)),
    "a package that one uses and does not require": Route(
        "import acme\nVALUE = acme.x",
        steps(install("acme", "1.0", {"acme.py": "try: from more import x\nexcept ImportError: x = 0"}),
              install("more", "1.0", {"more.py": "x = 1"})),
        install("more", "1.1", {"more.py": "x = 2"}), ("distribution:more",)),
    "a package that only precast itself uses": Route(
        "import importlib\nVALUE = importlib.import_module('stand' + 'in').x",
        install("standin", "1.0", {"standin.py": "x = 1"}), install("standin", "1.1", {"standin.py": "x = 2"}),
        ("distribution:standin",), "ModuleNotFoundError"),
    "a package that another one uses as precast does": Route(
        "import acme\nVALUE = acme.x",
        steps(install("acme", "1.0", {"acme.py": "try: from standin import x\nexcept ImportError: x = 0"}),
              install("standin", "1.0", {"standin.py": "x = 1"})),
        install("standin", "1.1", {"standin.py": "x = 2"}), ("distribution:standin",)),
    "a file of a package that only precast itself uses": Route(
        HEAD + "VALUE = [open(f'{f}/standin.py').read() for f in sys.path if 'venv/site' in f]",
        install("standin", "1.0", {"standin.py": "x = 1"}), install("standin", "1.1", {"standin.py": "x = 2"}),
        ("distribution:standin",), "files: ["),
    "a module beside an installed package": Route(
        "import acme\nVALUE = acme.x",
        install("acme", "1.0", {"acme.py": "try: from settings import x\nexcept ImportError: x = 0"}),
        write("settings.py", "x = 1", "site")),
    "data beside the metadata of a distribution": Route(
        _METADATA + "VALUE = m.distribution('acme').read_text('tiles.json')",
        install("acme", "1.0", {"acme.py": "", "acme-1.0.dist-info/tiles.json": "1"}),
        install("acme", "1.0", {"acme.py": "", "acme-1.0.dist-info/tiles.json": "2"})),
    "who installed a package": Route(
        _METADATA + "VALUE = m.distribution('acme').read_text('INSTALLER')",
        install("acme", "1.0", {"acme.py": ""}), write("acme-1.0.dist-info/INSTALLER", "uv", "site")),
    "where a package came from": Route(
        _METADATA + "VALUE = m.distribution('acme').read_text('direct_url.json')",
        install("acme", "1.0", {"acme.py": ""}), write("acme-1.0.dist-info/direct_url.json", "{}", "site")),
    "a list of files with byte code": Route(
        _METADATA + "VALUE = len(m.files('acme') or ())",
        install("acme", "1.0", {"acme.py": ""}),
        lambda p: p.install("acme", "1.0", {"acme.py": ""}, "__pycache__/acme.cpython-311.pyc,,")),
    "files of a distribution outside of its folder": Route(
        _METADATA + "VALUE = [f.locate().exists() for f in m.files('acme') or () if 'share' in str(f)]",
        steps(install("acme", "1.0", {"acme.py": ""}),
              lambda p: p.install("acme", "1.0", {"acme.py": ""}, "../share/tiles.json,,")),
        lambda p: p.write({"share/tiles.json": "1"}, p.site.parent)),
    "a link to a package that is relinked": Route(
        HEAD + "VALUE = (here / 'link' / 'x').read_text()",
        steps(write("one/x", "1"), write("two/x", "2"), linked("one")), linked("two"),
        ("file:{search}/link", "folder:{search}/one", "folder:{search}/two"), "files: ["),
}  # fmt: skip


def _module_in_archive(project: Project, value: int) -> None:
    import zipfile

    with zipfile.ZipFile(project.search / "a.zip", "w") as file:
        file.writestr("tiles.py", f"x = {value}")


_HOOK = "import builtins\nbuiltins.TILE = {}\n"
_TILE = "import builtins\nVALUE = builtins.TILE"
AT_THE_START = {
    "a module that a path file imports": Route(
        _TILE,
        steps(write("hook.pth", "import hook\n", "site"), write("hook.py", _HOOK.format(1), "site")),
        write("hook.py", _HOOK.format(2), "site"),
    ),
    "what such a module imports": Route(
        _TILE,
        steps(
            write("hook.pth", "import hook\n", "site"),
            write("hook.py", "import deep", "site"),
            write("deep.py", _HOOK.format(1), "site"),
        ),
        write("deep.py", _HOOK.format(2), "site"),
    ),
    "a path file of an installed package": Route(
        _TILE,
        install("acme", "1.0", {"acme.pth": "import acme_hook\n", "acme_hook.py": _HOOK.format(1)}),
        install("acme", "1.1", {"acme.pth": "import acme_hook\n", "acme_hook.py": _HOOK.format(2)}),
    ),
    "the code in a path file": Route(
        _TILE,
        write("hook.pth", "import builtins; builtins.TILE = 1\n", "site"),
        write("hook.pth", "import builtins; builtins.TILE = 2\n", "site"),
    ),
    "what sitecustomize imports": Route(
        _TILE,
        steps(write("sitecustomize.py", "import deep", "site"), write("deep.py", _HOOK.format(1), "site")),
        write("deep.py", _HOOK.format(2), "site"),
    ),
}
"""Python runs this when it starts, before anything is closed: so it is an input."""
