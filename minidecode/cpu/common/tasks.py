"""Functions that threads run task by task.

    @in_tasks()
    def _double(task, x_RD, y_RD):
        for d in range(x_RD.shape[1]):
            y_RD[task, d] = 2 * x_RD[task, d]
        return DONE

    parallel_for(_double, len(x_RD), (x_RD, y_RD), ALL_WORKERS)

Threads find their work on a table of whole numbers (thread_pool.py), and a captured step is a list of such work
(graph.py). A compiled function is the address of its code. Its arguments are a structure in memory: numbers, and for
each array its address, its shape and its strides. The structure is copied to the table as it is, 8 bytes a number.
Where Numba compiles a call, it knows the types of all arguments. There it compiles the function for them, too, and a
wrapper that reads the structure. So functions get arrays of any shape and dtype, and these are not copied: the caller
keeps them until all tasks are done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from .jit import njit
from .thread_pool import FAILED, queue_and_run_tasks

NUMBER = ir.IntType(64)
NUMBERS = types.Array(types.int64, 1, "C")


def in_tasks(**options: Any) -> Callable[[Callable[..., int]], Any]:
    """The decorator: from `function(task, *arguments)` to the compiled function that `parallel_for` calls.

    `function` gets the number of its task, and behind it arrays and numbers. It returns DONE, or REFUSED before it
    writes anything if they do not fit. It raises nothing but MemoryError. options: of Numba's njit.
    """

    def decorate(function: Callable[..., int]) -> Any:
        task = njit(**options | {"cache": False, "nogil": True, "no_cpython_wrapper": True})(function)

        def queue(tasks, table, *arguments):
            return queue_and_run_tasks(tasks, _address_of(task, arguments), _pack_in_numbers(arguments), table)

        code = function.__code__  # Numba names the file on disk by these, and knows by them that it is stale
        queue.__code__ = queue.__code__.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
        queue.__module__, queue.__name__, queue.__doc__ = function.__module__, function.__name__, function.__doc__
        queue.__qualname__ = function.__qualname__
        return njit(cache=True, nogil=True)(queue)

    return decorate


@intrinsic
def _pack_in_numbers(typing_context, arguments):
    """The structure of these arguments, as an array of whole numbers that lives as long as the call."""

    def emit_numbers(context, builder, signature, values):
        structure = values[0]
        for i, kind in enumerate(arguments):
            if isinstance(kind, types.Array):  # threads do not count who holds it
                array = context.make_array(kind)(context, builder, builder.extract_value(structure, i))
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                structure = builder.insert_value(structure, array._getvalue(), i)
        size = -(-context.get_abi_sizeof(structure.type) // 8)
        place = cgutils.alloca_once(builder, NUMBER, size)
        builder.store(structure, builder.bitcast(place, structure.type.as_pointer()))
        numbers = context.make_array(NUMBERS)(context, builder)
        populate_array(numbers, place, [NUMBER(size)], [NUMBER(8)], 8, None)
        return numbers._getvalue()

    return NUMBERS(arguments), emit_numbers


@intrinsic
def _address_of(typing_context, function, arguments):
    """The address of code that calls the function, given the address of its arguments' structure, and a task."""
    kinds = types.int64, *arguments
    function.get_call_type(typing_context, kinds, {})  # compiles it
    compiled = function.dispatcher.overloads[kinds]

    def emit_address(context, builder, signature, values):
        name = builder.module.get_unique_name("task")
        wrapper = ir.Function(builder.module, ir.FunctionType(NUMBER, [NUMBER, NUMBER]), name)
        wrapper.linkage = "internal"
        inner = ir.IRBuilder(wrapper.append_basic_block())
        place = inner.inttoptr(wrapper.args[0], context.get_value_type(arguments).as_pointer())
        values = [wrapper.args[1], *cgutils.unpack_tuple(inner, inner.load(place))]
        callee = context.declare_function(builder.module, compiled.fndesc)
        context.add_linking_libs([compiled.library])
        status, done = context.call_conv.call_function(inner, callee, types.int64, kinds, values)
        inner.ret(inner.select(status.is_error, NUMBER(FAILED), done))
        return builder.ptrtoint(wrapper, NUMBER)

    return types.int64(function, arguments), emit_address
