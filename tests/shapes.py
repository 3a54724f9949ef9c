"""What `discern.agent` says of its arrays is checked at every call: arguments, results, fields of NamedTuples."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

AN_INT_IS_A_FLOAT = BeartypeConf(is_pep484_tower=True)


def checked(function: Callable) -> Callable:
    """The function with its signature checked, by beartype and, inside NamedTuples, by `check`."""
    typed, signature = beartype(conf=AN_INT_IS_A_FLOAT)(function), inspect.signature(function)

    @functools.wraps(function)
    def look_inside(*arguments: Any, **options: Any) -> Any:
        for name, value in signature.bind(*arguments, **options).arguments.items():
            if signature.parameters[name].annotation is not Any:
                check(value)
        return typed(*arguments, **options)

    return look_inside


def check(value: Any) -> None:
    """Refuses a NamedTuple, or one in a tuple, whose arrays are not what it says; axes of one name are equally long."""
    if type(value).__name__ == "Replay":  # the trajectories it stores are more than those of a batch
        with jaxtyping.jaxtyped("context"):
            check_fields(value)
    elif isinstance(value, tuple):
        check_fields(value)


def check_fields(value: tuple) -> None:
    for part in value:
        check(part)
    for name, hint in arrays_of(type(value)):
        array = getattr(value, name)
        if array is not None and not isinstance(array, hint):
            raise TypeError(f"{type(value).__name__}.{name} is {array.dtype}{array.shape}, not {hint.__name__}")


@functools.cache
def arrays_of(kind: type) -> list[tuple[str, type]]:
    """The fields that are arrays, and which; those with an axis that is computed from others come last."""
    if not hasattr(kind, "_fields") or not kind.__module__.startswith("discern."):
        return []
    hints = get_type_hints(kind, vars(jaxtyping) | vars(sys.modules[kind.__module__]))
    found = [(name, part) for name, hint in hints.items() for part in (get_args(hint) or (hint,))]
    arrays = [entry for entry in found if isinstance(entry[1], type) and issubclass(entry[1], jaxtyping.AbstractArray)]
    return sorted(arrays, key=lambda entry: "+" in entry[1].dim_str)
