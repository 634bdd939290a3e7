"""Idle states as Linux' command line overrides them: ``intel_idle.table=C1:2:2,C6:150:600``.

The format is that of the module parameter ``table`` of ``intel_idle`` (Linux 7.0): for each state
its name, exit latency and target residency in microseconds; an empty field leaves a value as it is.
"""

from __future__ import annotations

from halfwink.errors import HalfwinkError

#: The kernel parameter, which stands for values of a machine's ``idle_states``.
KERNEL_PARAMETER = "intel_idle.table"
#: Values of a state, in the order in which the parameter has them.
_FIELDS = ("exit_us", "residency_us")
_EXPECTED = "expected NAME:EXIT_US:RESIDENCY_US,..., as C1E:5:20,C6::400"


def expanded(path: str, value: str) -> list[tuple[str, str]]:
    """Returns the values that a setting stands for: itself, unless it is the kernel parameter.

    Raises:
        HalfwinkError: the parameter's text is not as Linux reads it.
    """
    if path != KERNEL_PARAMETER:
        return [(path, value)]
    found: dict[str, str] = {}
    for state in value.strip("\"'").split(","):
        name, *numbers = state.strip().lower().split(":")
        is_state = name.isidentifier() and len(numbers) == len(_FIELDS) and any(numbers)
        if not is_state or not all(n == "" or (n.isascii() and n.isdigit()) for n in numbers):
            raise HalfwinkError(f"{KERNEL_PARAMETER}={value}: `{state}`: {_EXPECTED}")
        for field, number in zip(_FIELDS, numbers, strict=True):
            key = f"idle_states.{name}.{field}"
            if key in found:
                raise HalfwinkError(f"{KERNEL_PARAMETER}={value}: `{name}` stands there twice")
            if number:
                found[key] = number
    return list(found.items())
