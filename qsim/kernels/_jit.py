"""The only place that calls numba: kernels in Python, compiled when they are first called, kept for the next process.

A call looks for the kernel compiled for the types of its arguments: in this process, in the cache folder, among the
code that comes with the package; only then is numba loaded to compile it.  Code of the package is first taken as it
is, which lets small runs start at once, and optimised for the processor at hand when it has worked for a while.
Whatever the way, the numbers have the same bits, and calls release the interpreter's lock.  The cache sees every edit
(see `qsim.kernels._cache`).

With ``NUMBA_DISABLE_JIT=1`` kernels run as plain Python and give the same bits.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from qsim.kernels import _cache
from qsim.kernels._native import Code, described, host_key, machine_code, portable
from qsim.kernels._portable import Intermediate, find

F = TypeVar("F", bound=Callable[..., Any])

_ONE_AT_A_TIME = RLock()
#: Seconds that a kernel has worked before it is worth the time to optimise it for this processor.
_PATIENCE = 0.5
_RESULTS = {"none": "", "float64": "d", "int64": "q", "uint64": "Q", "bool": "?"}


class Kernel:
    """A function of arrays and numbers, compiled for the types of its arguments.

    Attributes
    ----------
    origins : where the code for each combination of types came from: "cache", "package" or "compiler".
    file, name : of the function.
    known : all kernels.
    translations : kernel, types and code of everything that numba has compiled in this process.
    """

    known: ClassVar[list[Kernel]] = []
    translations: ClassVar[list[tuple[Kernel, str, Intermediate]]] = []

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.name = function.__name__
        self.file = Path(inspect.getfile(function))
        self.known.append(self)
        self._codes: dict[str, Code] = {}
        self.origins: dict[str, str] = {}

    def __call__(self, *args: Any) -> Any:
        types = described(args)
        code = self._codes.get(types)
        if code is None:
            with _ONE_AT_A_TIME:
                code = self._codes.get(types) or self._load(types, args)
        if code.optimised:
            return code(args)
        start = perf_counter()
        result = code(args)
        code.worked += perf_counter() - start
        if code.worked > _PATIENCE and _ONE_AT_A_TIME.acquire(blocking=False):
            # Other threads go on with the code as it is.
            try:
                self._optimise(types, code)
            finally:
                _ONE_AT_A_TIME.release()
        return result

    def __reduce__(self) -> str:
        return self._function.__qualname__

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What numba makes of the function, for use by other kernels."""
        return _numba().njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(self._function)

    def translated(self, args: tuple[Any, ...]) -> Intermediate:
        """Code for arguments of these types by numba.

        Raises
        ------
        TypeError : the result is neither a number nor nothing, or the code needs numba to run.
        """
        signature = tuple(_numba_type(value) for value in args)
        self.dispatcher.compile(signature)
        overload = self.dispatcher.overloads[signature]
        result = str(overload.signature.return_type)
        if result not in _RESULTS:
            raise TypeError(f"{self.name}: a kernel called from Python gives a number, not {result}")
        text = portable(self.dispatcher.inspect_llvm(signature), symbol=overload.fndesc.llvm_func_name)
        return Intermediate(text, _RESULTS[result])

    def _load(self, types: str, args: tuple[Any, ...]) -> Code:
        code = self._kept(types, optimised=True) or self._kept(types, optimised=False)
        origin = "cache"
        if code is None:
            found, origin = find(self.file, self.name, types=types), "package"
            if found is None:
                found, origin = self.translated(args), "compiler"
                self.translations.append((self, types, found))
            code = self._made(types, found, optimised=origin == "compiler")
        self._codes[types], self.origins[types] = code, origin
        return code

    def _optimise(self, types: str, code: Code) -> None:
        found = find(self.file, self.name, types=types)
        if found is not None and self._codes[types] is code:
            self._codes[types] = self._made(types, found, optimised=True)

    def _made(self, types: str, found: Intermediate, *, optimised: bool) -> Code:
        content = found.result.ljust(1).encode() + machine_code(found.text, optimised=optimised)
        _cache.write(self.file, content, name=self._place(types, optimised=optimised))
        return Code(content[1:], result=found.result, optimised=optimised)

    def _kept(self, types: str, *, optimised: bool) -> Code | None:
        content = _cache.read(self.file, name=self._place(types, optimised=optimised))
        if content is None:
            return None
        return Code(content[1:], result=content[:1].decode().strip(), optimised=optimised)

    def _place(self, types: str, *, optimised: bool) -> str:
        key = sha256(f"{types} {host_key()} {optimised}".encode()).hexdigest()[:16]
        return f"{self.name}-{key}"


@functools.cache
def _numba() -> Any:
    import numba
    from numba.extending import typeof_impl

    # Kernels call each other: to numba, a kernel is what numba made of its function.
    typeof_impl.register(Kernel)(lambda kernel, context: numba.types.Dispatcher(kernel.dispatcher))
    return numba


def _numba_type(value: Any) -> Any:
    numba = _numba()
    if isinstance(value, bool | np.bool_):
        return numba.types.boolean
    if isinstance(value, int | np.integer) and not isinstance(value, np.uint64):
        return numba.types.int64
    return numba.typeof(value)


def jit(function: F) -> F:
    """Compile `function`; divisions by zero give inf or nan as in C, nothing is checked."""
    disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    return _as_in_c(function) if disabled else cast(F, Kernel(function))


#: A function that is called by kernels alone, and may give tuples.
helper = jit


def _as_in_c(function: F) -> F:
    """The plain function, with the silent overflow of 64-bit words and divisions by zero of compiled code."""

    @functools.wraps(function)
    def quiet(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return cast(F, quiet)
