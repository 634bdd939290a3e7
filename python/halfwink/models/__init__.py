"""Models of single worlds beside a comparison: closed forms, profiles, tables of their own."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.models.circuits import Fabric, Schedule, circuit_schedule, fabric
    from halfwink.models.fabric_advice import CircuitAdvice, circuit_advice
    from halfwink.models.io_paths import io_path
    from halfwink.models.preheat import PreheatSimulation
    from halfwink.models.preheat import simulate as preheat_simulation
    from halfwink.models.profiles import OsProfile, os_profile, os_profiles
    from halfwink.models.request_profile import RequestProfile, stated_profile
    from halfwink.models.segregation import SegregationSweep, segregation_sweep
    from halfwink.models.service import ServiceProfile, service_profile

__all__ = [
    "CircuitAdvice",
    "Fabric",
    "OsProfile",
    "PreheatSimulation",
    "RequestProfile",
    "Schedule",
    "SegregationSweep",
    "ServiceProfile",
    "circuit_advice",
    "circuit_schedule",
    "fabric",
    "io_path",
    "os_profile",
    "os_profiles",
    "preheat_simulation",
    "segregation_sweep",
    "service_profile",
    "stated_profile",
]
#: Module of each name.
_HOMES = {
    "CircuitAdvice": "models.fabric_advice",
    "Fabric": "models.circuits",
    "OsProfile": "models.profiles",
    "PreheatSimulation": "models.preheat",
    "RequestProfile": "models.request_profile",
    "Schedule": "models.circuits",
    "SegregationSweep": "models.segregation",
    "ServiceProfile": "models.service",
    "circuit_advice": "models.fabric_advice",
    "circuit_schedule": "models.circuits",
    "fabric": "models.circuits",
    "io_path": "models.io_paths",
    "os_profile": "models.profiles",
    "os_profiles": "models.profiles",
    "preheat_simulation": "models.preheat",
    "segregation_sweep": "models.segregation",
    "service_profile": "models.service",
    "stated_profile": "models.request_profile",
}
__getattr__ = lazily(__name__, _HOMES, {"preheat_simulation": "simulate"})
