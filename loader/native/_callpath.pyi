"""Types of the call path, which ``callpath/module.c`` defines."""

from typing import Any

DRIVER_FUNCTIONS: tuple[str, ...]
PROGRAM_ENTRY: int
RESULT_ENTRY: int

class Launcher:
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def _arm(self, entry: int, program: int = 0, allocates: bool = True) -> None: ...

def open_program(code: bytes, cubin: bytes, driver: tuple[int, ...]) -> int: ...
def ready_program(program: int, device: int) -> None: ...
