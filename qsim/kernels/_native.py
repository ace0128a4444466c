"""From intermediate code to machine code to a call: LLVM alone, without the compiler that wrote the code.

Importing numba and starting it up takes longer than a small simulation.  Kernels therefore come as LLVM's
intermediate code, which is independent of the processor and already optimised; here it is turned into machine code
of the processor at hand, which is loaded and called directly.  The code follows numba's calling convention: a
pointer to the result, a pointer to an exception, then the arguments with each array flattened to owner, parent,
size, item size, data, shape and strides.  Arrays allocated inside kernels come from the C library.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

#: The name of the function in the code of every kernel.
SYMBOL = "kernel"

#: What code may call: functions of C's library that every process has.
LIBRARY = frozenset(
    ("malloc", "free", "memset", "memcpy", "memmove", "exp", "expm1", "log", "log1p", "pow", "sqrt", "floor", "ceil")
)

#: Types of results, as `described` writes types.
_RESULTS: dict[str, Any] = {"d": ctypes.c_double, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "?": ctypes.c_bool}

_TARGET_READY = False
_ENGINES: list[Any] = []


def described(args: tuple[Any, ...]) -> str:
    """The types of the arguments as text, e.g. ``<f8 1,d,(<i8 2,q)`` for an array, a float and a tuple."""
    return ",".join(map(_described, args))


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        layout = "" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return f"{value.dtype.str} {value.ndim}{layout}{'' if value.flags.writeable else 'r'}"
    if isinstance(value, tuple):
        return f"({described(value)})"
    if isinstance(value, bool | np.bool_):
        return "?"
    if isinstance(value, np.uint64):
        return "Q"
    if isinstance(value, int | np.integer):
        return "q"
    if isinstance(value, float):
        return "d"
    raise TypeError(f"kernels take arrays, numbers and tuples of them, not {type(value).__name__}")


class Code:
    """Machine code, loaded; called with arguments of the types it was compiled for.

    Attributes
    ----------
    optimised : for the processor at hand.
    worked : seconds it has been seen to work, if it is not.
    """

    def __init__(self, machine_code: bytes, *, result: str, optimised: bool) -> None:
        self.optimised = optimised
        self.worked = 0.0
        _check_library()
        # An engine owns its target, and the code: it must outlive every thread that may be at work in it.
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _host())
        engine.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
        engine.finalize_object()
        _ENGINES.append(engine)
        self._address = engine.get_function_address(SYMBOL)
        self._result = _RESULTS[result] if result else None
        self._function: Callable[..., int] | None = None

    def __call__(self, args: tuple[Any, ...]) -> Any:
        values: list[Any] = []
        _flatten(args, values)
        if self._function is None:
            types = [ctypes.c_void_p, ctypes.c_void_p]
            _flatten_types(args, types)
            # Functions of this kind release the lock of the interpreter while they work.
            self._function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._address)
        result = ctypes.c_int64() if self._result is None else self._result()
        exception = ctypes.c_void_p()
        if self._function(ctypes.addressof(result), ctypes.addressof(exception), *values) != 0:
            raise MemoryError("an array inside a kernel could not be allocated")
        return None if self._result is None else result.value


def _flatten(args: tuple[Any, ...], values: list[Any]) -> None:
    for value in args:
        if isinstance(value, np.ndarray):
            values += (None, None, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        elif isinstance(value, tuple):
            _flatten(value, values)
        else:
            values.append(float(value) if isinstance(value, float) else int(value))


def _flatten_types(args: tuple[Any, ...], types: list[Any]) -> None:
    for value in args:
        if isinstance(value, np.ndarray):
            whole, pointer = ctypes.c_int64, ctypes.c_void_p
            types += [pointer, pointer, whole, whole, pointer, *([whole] * (2 * value.ndim))]
        elif isinstance(value, tuple):
            _flatten_types(value, types)
        elif isinstance(value, float):
            types.append(ctypes.c_double)
        elif isinstance(value, bool | np.bool_):
            types.append(ctypes.c_uint8)
        else:
            types.append(ctypes.c_uint64 if isinstance(value, np.uint64) else ctypes.c_int64)


def machine() -> str:
    """The kind of machine that code is for, e.g. ``x86_64``."""
    triple: str = llvm.get_process_triple()
    return triple.partition("-")[0]


def processor() -> str:
    """The type of processor that kernels are compiled for; their bits may depend on it."""
    name: str = llvm.get_host_cpu_name()
    return name


@functools.cache
def host_key() -> str:
    """A hash of what machine code depends on beyond its source."""
    parts = (llvm.get_process_triple(), processor(), llvm.get_host_cpu_features().flatten(), llvm.llvm_version_info)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def machine_code(intermediate: str, *, optimised: bool) -> bytes:
    """Machine code for the processor at hand, of the code as it is or, four times as long, `optimised` once more."""
    module, target = llvm.parse_assembly(intermediate), _host()
    if optimised:
        _optimise(module, target, vectors=True)
    code: bytes = target.emit_object(module)
    return code


def _optimise(module: Any, target: Any, *, vectors: bool, speed: int = 3) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=speed)
    tuning.loop_vectorization, tuning.slp_vectorization = vectors, False
    builder = llvm.create_pass_builder(target, tuning)
    passes = builder.getModulePassManager()
    if speed == 0:
        passes.add_loop_rotate_pass()
        passes.add_instruction_combine_pass()
        passes.add_jump_threading_pass()
    # Counts of references of arrays that never leave the kernel cancel.
    passes.add_refprune_pass()
    passes.run(module, builder)


def portable(intermediate: str, *, symbol: str) -> str:
    """Optimised code whose only visible function is `SYMBOL`, with the kernel's `symbol` before.

    Raises
    ------
    TypeError : the code calls what is no part of C's library, or holds addresses of this process.
    """
    generic = _target().create_target_machine(cpu="", features="", **_OPTIONS)
    module = llvm.parse_assembly(intermediate)
    module.link_in(llvm.parse_assembly(_ALLOCATION))
    module.get_function(symbol).name = SYMBOL
    for item in (*module.functions, *module.global_variables):
        if not item.is_declaration and item.name != SYMBOL:
            item.linkage = "internal"
    # What is inlined in one pass over all functions shows in the next one.
    for speed in (0, 3, 3):
        _optimise(module, generic, vectors=False, speed=speed)
    builder = llvm.create_pass_builder(generic, llvm.create_pipeline_tuning_options(speed_level=3))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, builder)
    called = {item.name for item in module.functions if item.is_declaration and not item.name.startswith("llvm.")}
    text = str(module)
    if called - LIBRARY or "inttoptr (" in text:
        raise TypeError(f"kernels cannot use {sorted(called - LIBRARY) or 'addresses of this process'}")
    return text


def _target() -> Any:
    global _TARGET_READY
    if not _TARGET_READY:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _TARGET_READY = True
    return llvm.Target.from_triple(llvm.get_process_triple())


_OPTIONS: dict[str, Any] = {
    "opt": 3,
    # Code that is loaded at once needs no table of addresses on Intel's machines, and must have one elsewhere.
    "reloc": "static" if machine() == "x86_64" else "default",
    "codemodel": "jitdefault",
    "jit": True,
}


def _host() -> Any:
    features = llvm.get_host_cpu_features().flatten()
    return _target().create_target_machine(cpu=processor(), features=features, **_OPTIONS)


@functools.cache
def _check_library() -> None:
    """Make sure that the loader finds C's library: it aborts the process on a name that it does not know."""
    missing = [name for name in sorted(LIBRARY) if llvm.address_of_symbol(name) is None]
    if missing:
        libraries = [ctypes.CDLL(ctypes.util.find_library(name)) for name in ("c", "m", "msvcrt")]
        for name in missing:
            found = [library for library in libraries if hasattr(library, name)]
            if not found:
                raise OSError(f"the C library of this system has no function {name}")
            llvm.add_symbol(name, ctypes.cast(getattr(found[0], name), ctypes.c_void_p).value)


#: numba's two calls for arrays that a kernel allocates: a head with a count of references and, 24 bytes on, a pointer
#: to the data behind it.
_ALLOCATION = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)

define noalias ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %alignment) {
entry:
  %align = zext i32 %alignment to i64
  %room = add i64 %size, %align
  %whole = add i64 %room, 64
  %block = call noalias ptr @malloc(i64 %whole)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %done, label %fill
fill:
  store i64 1, ptr %block
  %start = ptrtoint ptr %block to i64
  %end = add i64 %start, 63
  %over = add i64 %end, %align
  %mask = sub i64 0, %align
  %place = and i64 %over, %mask
  %data = inttoptr i64 %place to ptr
  %field = getelementptr i8, ptr %block, i64 24
  store ptr %data, ptr %field
  br label %done
done:
  ret ptr %block
}

define void @NRT_MemInfo_call_dtor(ptr %block) {
  call void @free(ptr %block)
  ret void
}
"""
